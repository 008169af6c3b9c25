// A lock with a condition: state that threads wait on. Used by the disk threads only; event loops never wait.

import Glibc

/// A value behind a mutex, with one condition variable to wait on changes of the value.
@safe
public final class Monitor<Value: ~Copyable>: Sendable {
    private let mutex = PthreadMutex()
    // SAFETY: allocated once and freed in deinit; used only with `mutex`, as pthread_cond_wait(3) demands.
    nonisolated(unsafe) private let condition: UnsafeMutablePointer<pthread_cond_t>
    // SAFETY: reached only while holding `mutex`.
    nonisolated(unsafe) private var value: Value
    private let rank: LockRank

    /// Makes a monitor of the given lock rank round `value`.
    public init(_ value: consuming sending Value, rank: LockRank) {
        unsafe self.value = value
        self.rank = rank
        unsafe condition = .allocate(capacity: 1)
        var attributes = pthread_condattr_t()
        unsafe pthread_condattr_init(&attributes)
        // Waits are measured on the monotonic clock: a wall clock jump must not stretch them.
        unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        let result = unsafe pthread_cond_init(condition, &attributes)
        invariant(result == 0, "pthread_cond_init: \(result)")
        unsafe pthread_condattr_destroy(&attributes)
    }

    deinit {
        unsafe pthread_cond_destroy(condition)
        unsafe condition.deallocate()
    }

    /// Runs `body` with the value, holding the lock.
    public func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        acquire()
        defer { release() }
        return try unsafe body(&value)
    }

    /// Runs `body`, then wakes every waiter.
    public func update<Result: ~Copyable>(_ body: (inout Value) -> Result) -> Result {
        acquire()
        defer { release() }
        let result = unsafe body(&value)
        unsafe pthread_cond_broadcast(condition)
        return result
    }

    /// Waits until `body` returns a value, asking after each `update`, or until `milliseconds` have passed (nil: for
    /// ever).
    ///
    /// Returns nil on timeout.
    public func wait<Result: ~Copyable>(
        milliseconds: Int64? = nil, until body: (inout Value) -> Result?
    ) -> Result? {
        let deadline = milliseconds.map { Self.absolute(afterMilliseconds: $0) }
        acquire()
        defer { release() }
        while true {
            if let result = unsafe body(&value) { return result }
            if var deadline {
                if unsafe pthread_cond_timedwait(condition, mutex.raw, &deadline) == ETIMEDOUT {
                    return unsafe body(&value)
                }
            } else {
                unsafe pthread_cond_wait(condition, mutex.raw)
            }
        }
    }

    private func acquire() {
        #if DEBUG
            HeldRanks.push(rank)
        #endif
        mutex.lock()
    }

    private func release() {
        mutex.unlock()
        #if DEBUG
            HeldRanks.pop(rank)
        #endif
    }

    private static func absolute(afterMilliseconds milliseconds: Int64) -> timespec {
        var now = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &now)
        let nanoseconds = Int64(now.tv_nsec) + (milliseconds % 1000) * 1_000_000
        return timespec(
            tv_sec: now.tv_sec + Int(milliseconds / 1000) + Int(nanoseconds / 1_000_000_000),
            tv_nsec: Int(nanoseconds % 1_000_000_000))
    }
}
