// Lets other threads wake a loop: an eventfd that the loop watches.
//
// `signal` is the only thing of this module that any thread may call. Signals that come before the loop looked are one:
// a burst of a thousand costs one system call. See eventfd(2).

internal import CLibevent
internal import Glibc
internal import Primitives
internal import Synchronization

/// Wakes a loop from any thread.
public final class Wakeup: Sendable {
    private let fd: Int32
    private let isSignalled = Atomic<Bool>(false)

    /// Opens the descriptor.
    ///
    /// - Throws: `EventLoopError` when the kernel refuses one.
    public init() throws(EventLoopError) {
        fd = clibevent_eventfd()
        guard fd >= 0 else { throw EventLoopError(operation: "eventfd", code: errno) }
    }

    deinit { close(fd) }

    /// Wakes the loop, or does nothing if a wake is already on its way.
    ///
    /// Any thread.
    public func signal() {
        guard !isSignalled.exchange(true, ordering: .acquiringAndReleasing) else { return }
        var one: UInt64 = 1
        // EAGAIN would mean 2^64 - 2 pending signals; EINTR does not happen on a non-blocking eventfd.
        // SAFETY: eight bytes are written from, and read into, a local of that size.
        let written = unsafe write(fd, &one, 8)
        invariant(written == 8, "write(eventfd): \(systemMessage(errno))")
    }

    /// Watches for signals on `loop`.
    ///
    /// The action runs once for all signals that came before it.
    ///
    /// - Throws: `EventLoopError` when epoll refuses the descriptor.
    public func watch(on loop: EventLoop, action: @escaping () -> Void) throws(EventLoopError) -> Watch {
        let watch = Watch(loop: loop, fd: fd, .readable) { [self] in
            clear()
            action()
        }
        try watch.start()
        return watch
    }

    /// Cleared before the action looks at the shared state: a signal after this point is a new one.
    private func clear() {
        var count: UInt64 = 0
        _ = unsafe read(fd, &count, 8)
        // A full barrier, so that the action's reads come after: pairs with the exchange in `signal`.
        _ = isSignalled.exchange(false, ordering: .acquiringAndReleasing)
    }
}
