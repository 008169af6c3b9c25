// What can go wrong between a client and a server. Every error names the operation, the address and the cause.

import Glibc
import Primitives

/// A failed operation on a connection.
public struct ClientError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Why it failed.
    public enum Cause: Error, Equatable, Sendable {
        /// The host's name has no address; the text is the resolver's.
        case unresolved(String)
        /// A system call failed with this errno.
        case system(call: String, errno: Int32)
        /// The encryption failed: the server is not trusted, or does not speak TLS; the text is the reason.
        case encryption(String)
        /// Nothing moved for so many milliseconds.
        case timedOut(milliseconds: Int)
        /// The server closed the connection, or an earlier failure has made it unusable.
        case closed
        /// The reply makes no sense here; the text is its beginning.
        case malformedReply(String)
        /// The server said no: an `ERROR`, `CLIENT_ERROR` or `SERVER_ERROR` line.
        case refused(String)
        /// The key is empty, longer than 250 bytes, or has a space or control character in it.
        case badKey(String)
    }

    /// What was attempted: `connect`, `get`, `stats` and so on.
    public let operation: String
    /// With whom.
    public let address: ServerAddress
    /// Why it failed.
    public let cause: Cause

    /// Makes an error.
    public init(operation: String, address: ServerAddress, cause: Cause) {
        self.operation = operation
        self.address = address
        self.cause = cause
    }

    /// Whether the connection can still be used: the server refused, or the key never left the client.
    public var leavesConnectionUsable: Bool {
        switch cause {
        case .refused, .badKey: true
        case .unresolved, .system, .encryption, .timedOut, .closed, .malformedReply: false
        }
    }

    /// One line for people, without a full stop.
    public var description: String { "\(operation) \(address): \(cause)" }
}

extension ClientError.Cause: CustomStringConvertible {
    /// The cause alone, as in `ClientError.description`.
    public var description: String {
        switch self {
        case .unresolved(let reason): "cannot resolve the host: \(reason)"
        case .system(let call, let errno): "\(call): \(systemErrorText(errno))"
        case .encryption(let reason): "TLS: \(reason)"
        case .timedOut(let milliseconds): "no progress for \(milliseconds) ms"
        case .closed: "the connection is closed"
        case .malformedReply(let reply): "malformed reply '\(reply.printable)'"
        case .refused(let line): "refused: \(line.printable)"
        case .badKey(let key): "bad key '\(key.printable)'"
        }
    }
}
