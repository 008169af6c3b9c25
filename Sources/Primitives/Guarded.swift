// The only lock of the house: state and lock are one thing.
//
// `Guarded(State(), rank: .shard)` can be reached only through `withLock`, so nobody forgets the lock, and the nested
// `State` type is the list of what the lock guards. Ranks are the written lock order: a debug build traps at once when
// a thread takes a lock whose rank is not above every rank it already holds.
//
// Under `-D TSAN` the lock is a pthread mutex: ThreadSanitizer does not understand `Synchronization.Mutex` on Linux and
// reports correctly locked state as a race.

#if !TSAN
    public import Synchronization
#endif

/// The lock order.
///
/// A thread may take a lock only if its rank is above those of all locks that it holds.
public enum LockRank: Int, Sendable {
    /// Wiring of a daemon or of a cache: start, stop, reload.
    case lifecycle = 10
    /// One shard of the memory tier: table, LRU list, pending writes, disk reads in flight.
    case shard = 20
    /// The journal's append position. Taken inside a shard, so that journal order is memory order for each key.
    case journal = 30
    /// Queues of the disk threads.
    case diskQueue = 40
    /// A worker's mailbox. Posting is always the last thing that a holder of other locks does.
    case mailbox = 50
    /// Event observers, counters, logs: leaves that call nobody.
    case leaf = 60
}

/// A value that can be reached only while holding its lock.
///
/// Not recursive, not fair. Holders must be short and must not do I/O, except where the lock's owner says so.
public final class Guarded<Value: ~Copyable>: Sendable {
    #if TSAN
        @usableFromInline let lock: PthreadMutex
        // SAFETY: only reached between lock() and unlock() of `lock`.
        @usableFromInline nonisolated(unsafe) var value: Value
    #else
        @usableFromInline let mutex: Mutex<Value>
    #endif
    @usableFromInline let rank: LockRank

    /// Makes a lock of the given rank round `value`.
    public init(_ value: consuming sending Value, rank: LockRank) {
        self.rank = rank
        #if TSAN
            self.lock = PthreadMutex()
            unsafe self.value = value
        #else
            self.mutex = Mutex(value)
        #endif
    }

    /// Runs `body` with the value, holding the lock.
    @inlinable
    @inline(__always)
    public func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        #if DEBUG
            HeldRanks.push(rank)
            defer { HeldRanks.pop(rank) }
        #endif
        #if TSAN
            lock.lock()
            defer { lock.unlock() }
            return try unsafe body(&value)
        #else
            return try mutex.withLock(body)
        #endif
    }
}
