// The journal's place in the directory: finding what is there, and putting an empty journal there.
//
// A new journal is made beside the present one and takes its name when it is whole, so that a crash at any moment
// leaves a journal that tells what it knows: one that is barred, or cannot be read, goes only after the store that it
// speaks against. Used by the thread that opens the disk tier, then by the disk writer.

import Glibc
import Primitives

struct JournalPlace {
    let directory: StoreDirectory
    /// The kernel's boot id, hashed.
    let boot: UInt64
    /// Whether a new journal is to be on the device before anything is appended to it.
    let syncs: Bool

    init(_ directory: StoreDirectory, _ options: DiskOptions) {
        self.directory = directory
        boot = DiskStart.bootHash
        // Where a store is believed after a power cut, a header that is missing then would speak against it.
        syncs = options.durability == .always || options.durability == .process && options.afterPowerLoss == .keep
    }

    func find(indexSequence: UInt64) throws -> JournalFile.Found {
        try JournalFile.find(
            descriptor: directory.openJournal(), seed: directory.hashSeed, boot: boot, indexSequence: indexSequence)
    }

    /// Puts an empty journal there, whose first record comes after `sequence`.
    ///
    /// `capacity` is in bytes; where there is no room for two journals, the present one goes first, and the new one is
    /// no larger.
    func makeNew(capacity: Int, sequence: UInt64) throws -> JournalFile {
        do {
            return try makeBeside(capacity, sequence)
        } catch let failure as JournalFile.Failure where failure.isForRoom {
            let present = (try directory.root.status(StoreDirectory.journalName)?.bytes ?? 0) - JournalFile.headerBytes
            try directory.removeJournals()
            return try makeBeside(present > 0 ? min(present & ~4095, capacity) : capacity, sequence)
        }
    }

    private func makeBeside(_ capacity: Int, _ sequence: UInt64) throws -> JournalFile {
        let journal = try JournalFile.make(
            descriptor: directory.openNewJournal(), capacity: capacity, seed: directory.hashSeed, boot: boot,
            sequence: sequence, syncs: syncs)
        do {
            try directory.adoptNewJournal(syncs: syncs)
        } catch {
            journal.unmap()
            throw error
        }
        return journal
    }
}
