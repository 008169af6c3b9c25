// What becomes of the store at a start, and at a quarantine while running.
//
// Order at a start: decide; move a store that is not trusted aside, with its journal; then raise the epoch in the
// anchor and sync it; then make a new store. A crash between any two steps leaves a state from which the next start
// decides the same or starts empty: in particular, the anchor says "running in this boot" only once nothing is left
// that had to go. The index's own checks come later (DiskIndex), for they need SQLite.

import Glibc
import Primitives

/// What happens to a store after a reboot that no orderly stop preceded, unless it was written with `always`.
enum UncleanRebootPolicy: Sendable {
    /// Start empty: never stale.
    case discard
    /// Use what is there: old values and deleted entries may come back.
    case keep
}

/// What `start` found, and did.
enum StartVerdict: Sendable, Equatable {
    /// There was no store; a new one was made.
    case fresh
    /// The store is used as it is.
    case resumed(afterCrash: Bool)
    /// The store could not be trusted and was renamed to quarantine-<epoch>; a new one was made.
    case quarantined(String)
    /// The store was dropped as the durability demands; a new one was made.
    case discarded(String)

    /// Whether the journal belongs to the store and its tail may be replayed.
    var journalIsValid: Bool {
        if case .resumed = self { true } else { false }
    }
}

extension StoreDirectory {
    /// Decides what becomes of the store, raises the epoch, and makes the store ready to be opened.
    ///
    /// `durability` is that of the run that begins. `bootID` is the kernel's; an empty one equals none. With `former`,
    /// this directory takes the place of one that was lost while running: it goes on with the seed, the epochs and the
    /// clock of that one, and a store that it holds is not believed.
    func start(
        policy: UncleanRebootPolicy, durability: StoreDurability, bootID: String,
        clock source: any TimeSource = SystemClock(), succeeding former: StoreDirectory? = nil
    ) throws(StoreError) -> StartVerdict {
        invariant(anchor == nil, "started twice")
        let content = try readSmallFile(root, Self.anchorName, bytesMax: StoreAnchor.fileBytes)
        let found = content.flatMap { StoreAnchor.newest(in: $0) }
        let hasStore = try root.status(Self.storeName) != nil
        if let former, let format, format.seed != former.hashSeed {
            throw .notOurs("\(root.path) holds the store of another cache")
        }
        let verdict =
            former != nil && hasStore
            ? .quarantined("found in place of the directory that was lost")
            : judge(found, hasAnchor: content?.isEmpty == false, hasStore: hasStore, policy, bootID)
        let isFirst = content == nil && !hadFormat && !hasStore
        let epoch = max(try nextEpoch(after: found, isFirst: isFirst), (former?.epoch ?? 0) + 1)

        switch verdict {
        case .resumed: break
        case .fresh: try root.unlink(Self.journalName)
        case .quarantined: try moveStoreAside(Self.quarantinePrefix, epoch: epoch)
        case .discarded: try moveStoreAside(Self.discardedPrefix, epoch: epoch)
        }
        if format == nil {
            let new = StoreFormat(seed: former?.hashSeed ?? KernelRandom.word())
            try write(new)
            format = new
        }
        let clock = former?.clock ?? Self.clock(source, found, verdict, bootID)
        let file = try AnchorFile(in: root, name: Self.anchorName)
        var slot = StoreAnchor(
            epoch: epoch, write: (found?.write ?? 0) &+ 1,
            sequence: verdict.journalIsValid ? found?.sequence ?? 0 : 0, durability: durability, bootID: bootID)
        slot.moment = clock.moment()
        // Both slots: the older one must tell of this epoch, too, and of no clean stop.
        try file.write(slot)
        slot.write &+= 1
        try file.write(slot)
        try file.sync()
        anchorFile = file
        anchor = slot
        self.clock = clock
        try openStore()
        if case .quarantined(let reason) = verdict { note(reason, inQuarantineOf: epoch) }
        return verdict
    }

