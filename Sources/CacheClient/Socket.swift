// One connected stream socket: TCP with TCP_NODELAY, or Unix, encrypted or not. Non-blocking and close-on-exec always;
// whoever wants to wait does it with `wait`, or with an event loop on `descriptor`. It knows no protocol. Has one
// owner, may move between threads. Sources: socket(7), tcp(7), unix(7), connect(2), getaddrinfo(3).

import Glibc
import Primitives
internal import TLS

/// Owns the file descriptor of one connected socket.
@safe
public struct Socket: ~Copyable, Sendable {
    /// What came of one attempt to move bytes.
    public enum Transfer: Equatable, Sendable {
        /// So many bytes moved, at least one.
        case moved(Int)
        /// Nothing can move now; wait first.
        case wouldBlock
        /// The peer has closed its side.
        case closed
        /// The call failed with this errno.
        case failed(Int32)
        /// Encryption failed, for this reason.
        case untrusted(String)
    }

    /// What a waiter was told.
    public enum Readiness: Equatable, Sendable {
        /// The socket can be read from or written to, as flagged; errors count as both.
        case ready(read: Bool, write: Bool)
        /// The time is over.
        case timedOut
    }

    /// The file descriptor; owned, so never close it.
    public let descriptor: Int32
    /// Set once, by `encrypt`.
    private var tls: Optional<TLSSession>

    private init(owning descriptor: Int32) {
        self.descriptor = descriptor
        tls = nil
    }

    deinit { close(descriptor) }

    /// Connects to `address`, trying each of the host's addresses in the resolver's order.
    ///
    /// Each attempt, and the handshake, may last `timeout` milliseconds. Name resolution blocks for as long as the
    /// system's resolver does. The server's certificate must be for the host; over a Unix socket any name will do.
    /// - Throws: the last attempt's failure.
    public init(
        connectingTo address: ServerAddress, encryption: Encryption? = nil, timeoutMilliseconds timeout: Int
    ) throws(ClientError) {
        do throws(ClientError.Cause) {
            self = try Self.connected(address, encryption, timeout)
        } catch {
            throw ClientError(operation: "connect", address: address, cause: error)
        }
    }

    /// Sends what the kernel takes of `bytes`; never raises SIGPIPE.
    ///
    /// See send(2).
    public borrowing func send(_ bytes: UnsafeRawBufferPointer) -> Transfer {
        if let tls { return outcome(unsafe tls.write(bytes)) }
        return unsafe outcome(Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL)))
    }

    /// Receives what is there into `room`, which is not empty.
    ///
    /// With encryption, at most one record; room for 16 KiB takes a whole one, so that nothing is held back that
    /// polling could not tell. See recv(2).
    public borrowing func receive(into room: UnsafeMutableRawBufferPointer) -> Transfer {
        if let tls { return outcome(unsafe tls.read(into: room)) }
        let count = unsafe recv(descriptor, room.baseAddress, room.count, 0)
        return count == 0 ? .closed : outcome(count)
    }

    /// Waits until the socket is readable, or writable too if `orWritable`.
    ///
    /// See poll(2).
    public borrowing func wait(orWritable: Bool, timeoutMilliseconds: Int) -> Readiness {
        Self.wait(descriptor, read: true, write: orWritable, timeoutMilliseconds)
    }

    private borrowing func outcome(_ step: TLSStep) -> Transfer {
        switch step {
        case .moved(let count): .moved(count)
        case .wantsRead, .wantsWrite: .wouldBlock
        case .ended, .broken: .closed
        case .failed(let reason): .untrusted(reason)
        }
    }

    /// Shakes hands, waiting at most `milliseconds` for each step.
    private mutating func encrypt(
        _ encryption: Encryption, host: String?, _ milliseconds: Int
    ) throws(ClientError.Cause) {
        guard let session = TLSSession(encryption.context, fd: descriptor, host: host) else {
            throw .encryption("'\(host ?? "")' cannot be checked against a certificate")
        }
        while true {
            let step = session.shakeHands()
            switch step {
            case .moved:
                tls = session
                return
            case .wantsRead, .wantsWrite:
                let wantsWrite = step == .wantsWrite
                guard Self.wait(descriptor, read: !wantsWrite, write: wantsWrite, milliseconds) != .timedOut else {
                    throw .timedOut(milliseconds: milliseconds)
                }
            case .ended, .broken: throw .closed
            case .failed(let reason): throw .encryption(reason)
            }
        }
    }

    private borrowing func outcome(_ count: Int) -> Transfer {
        if count >= 0 { return .moved(count) }
        switch errno {
        case EAGAIN, EINTR: return .wouldBlock
        case ECONNRESET, EPIPE: return .closed
        default: return .failed(errno)
        }
    }
}

