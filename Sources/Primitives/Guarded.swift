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
    /// Memory, which anybody may want whatever he holds, as from malloc.
    case allocator = 62
}

/// A value that can be reached only while holding its lock.
///
/// Not recursive, not fair: a short spin, then a futex. Holders must be short and must not do I/O, except where the
/// lock's owner says so.
@safe
public final class Guarded<Value: ~Copyable>: Sendable {
    #if TSAN
        @usableFromInline let lock = PthreadMutex()
    #else
        // `Mutex<Value>.withLock` demands that whatever goes in or out is `sending`, which pointers into the guarded
        // state cannot be. The lock without a value is part of the same API for such uses.
        @usableFromInline let mutex = Mutex(())
    #endif
    // SAFETY: allocated in `init`, freed in `deinit`, reached only between `acquire` and `release`. Behind a pointer,
    // so that the run time does not check the exclusivity that the lock already gives.
    @usableFromInline nonisolated(unsafe) let value: UnsafeMutablePointer<Value>
    @usableFromInline let rank: LockRank

    /// Makes a lock of the given rank round `value`.
    public init(_ value: consuming sending Value, rank: LockRank) {
        self.rank = rank
        unsafe self.value = .allocate(capacity: 1)
        unsafe self.value.initialize(to: value)
    }

    deinit {
        unsafe value.deinitialize(count: 1)
        unsafe value.deallocate()
    }

    /// Runs `body` with the value, holding the lock.
    @inlinable
    @inline(__always)
    public func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        #if DEBUG
            HeldRanks.push(rank)
            defer { HeldRanks.pop(rank) }
        #endif
        acquire()
        defer { release() }
        return try unsafe body(&value.pointee)
    }

    /// Like `withLock`, for code that takes all locks of one rank in a fixed order, such as the shards by index.
    ///
    /// Only the first of them is checked against the lock order; the caller keeps the order among the rest.
    public func withLockInIndexOrder<Result: ~Copyable>(
        isFirst: Bool, _ body: (inout Value) -> Result
    ) -> Result {
        if isFirst { return withLock(body) }
        acquire()
        defer { release() }
        return unsafe body(&value.pointee)
    }

    @inlinable
    @inline(__always)
    func acquire() {
        #if TSAN
            lock.lock()
        #else
            mutex._unsafeLock()
        #endif
    }

    @inlinable
    @inline(__always)
    func release() {
        #if TSAN
            lock.unlock()
        #else
            mutex._unsafeUnlock()
        #endif
    }
}
