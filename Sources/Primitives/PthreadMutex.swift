// A plain pthread mutex, for what the standard library's `Mutex` cannot do: ThreadSanitizer builds, and waiting.

import Glibc

/// Owns one `pthread_mutex_t`.
///
/// Use `Guarded` instead, wherever nothing waits on a condition.
@safe
public final class PthreadMutex: Sendable {
    // SAFETY: allocated once here and freed in deinit; pthread functions are themselves thread-safe.
    nonisolated(unsafe) let raw: UnsafeMutablePointer<pthread_mutex_t>

    /// Makes an unlocked mutex.
    public init() {
        unsafe raw = .allocate(capacity: 1)
        let result = unsafe pthread_mutex_init(raw, nil)
        invariant(result == 0, "pthread_mutex_init: \(result)")
    }

    deinit {
        unsafe pthread_mutex_destroy(raw)
        unsafe raw.deallocate()
    }

    /// Locks; traps on misuse (EDEADLK, EINVAL are our bugs).
    public func lock() {
        let result = unsafe pthread_mutex_lock(raw)
        invariant(result == 0, "pthread_mutex_lock: \(result)")
    }

    /// Unlocks what this thread locked.
    public func unlock() {
        let result = unsafe pthread_mutex_unlock(raw)
        invariant(result == 0, "pthread_mutex_unlock: \(result)")
    }
}
