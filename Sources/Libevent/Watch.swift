// Descriptors, timers and signals that a loop watches.
//
// Each type owns one libevent event and one Swift action. libevent holds an unretained pointer to the owner; `deinit`
// removes the event, so libevent never calls into a dead object, and during a call the object is held. This file is
// the only one that hands Swift objects to C. All types belong to their loop's thread.

internal import CLibevent
internal import Glibc
internal import Primitives

/// One libevent event with the action that it runs.
@safe
final class Event {
    // SAFETY: made at the end of init, freed in deinit; `loop` is held, so the base outlives the event. nil only inside
    // init, because libevent needs this object's address.
    private var raw: OpaquePointer?
    private let loop: EventLoop
    private let action: () -> Void

    /// Makes an event that is not yet pending.
    ///
    /// `descriptor` is an fd, a signal number, or -1 for a pure timer.
    init(loop: EventLoop, descriptor: Int32, kinds: Int32, action: @escaping () -> Void) {
        loop.preconditionOnThread()
        self.loop = loop
        self.action = action
        let argument = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe raw = clibevent_event_new(
            loop.base, descriptor, kinds, { argument in unsafe fire(argument) }, argument)
        invariant(unsafe raw != nil, "event_new refused fd \(descriptor), kinds \(kinds)")
    }

    deinit {
        loop.preconditionOnThread()
        unsafe clibevent_event_free(raw)
    }

    /// Makes the event pending, with a timeout if given.
    func add(afterMilliseconds milliseconds: Int64? = nil) throws(EventLoopError) {
        let result = unsafe clibevent_event_add(raw, milliseconds ?? -1)
        guard result == 0 else { throw EventLoopError(operation: "event_add", code: errno) }
    }

    /// Takes the event off the loop.
    func remove() {
        let result = unsafe clibevent_event_remove(raw)
        invariant(result == 0, "event_del failed")
    }

    fileprivate func run() { action() }
}

/// libevent's callback: `argument` is the `Event` that fired.
private func fire(_ argument: UnsafeMutableRawPointer?) {
    guard let argument = unsafe argument else { return }
    // SAFETY: the event is removed in the object's deinit, so it lives now; the local reference keeps it for the call.
    unsafe Unmanaged<Event>.fromOpaque(argument).takeUnretainedValue().run()
}

/// What a watch waits for.
public enum Interest: Sendable {
    /// Bytes, end of file, an error, or a connection to accept.
    case readable
    /// Room to write, or an error.
    case writable
}

/// Watches one descriptor for one kind of readiness.
///
/// Level-triggered: it fires each turn while the condition holds.
public final class Watch {
    private let event: Event
    /// Whether the loop now watches the descriptor.
    public private(set) var isActive = false

    /// Makes a watch that is not yet active.
    ///
    /// The descriptor must stay open while the watch lives.
    public init(loop: EventLoop, fd: Int32, _ interest: Interest, action: @escaping () -> Void) {
        let kind = interest == .readable ? CLIBEVENT_READABLE : CLIBEVENT_WRITABLE
        event = Event(loop: loop, descriptor: fd, kinds: Int32(kind | CLIBEVENT_PERSISTENT), action: action)
    }

    /// Starts watching.
    ///
    /// Does nothing when already active.
    ///
    /// - Throws: `EventLoopError` when epoll refuses the descriptor (memory, or the per-user limit of watches).
    public func start() throws(EventLoopError) {
        guard !isActive else { return }
        try event.add()
        isActive = true
    }

    /// Stops watching.
    ///
    /// Does nothing when not active.
    public func stop() {
        guard isActive else { return }
        event.remove()
        isActive = false
    }
}

/// A timer on the monotonic clock.
public final class Timer {
    private let event: Event

    /// Makes a timer that is not set.
    public init(loop: EventLoop, action: @escaping () -> Void) {
        event = Event(loop: loop, descriptor: -1, kinds: 0, action: action)
    }

    /// Fires once, `milliseconds` from now; a timer that was set before is moved.
    ///
    /// - Throws: `EventLoopError` when memory is refused.
    public func set(afterMilliseconds milliseconds: Int64) throws(EventLoopError) {
        try event.add(afterMilliseconds: max(0, milliseconds))
    }

    /// Forgets the timer.
    public func cancel() { event.remove() }
}

/// Runs an action on the loop when the process gets a signal.
///
/// At most one loop of a process may watch signals.
public final class SignalWatch {
    private let event: Event

    /// Starts watching `signal`; its default effect is gone until the watch dies.
    ///
    /// - Throws: `EventLoopError` when the signal cannot be caught or memory is refused.
    public init(loop: EventLoop, signal: Int32, action: @escaping () -> Void) throws(EventLoopError) {
        event = Event(
            loop: loop, descriptor: signal, kinds: Int32(CLIBEVENT_SIGNAL | CLIBEVENT_PERSISTENT), action: action)
        try event.add()
    }
}
