// The whole directory was removed, renamed or unmounted under a running cache: makes it again, empty.
//
// Runs on the writer's thread while the tier is out of use: nobody appends to the journal then, no reader has a row.
// The new directory continues the old one's hash seed, epochs and journal sequence, because memory and clients know
// them. Whatever is found at the path meanwhile is not believed; what is not ours is left alone, and tried again later.

import Glibc
import Primitives

extension DiskTier {
    /// Makes the directory anew, with a lock, a FORMAT, an anchor, an empty store and an empty journal.
    func renewDirectory() throws {
        let former = directory
        // Held on a file that nobody can find any more.
        former.release()
        let fresh = try StoreDirectory.open(path: options.directory)
        _ = try fresh.start(
            policy: .discard, durability: DiskStart.durability(options), bootID: DiskStart.bootID, succeeding: former)
        let made = try JournalPlace(fresh, options).makeNew(
            capacity: journal.capacity, sequence: journal.extent.sequence)
        made.unmap()
        try journal.move(to: fresh.openJournal())
        replaceDirectory(fresh)
    }
}
