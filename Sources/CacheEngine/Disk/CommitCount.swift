// Counts the commits of the index, so that whoever holds a snapshot of it knows whether that is the newest state.
//
// The writer counts a commit before it forgets the batch's pending writes, which takes the locks of their shards. So
// who has found, under its shard's lock, that a key has no pending write, and then reads the count, holds a snapshot
// that has all writes of the key if it was begun at that count. A commit that failed counts, too: it may be there. Any
// thread.

import Synchronization

/// How many commits there were.
final class CommitCount: Sendable {
    private let count = Atomic<UInt64>(0)

    /// Commits so far.
    var now: UInt64 { count.load(ordering: .acquiring) }

    /// There was one more.
    func advance() { count.wrappingAdd(1, ordering: .releasing) }
}