    /// Notes how far the index got.
    ///
    /// Call it after each commit, before the acknowledgement. With `sync`, waits until the anchor is on disk. A clean
    /// and synced stop vouches for the index after a power loss, so `DiskIndex.sync` comes before it. It need not vouch
    /// for value files: one that did not reach the disk fails its checks and is a miss.
    func writeAnchor(sequence: UInt64, clean: Bool, sync: Bool) throws(StoreError) {
        guard var slot = anchor, let anchorFile else { throw .notOurs("\(root.path): not started") }
        slot.write &+= 1
        slot.moment = clock?.moment()
        slot.sequence = sequence
        slot.stop = clean ? (sync ? .cleanAndSynced : .clean) : .running
        try anchorFile.write(slot)
        if sync { try anchorFile.sync() }
        anchor = slot
    }

    /// Renames the store to quarantine-<epoch> while running, raises the epoch, and makes a new store.
    ///
    /// Close the index, its readers and forget the value files first. The journal stays: what it holds beyond the
    /// commits of the old store is newer than anything in the new one.
    func quarantine(_ reason: String) throws(StoreError) {
        guard var slot = anchor, let anchorFile else { throw .notOurs("\(root.path): not started") }
        store = nil
        values = nil
        slot.epoch = try nextEpoch(after: slot, isFirst: false)
        try renameStore(Self.quarantinePrefix, epoch: slot.epoch)
        try root.sync()
        slot.moment = clock?.moment()
        slot.sequence = 0
        slot.stop = .running
        for _ in 0..<2 {
            slot.write &+= 1
            try anchorFile.write(slot)
        }
        try anchorFile.sync()
        anchor = slot
        indexWasReplaced()
        try openStore()
        note(reason, inQuarantineOf: slot.epoch)
    }

    /// What `start` would decide, and the sequence that the index must have reached; nothing is changed.
    func foresee(policy: UncleanRebootPolicy, bootID: String) throws(StoreError) -> (StartVerdict, StoreAnchor?) {
        let content = try readSmallFile(root, Self.anchorName, bytesMax: StoreAnchor.fileBytes)
        let found = content.flatMap { StoreAnchor.newest(in: $0) }
        let hasStore = try root.status(Self.storeName) != nil
        return (judge(found, hasAnchor: content?.isEmpty == false, hasStore: hasStore, policy, bootID), found)
    }

    private func judge(
        _ found: StoreAnchor?, hasAnchor: Bool, hasStore: Bool, _ policy: UncleanRebootPolicy, _ bootID: String
    ) -> StartVerdict {
        if !hasStore { return .fresh }
        if format == nil { return .quarantined(hadFormat ? "FORMAT is damaged" : "FORMAT is missing") }
        guard let found else { return .quarantined(hasAnchor ? "the anchor is damaged" : "the anchor is missing") }
        let isSameBoot = !bootID.isEmpty && found.bootID == bootID
        #if DEBUG
            if SeededBug.isActive(.rebootIgnored) { return .resumed(afterCrash: true) }
        #endif
        if found.stop == .cleanAndSynced || (found.stop == .clean && isSameBoot) {
            return .resumed(afterCrash: false)
        }
        if found.durability == .none { return .discarded("an unclean stop with durability none") }
        if isSameBoot || found.durability == .always || policy == .keep { return .resumed(afterCrash: true) }
        return .discarded("an unclean reboot with durability process")
    }

    /// The time of the store that the verdict leaves: one that begins anew begins with civil time.
    private static func clock(
        _ source: any TimeSource, _ found: StoreAnchor?, _ verdict: StartVerdict, _ bootID: String
    ) -> StoreClock {
        verdict.journalIsValid ? StoreClock(source, resuming: found, bootID: bootID) : StoreClock(source)
    }

    /// A random number from 2^21 to below 2^22: nobody starts a store so often, and many more epochs come after it.
    private static func epochWithoutAnchor() -> UInt32 {
        1 << 21 | UInt32(truncatingIfNeeded: KernelRandom.word()) >> 11
    }

