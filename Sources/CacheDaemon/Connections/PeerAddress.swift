// Who is at the other end of a socket, in words.

import Glibc

/// The address of a connection's client.
@safe
struct PeerAddress: CustomStringConvertible {
    /// The numeric address without port; `unix` for a Unix socket, `unknown` when the kernel does not say.
    let host: String
    private let port: String

    /// Asks the kernel about `fd`; see getpeername(2).
    init(_ fd: Int32) { unsafe self.init(fd) { unsafe getpeername($0, $1, $2) } }

    /// The address that `fd` itself is bound to; see getsockname(2).
    static func local(_ fd: Int32) -> PeerAddress { unsafe PeerAddress(fd) { unsafe getsockname($0, $1, $2) } }

    private typealias Ask = (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32

    private init(_ fd: Int32, ask: Ask) {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        var host = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        var port = [CChar](repeating: 0, count: Int(NI_MAXSERV))
        // SAFETY: the storage holds any address family; lengths are passed along, and the strings are terminated.
        let isKnown = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                guard unsafe ask(fd, address, &length) == 0 else { return false }
                guard unsafe Int32(address.pointee.sa_family) != AF_UNIX else { return false }
                return unsafe getnameinfo(
                    address, length, &host, socklen_t(host.count), &port, socklen_t(port.count),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0
            }
        }
        let isUnix = Int32(storage.ss_family) == AF_UNIX
        self.host = isKnown ? Self.text(host) : isUnix ? "unix" : "unknown"
        self.port = isKnown ? Self.text(port) : ""
    }

    private static func text(_ bytes: [CChar]) -> String {
        String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The address as `stats conns` has it: `tcp:host:port`, `tcp6:[host]:port` or `unix`.
    var statistic: String {
        if port.isEmpty { return host }
        return host.contains(":") ? "tcp6:\(self)" : "tcp:\(self)"
    }

    /// The port, or nil for what has none.
    var portNumber: Int? { Int(port) }

    /// `host:port`, `[host]:port`, or `unix`.
    var description: String {
        if port.isEmpty { return host }
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
