// Accepts connections from one listening socket.
//
// libevent's own listener spins when descriptors run out: accept(2) fails at once, the socket stays readable, and the
// loop turns hundreds of thousands of times a second. Here the listener pauses instead and tries again by timer, with
// doubling waits. It owns the listening descriptor and belongs to its loop's thread; accepted ones go to the owner.

internal import CLibevent
internal import Glibc
internal import Primitives

/// An accepting socket on a loop.
public final class Listener {
    private let fd: Int32
    private let onConnection: (Int32) -> Void
    private let onShortage: (Int32) -> Void
    private var watch: Watch?
    private var retry: Timer?
    private var pauseMilliseconds = Listener.pauseMillisecondsMin

    /// First and longest wait after descriptors or memory ran out.
    static let pauseMillisecondsMin: Int64 = 10
    static let pauseMillisecondsMax: Int64 = 1000
    /// Connections taken in one turn, so that a flood of them does not starve the loop's other events.
    static let acceptedPerTurnMax = 64

    /// Starts accepting.
    ///
    /// Takes over `fd`, a bound, listening, non-blocking socket, also when it throws.
    ///
    /// - Parameters:
    ///   - onConnection: Gets each accepted descriptor (non-blocking, close-on-exec) and owns it.
    ///   - onShortage: Gets the `errno` each time that accepting pauses: EMFILE, ENFILE, ENOBUFS or ENOMEM.
    /// - Throws: `EventLoopError` when epoll refuses the descriptor.
    public init(
        loop: EventLoop, fd: Int32, onConnection: @escaping (Int32) -> Void, onShortage: @escaping (Int32) -> Void
    ) throws(EventLoopError) {
        self.fd = fd
        self.onConnection = onConnection
        self.onShortage = onShortage
        let retry = Timer(loop: loop) { [unowned self] in resume() }
        let watch = Watch(loop: loop, fd: fd, .readable) { [unowned self] in acceptAll() }
        self.retry = retry
        self.watch = watch
        try watch.start()
    }

    deinit {
        watch?.stop()
        close(fd)
    }

    /// Whether the socket is watched now; false while a shortage lasts.
    public var isAccepting: Bool { watch?.isActive ?? false }

    private func acceptAll() {
        for _ in 0..<Self.acceptedPerTurnMax {
            let connection = clibevent_accept(fd)
            if connection >= 0 {
                pauseMilliseconds = Self.pauseMillisecondsMin
                onConnection(connection)
                continue
            }
            switch errno {
            case EAGAIN: return
            case EMFILE, ENFILE, ENOBUFS, ENOMEM: return pause(errno)
            // Anything else concerns one connection that died in the queue (see accept(2)): the next may be fine.
            default: continue
            }
        }
    }

    /// Stops accepting until the timer fires.
    ///
    /// The timer comes first: without memory for it the pause would never end.
    private func pause(_ code: Int32) {
        onShortage(code)
        do throws(EventLoopError) {
            try retry?.set(afterMilliseconds: pauseMilliseconds)
            watch?.stop()
        } catch {
            return
        }
        pauseMilliseconds = min(pauseMilliseconds * 2, Self.pauseMillisecondsMax)
    }

    private func resume() {
        do throws(EventLoopError) {
            try watch?.start()
        } catch {
            pause(error.code)
        }
    }
}