    /// One more than the last; without an anchor, far above whatever it may have been.
    private func nextEpoch(after found: StoreAnchor?, isFirst: Bool) throws(StoreError) -> UInt32 {
        let epoch =
            if let found { found.epoch + 1 } else if isFirst { UInt32(1) } else { Self.epochWithoutAnchor() }
        guard epoch <= StoreAnchor.epochMax else {
            throw .notOurs("\(root.path): the epochs are used up; remove the directory to begin anew")
        }
        return epoch
    }

    /// Moves the store aside, and drops the journal, which belongs to it.
    private func moveStoreAside(_ prefix: String, epoch: UInt32) throws(StoreError) {
        try root.unlink(Self.journalName)
        try renameStore(prefix, epoch: epoch)
        try root.sync()
    }

    private func renameStore(_ prefix: String, epoch: UInt32) throws(StoreError) {
        guard try root.status(Self.storeName) != nil else { return }
        var name = "\(prefix)\(epoch)"
        var attempt = 1
        while try root.status(name) != nil {
            attempt += 1
            name = "\(prefix)\(epoch)-\(attempt)"
        }
        try root.rename(Self.storeName, to: name)
    }

    /// Leaves the reason beside what it explains, for whoever looks at it later.
    ///
    /// A full disk may refuse: no matter.
    private func note(_ reason: String, inQuarantineOf epoch: UInt32) {
        do throws(StoreError) {
            guard let directory = try root.subdirectory("\(Self.quarantinePrefix)\(epoch)", create: false),
                let descriptor = try directory.openFile("REASON", O_WRONLY | O_CREAT | O_TRUNC)
            else { return }
            defer { close(descriptor) }
            var text = reason + "\n"
            _ = text.withUTF8 { unsafe writeFully(descriptor, at: 0, UnsafeRawBufferPointer($0)) }
        } catch {
            // The log has the reason, too.
        }
    }

    private func openStore() throws(StoreError) {
        let isNew = try root.status(Self.storeName) == nil
        store = try root.subdirectory(Self.storeName, create: true)
        values = try store?.subdirectory(Self.valuesName, create: true)
        if isNew {
            // The names of FORMAT and anchor, too, where they are new: then the store is.
            try store?.sync()
            try root.sync()
            _ = Self.syncName(of: root.path)
        }
        for directory in [store, values] {
            guard let status = try directory?.status() else { continue }
            guard status.owner == geteuid(), status.mode & 0o022 == 0 else {
                throw .notOurs("\(root.path)/\(Self.storeName) belongs to someone else or is writable by others")
            }
        }
    }

    /// Writes FORMAT under another name and renames it: it is there as a whole, or not.
    private func write(_ format: StoreFormat) throws(StoreError) {
        let name = "\(Self.formatName).new"
        let path = "\(root.path)/\(name)"
        try root.unlink(name)
        guard let descriptor = try root.openFile(name, O_WRONLY | O_CREAT | O_EXCL) else { return }
        defer { close(descriptor) }
        var text = format.text
        // SAFETY: writeFully gets a buffer's own base and count, and keeps nothing.
        guard text.withUTF8({ unsafe writeFully(descriptor, at: 0, UnsafeRawBufferPointer($0)) }) else {
            throw .failed("write", path)
        }
        guard fsync(descriptor) == 0 else { throw .failed("fsync", path) }
        try root.rename(name, to: Self.formatName)
    }
}

/// Owns the open anchor file.
final class AnchorFile {
    private let descriptor: Int32
    private let path: String

    init(in directory: Directory, name: String) throws(StoreError) {
        path = "\(directory.path)/\(name)"
        descriptor = try directory.openFile(name, O_RDWR | O_CREAT) ?? -1
        guard try FileStatus(descriptor: descriptor, path: path).isOurPlainFile else {
            throw .notOurs("\(path) is not a plain file of ours")
        }
    }

    deinit { close(descriptor) }

    func write(_ slot: StoreAnchor) throws(StoreError) {
        let isWritten = unsafe slot.bytes.withUnsafeBytes {
            unsafe writeFully(descriptor, at: slot.slot * StoreAnchor.slotBytes, $0)
        }
        if !isWritten { throw .failed("write", path) }
    }

    func sync() throws(StoreError) {
        if fdatasync(descriptor) != 0 { throw .failed("fdatasync", path) }
    }
}
