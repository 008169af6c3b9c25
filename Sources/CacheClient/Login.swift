// A user name and password for a server that wants them (`-Y`, `auth.file`), and where programs find them.
//
// A password never stands on a command line, where other users of the machine could read it: it comes from a file or
// from the environment. The exchange is memcached's text protocol: a `set` of any key with `name password` as its
// value, the first command of a connection.

import Glibc
import Primitives

/// Who a client says it is.
public struct Login: Hashable, Sendable {
    /// The variable of the environment that holds the password where no file does.
    public static let environmentName = "CACHE_DAEMON_PASSWORD"
    /// Longest password, in bytes.
    static let passwordBytesMax = 511

    /// The account's name.
    public let user: String
    let password: String

    /// Makes a login.
    ///
    /// - Throws: `LoginError` when a name or password cannot be sent.
    public init(user: String, password: String) throws(LoginError) {
        let isName = user.utf8.allSatisfy { $0 > 32 && $0 != 127 }
        if user.isEmpty || user.utf8.count > 250 || !isName {
            throw LoginError("a user name has 1 to 250 bytes, no space")
        }
        if password.isEmpty || password.utf8.count > Self.passwordBytesMax {
            throw LoginError("a password has 1 to \(Self.passwordBytesMax) bytes")
        }
        self.user = user
        self.password = password
    }

    /// The login of `user` with the first line of `passwordFile`, or without a file with the environment's password.
    ///
    /// - Throws: `LoginError` when there is no password.
    public static func find(user: String, passwordFile: String?) throws(LoginError) -> Login {
        if let passwordFile { return try Login(user: user, password: firstLine(of: passwordFile)) }
        guard let password = StandardStream.environment(environmentName) else {
            throw LoginError("--user wants --password-file, or the password in $\(environmentName)")
        }
        return try Login(user: user, password: password)
    }

    private static func firstLine(of path: String) throws(LoginError) -> String {
        let fd = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard fd >= 0 else { throw LoginError("cannot open \(path): \(systemErrorText(errno))") }
        defer { close(fd) }
        var bytes = [UInt8](repeating: 0, count: passwordBytesMax + 2)
        // SAFETY: the kernel writes within the array, whose size is given. A password is far shorter than a pipe's
        // atomic write, so one call takes it whole.
        let count = unsafe read(fd, &bytes, bytes.count)
        guard count >= 0 else { throw LoginError("cannot read \(path): \(systemErrorText(errno))") }
        let line = bytes[..<count].prefix { $0 != 10 && $0 != 13 }
        return String(decoding: line, as: UTF8.self)
    }

    /// The request.
    var request: String {
        let token = "\(user) \(password)"
        return "set login 0 0 \(token.utf8.count)\r\n\(token)\r\n"
    }
}

/// Why there is no login; never shows a password.
public struct LoginError: Error, Equatable, Sendable, CustomStringConvertible {
    /// One line for people, without a full stop.
    public let description: String

    init(_ description: String) { self.description = description }
}

extension Connection {
    /// Proves who this client is; the first command of a connection to a server that wants it.
    ///
    /// - Throws: `ClientError` with the cause `.refused` when the server knows no such user and password.
    public func authenticate(_ login: Login) throws(ClientError) {
        enqueue(login.request)
        try expect(["STORED"], for: "authenticate")
    }
}

extension Socket {
    /// The same on a bare socket, waiting for the answer at most `timeout` milliseconds a step.
    public borrowing func authenticate(
        _ login: Login, address: ServerAddress, timeoutMilliseconds timeout: Int
    ) throws(ClientError) {
        func fail(_ cause: ClientError.Cause) -> ClientError {
            ClientError(operation: "authenticate", address: address, cause: cause)
        }
        // A fresh socket has room for a request of less than 1 KiB.
        let request = Array(login.request.utf8)
        let sent = unsafe request.withUnsafeBytes { unsafe send($0) }
        guard sent == .moved(request.count) else { throw fail(.closed) }
        var reply: [UInt8] = []
        var room = [UInt8](repeating: 0, count: 256)
        while !reply.contains(10) {
            // SAFETY: the socket receives into the array during the call only.
            switch unsafe room.withUnsafeMutableBytes({ unsafe receive(into: $0) }) {
            case .moved(let count): reply += room.prefix(count)
            case .wouldBlock:
                if wait(orWritable: false, timeoutMilliseconds: timeout) == .timedOut {
                    throw fail(.timedOut(milliseconds: timeout))
                }
            case .closed: throw fail(.closed)
            case .failed(let number): throw fail(.system(call: "recv", errno: number))
            case .untrusted(let reason): throw fail(.encryption(reason))
            }
            if reply.count > 512 { throw fail(.malformedReply("a line without end")) }
        }
        let line = String(decoding: reply.prefix { $0 != 13 && $0 != 10 }, as: UTF8.self)
        guard line == "STORED" else { throw fail(.refused(line)) }
    }
}
