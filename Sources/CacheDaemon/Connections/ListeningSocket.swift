// Opens listening sockets: TCP on one or several addresses, and a Unix socket.
//
// Nothing here accepts; the server hands the descriptors to listeners. See ip(7), ipv6(7) and unix(7).

import Glibc
import Primitives

/// Why an address cannot be listened on.
struct ListenError: Error, CustomStringConvertible {
    let address: String
    let reason: String

    var description: String { "cannot listen on \(address): \(reason)" }

    init(_ address: String, _ reason: String) {
        self.address = address
        self.reason = reason
    }

    init(_ address: String, _ operation: String, _ code: Int32) {
        // SAFETY: strerror(3) returns a string that is copied at once.
        self.init(address, "\(operation): \(unsafe String(cString: strerror(code)))")
    }
}

/// Which file a path leads to, links not followed; equal to nothing's if there is none.
private struct FileIdentity: Equatable {
    var device: UInt64 = 0
    var inode: UInt64 = 0

    init() {}

    init(_ path: String) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { return }
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
    }
}

/// A bound, listening, non-blocking socket; the holder closes it or hands it on.
struct ListeningSocket {
    /// Connections that the kernel keeps until they are accepted; cut to net.core.somaxconn.
    static let backlog: Int32 = 4096

    let fd: Int32
    /// The address as bound: with the port that the kernel chose for port 0.
    let address: String
    /// The TCP port, or nil.
    let port: Int?
    /// The path of a Unix socket that we have made, or nil.
    let path: String?
    /// Which file was made there.
    private var file = FileIdentity()
    /// Whether its connections are not encrypted even where others are.
    var isPlain = false

    init(fd: Int32, address: String, port: Int?, path: String? = nil, isPlain: Bool = false) {
        self.fd = fd
        self.address = address
        self.port = port
        self.path = path
        self.isPlain = isPlain
        if let path { file = FileIdentity(path) }
    }

    // MARK: TCP

    /// Listens on every address that `address` stands for; a name may have several.
    static func open(_ address: ListenAddress) throws(ListenError) -> [ListeningSocket] {
        var hints = unsafe addrinfo()
        unsafe hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        unsafe hints.ai_protocol = Int32(IPPROTO_TCP)
        var list: UnsafeMutablePointer<addrinfo>?
        let host: String? = address.host.isEmpty || address.host == "*" ? nil : address.host
        let code = unsafe getaddrinfo(host, "\(address.port)", &hints, &list)
        guard code == 0 else {
            throw ListenError("\(address)", unsafe String(cString: gai_strerror(code)))
        }
        // SAFETY: the list is walked before it is freed.
        defer { unsafe freeaddrinfo(list) }
        var sockets: [ListeningSocket] = []
        var missing: ListenError?
        var next = unsafe list
        while let info = unsafe next {
            unsafe next = info.pointee.ai_next
            do throws(ListenError) {
                var socket = try unsafe open(info.pointee, "\(address)")
                socket.isPlain = address.isPlain
                sockets.append(socket)
            } catch {
                // A host without IPv6 still has names with IPv6 addresses.
                guard errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL else {
                    for socket in sockets { close(socket.fd) }
                    throw error
                }
                missing = error
            }
        }
        if sockets.isEmpty, let missing { throw missing }
        return sockets
    }

    private static func open(_ info: addrinfo, _ name: String) throws(ListenError) -> ListeningSocket {
        let fd = unsafe try make(family: info.ai_family, name)
        set(fd, SOL_SOCKET, SO_REUSEADDR)
        if unsafe info.ai_family == AF_INET6 { set(fd, Int32(IPPROTO_IPV6), IPV6_V6ONLY) }
        guard unsafe bind(fd, info.ai_addr, info.ai_addrlen) == 0 else { throw closing(fd, name, "bind") }
        guard listen(fd, backlog) == 0 else { throw closing(fd, name, "listen") }
        let bound = PeerAddress.local(fd)
        return ListeningSocket(fd: fd, address: "\(bound)", port: bound.portNumber)
    }

    private static func make(family: Int32, _ name: String) throws(ListenError) -> Int32 {
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let fd = socket(family, kind, 0)
        guard fd >= 0 else { throw ListenError(name, "socket", errno) }
        return fd
    }

    /// Closes `fd` and keeps `errno` for the caller.
    private static func closing(_ fd: Int32, _ name: String, _ operation: String) -> ListenError {
        let code = errno
        close(fd)
        errno = code
        return ListenError(name, operation, code)
    }

    /// Switches a socket option on.
    ///
    /// Failure costs only the option.
    static func set(_ fd: Int32, _ level: Int32, _ option: Int32) {
        var one: Int32 = 1
        _ = unsafe setsockopt(fd, level, option, &one, socklen_t(MemoryLayout<Int32>.size))
    }

    /// The value of a socket option of SOL_SOCKET; -1 if `fd` is no socket.
    static func option(_ fd: Int32, _ option: Int32) -> Int32 {
        var value: Int32 = -1
        var size = socklen_t(MemoryLayout<Int32>.size)
        return unsafe getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1
    }

    // MARK: Unix

    /// Listens on a Unix socket with the permission bits `mode`.
    ///
    /// A socket file that nobody listens on any more is replaced; anything else at the path is left alone.
    static func open(path: String, mode: UInt32) throws(ListenError) -> ListeningSocket {
        let fd = try make(family: AF_UNIX, path)
        guard let address = UnixAddress(path) else {
            close(fd)
            throw ListenError(path, "the path is too long for a Unix socket")
        }
        if unsafe address.call(fd, bind) != 0 {
            guard errno == EADDRINUSE else { throw closing(fd, path, "bind") }
            do throws(ListenError) {
                try removeStale(address, path)
            } catch {
                close(fd)
                throw error
            }
            guard unsafe address.call(fd, bind) == 0 else { throw closing(fd, path, "bind") }
        }
        // The process's umask, 0077, made the file private; it is opened up only now.
        guard unsafe chmod(path, mode) == 0 else { throw closing(fd, path, "chmod") }
        guard listen(fd, backlog) == 0 else { throw closing(fd, path, "listen") }
        return ListeningSocket(fd: fd, address: "unix:\(path)", port: nil, path: path, isPlain: true)
    }

    /// Removes the file of a Unix socket, unless somebody has put another one in its place.
    func removeFile() {
        guard let path, FileIdentity(path) == file else { return }
        _ = unsafe unlink(path)
    }

    private static func removeStale(_ address: UnixAddress, _ path: String) throws(ListenError) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { throw ListenError(path, "lstat", errno) }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw ListenError(path, "there is a file that is not a socket")
        }
        let probe = try make(family: AF_UNIX, path)
        defer { close(probe) }
        if unsafe address.call(probe, connect) == 0 { throw ListenError(path, "another process listens there") }
        guard errno == ECONNREFUSED else { throw ListenError(path, "connect", errno) }
        guard unsafe unlink(path) == 0 else { throw ListenError(path, "unlink", errno) }
    }
}
