// One libevent base, owned by the thread that made it.
//
// The loop turns: each turn waits for events, runs their actions, then runs the owner's end-of-turn work. Everything
// in this module except `Wakeup.signal` may be used only on the loop's own thread; the base is built without locks.
// It knows nothing about connections, caches or policy. See event_base_loop(3) in libevent's headers.

internal import CLibevent
internal import Glibc
internal import Primitives

/// Why a loop or a watch could not be made: the kernel refused a descriptor or memory.
public struct EventLoopError: Error, CustomStringConvertible {
    /// The libevent or system call that failed.
    public let operation: String
    /// `errno` at that moment.
    public let code: Int32

    /// The operation and the system's message for the code.
    public var description: String { "\(operation): \(systemMessage(code))" }
}

/// What the owner wants after a turn.
public enum NextTurn: Sendable {
    /// Sleep until an event comes.
    case wait
    /// Look for events without sleeping: there is work left over.
    case poll
    /// Leave `run`.
    case stop
}

/// An event loop.
///
/// Not thread-safe: every call must come from the thread that made it.
@safe
public final class EventLoop {
    /// The version of the library, such as `2.1.12-stable`.
    public static var libraryVersion: String {
        // SAFETY: a constant string of the library's.
        unsafe String(cString: clibevent_version())
    }

    // SAFETY: made in init, freed in deinit, used only on `thread`; watches hold the loop, so they die before it.
    let base: OpaquePointer
    private let thread: pthread_t

    /// Makes a loop that belongs to the current thread.
    ///
    /// - Throws: `EventLoopError` when the kernel refuses an epoll descriptor or memory.
    public init() throws(EventLoopError) {
        guard let base = unsafe clibevent_base_new() else {
            throw EventLoopError(operation: "event_base_new", code: errno)
        }
        unsafe self.base = base
        thread = pthread_self()
    }

    deinit { unsafe clibevent_base_free(base) }

    /// Turns until `endOfTurn` answers `.stop`.
    ///
    /// Each turn waits for events and runs the actions of all that came; the first does not wait.
    ///
    /// - Parameter endOfTurn: Called after the actions of each turn; says how to go on.
    public func run(_ endOfTurn: () -> NextTurn) {
        preconditionOnThread()
        var next = NextTurn.poll
        while next != .stop {
            let result = unsafe clibevent_base_turn(base, next == .wait ? 1 : 0)
            invariant(result >= 0, "event_base_loop failed: \(systemMessage(errno))")
            next = endOfTurn()
        }
    }

    /// Traps when called from another thread than the loop's own.
    @inline(__always)
    public func preconditionOnThread() {
        invariant(pthread_equal(pthread_self(), thread) != 0, "an event loop was used from a foreign thread")
    }
}

/// The system's words for an error number.
func systemMessage(_ code: Int32) -> String {
    // SAFETY: strerror(3) always returns a string, in glibc a thread's own; it is copied at once.
    unsafe String(cString: strerror(code))
}
