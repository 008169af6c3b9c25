// Where a server listens, as people write it, and nothing else: names are resolved when connecting.

import Primitives

/// The address of one server: TCP over IPv4 or IPv6, or a Unix stream socket.
public enum ServerAddress: Hashable, Sendable, CustomStringConvertible {
    /// A host name or numeric address, without brackets, and a port of 1 to 65535.
    case tcp(host: String, port: UInt16)
    /// The path of a Unix socket.
    case unix(path: String)

    /// Where a server of ours listens unless told otherwise.
    public static let standard = ServerAddress.tcp(host: "127.0.0.1", port: 11211)

    /// What `sun_path` holds besides its terminating zero.
    ///
    /// See unix(7).
    static let pathBytesMax = 107

    /// Reads `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT` or `unix:PATH`; the port defaults to 11211.
    ///
    /// - Throws: `ServerAddressError` naming what is wrong.
    public init(parsing text: String) throws(ServerAddressError) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            if path.isEmpty { throw .noPath(text) }
            if path.utf8.count > Self.pathBytesMax { throw .pathTooLong(path) }
            if path.utf8.contains(0) { throw .noPath(text) }
            self = .unix(path: path)
            return
        }
        if text.isEmpty || text.contains(where: { $0.isWhitespace || $0 == "/" || $0 == "\0" }) { throw .noHost(text) }
        if text.hasPrefix("[") {
            guard let close = text.firstIndex(of: "]") else { throw .noHost(text) }
            let host = String(text[text.index(after: text.startIndex)..<close])
            let rest = text[text.index(after: close)...]
            if !host.contains(":") { throw .noHost(text) }
            if !rest.isEmpty, rest.first != ":" { throw .badPort(text) }
            self = .tcp(host: host, port: rest.isEmpty ? 11211 : try Self.port(rest.dropFirst(), of: text))
            return
        }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        if parts.count > 2 { throw .needsBrackets(text) }
        if parts[0].isEmpty { throw .noHost(text) }
        self = .tcp(host: String(parts[0]), port: parts.count == 1 ? 11211 : try Self.port(parts[1], of: text))
    }

    private static func port(_ digits: Substring, of text: String) throws(ServerAddressError) -> UInt16 {
        let plain = digits.utf8.allSatisfy { $0 >= 48 && $0 <= 57 }
        guard plain, let port = UInt16(digits), port > 0 else { throw .badPort(text) }
        return port
    }

    /// The form that `init(parsing:)` reads.
    public var description: String {
        switch self {
        case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }
}

/// Why an address could not be read.
public enum ServerAddressError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The host is absent or holds a character that no host has.
    case noHost(String)
    /// The port is not a number of 1 to 65535.
    case badPort(String)
    /// An IPv6 address without brackets.
    case needsBrackets(String)
    /// `unix:` without a path.
    case noPath(String)
    /// A path that does not fit a socket address.
    case pathTooLong(String)

    /// One line for people, without a full stop.
    public var description: String {
        switch self {
        case .noHost(let text): "'\(text)' is not an address; use HOST, HOST:PORT, [IPV6]:PORT or unix:PATH"
        case .badPort(let text): "'\(text)' has no valid port; use 1 to 65535"
        case .needsBrackets(let text): "'\(text)' has several colons; write IPv6 addresses as [IPV6]:PORT"
        case .noPath(let text): "'\(text)' names no socket path"
        case .pathTooLong(let path): "socket path '\(path)' is longer than \(ServerAddress.pathBytesMax) bytes"
        }
    }
}