extension Socket {
    private static func connected(
        _ address: ServerAddress, _ encryption: Encryption?, _ timeout: Int
    ) throws(ClientError.Cause) -> Socket {
        switch address {
        case .tcp(let host, let port):
            var socket = try connectTCP(host, port, timeout)
            if let encryption { try socket.encrypt(encryption, host: host, timeout) }
            return socket
        case .unix(let path):
            var socket = try connectUnix(path, timeout)
            if let encryption { try socket.encrypt(encryption, host: nil, timeout) }
            return socket
        }
    }

    private static func connectTCP(_ host: String, _ port: UInt16, _ timeout: Int) throws(ClientError.Cause) -> Socket {
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        unsafe hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let result = unsafe getaddrinfo(host, "\(port)", &hints, &list)
        if result != 0 { throw .unresolved(unsafe String(cString: gai_strerror(result))) }
        // SAFETY: getaddrinfo's list is walked by its own links and freed once, here.
        defer { unsafe freeaddrinfo(list) }
        var failure = ClientError.Cause.unresolved("no address")
        var next = unsafe list
        while let candidate = unsafe next?.pointee {
            unsafe next = candidate.ai_next
            do throws(ClientError.Cause) {
                let socket = try unsafe connected(candidate.ai_family, candidate.ai_addr, candidate.ai_addrlen, timeout)
                var one: Int32 = 1
                // A refused option costs speed only.
                _ = unsafe setsockopt(
                    socket.descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
                return socket
            } catch {
                failure = error
            }
        }
        throw failure
    }

    private static func connectUnix(_ path: String, _ timeout: Int) throws(ClientError.Cause) -> Socket {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        if bytes.count > ServerAddress.pathBytesMax { throw .system(call: "connect", errno: ENAMETOOLONG) }
        // SAFETY: the path and its zero fit `sun_path` by the check above; the address is cast as connect(2) demands.
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
        return try unsafe withUnsafePointer(to: &address) { pointer throws(ClientError.Cause) in
            try unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw throws(ClientError.Cause) in
                try unsafe connected(AF_UNIX, raw, socklen_t(MemoryLayout<sockaddr_un>.size), timeout)
            }
        }
    }

    private static func connected(
        _ family: Int32, _ address: UnsafePointer<sockaddr>?, _ length: socklen_t, _ timeout: Int
    ) throws(ClientError.Cause) -> Socket {
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(family, type, 0)
        if descriptor < 0 { throw .system(call: "socket", errno: errno) }
        let owner = Socket(owning: descriptor)
        if unsafe Glibc.connect(descriptor, address, length) == 0 { return owner }
        // EAGAIN: a Unix listener's queue is full; waiting does not help there, so it fails as the kernel says.
        let refusal = errno
        if refusal != EINPROGRESS { throw .system(call: "connect", errno: refusal) }
        if wait(owner.descriptor, read: false, write: true, timeout) == .timedOut {
            throw .timedOut(milliseconds: timeout)
        }
        var failure: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        let result = unsafe getsockopt(owner.descriptor, SOL_SOCKET, SO_ERROR, &failure, &size)
        if result != 0 { throw .system(call: "getsockopt", errno: errno) }
        if failure != 0 { throw .system(call: "connect", errno: failure) }
        return owner
    }

    private static func wait(_ descriptor: Int32, read: Bool, write: Bool, _ milliseconds: Int) -> Readiness {
        let deadline = monotonicMilliseconds() + Int64(milliseconds)
        while true {
            let events = Int16(read ? POLLIN : 0) | Int16(write ? POLLOUT : 0)
            var entry = pollfd(fd: descriptor, events: events, revents: 0)
            let remaining = max(deadline - monotonicMilliseconds(), 0)
            let result = unsafe poll(&entry, 1, Int32(clamping: remaining))
            if result == 0 { return .timedOut }
            if result < 0 {
                invariant(errno == EINTR, "poll: errno \(errno)")
                continue
            }
            let broken = entry.revents & Int16(POLLERR | POLLHUP | POLLNVAL) != 0
            return .ready(
                read: broken || entry.revents & Int16(POLLIN) != 0, write: broken || entry.revents & Int16(POLLOUT) != 0
            )
        }
    }

    private static func monotonicMilliseconds() -> Int64 { SystemClock().now().milliseconds }
}
