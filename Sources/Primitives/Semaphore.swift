// A counting semaphore, see sem_overview(7).

import Glibc

/// Counts permits: `wait` takes one, sleeping while there is none; `signal` gives one back.
@safe
public final class Semaphore: Sendable {
    // SAFETY: allocated once and freed in deinit; sem_* functions are thread-safe.
    nonisolated(unsafe) private let raw: UnsafeMutablePointer<sem_t>

    /// Makes a semaphore with `permits` permits.
    public init(permits: UInt32 = 0) {
        unsafe raw = .allocate(capacity: 1)
        let result = unsafe sem_init(raw, 0, permits)
        invariant(result == 0, "sem_init: errno \(errno)")
    }

    deinit {
        unsafe sem_destroy(raw)
        unsafe raw.deallocate()
    }

    /// Takes a permit, waiting for one.
    public func wait() {
        while unsafe sem_wait(raw) != 0 {
            invariant(errno == EINTR, "sem_wait: errno \(errno)")
        }
    }

    /// Takes a permit if there is one; false if it would have to wait.
    public func take() -> Bool {
        while unsafe sem_trywait(raw) != 0 {
            if errno == EAGAIN { return false }
            invariant(errno == EINTR, "sem_trywait: errno \(errno)")
        }
        return true
    }

    /// Gives a permit.
    public func signal() {
        let result = unsafe sem_post(raw)
        invariant(result == 0, "sem_post: errno \(errno)")
    }
}
