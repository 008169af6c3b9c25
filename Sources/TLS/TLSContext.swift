// What all TLS sessions of one side have in common: the certificate, whom to trust, how old a protocol may be.
//
// A thin, safe face of OpenSSL's SSL_CTX, through the C module COpenSSL. It opens files when it is made and never
// again: to follow changed files, make another one; sessions keep the context that they began with. Immutable and
// thread-safe. It knows no sockets and no policy. See SSL_CTX_new(3ssl).

internal import COpenSSL
internal import Glibc

/// Why a context could not be made: a file that cannot be used.
public struct TLSError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What was attempted, and with which file.
    public let operation: String
    /// Why it failed, in OpenSSL's words or the system's.
    public let reason: String

    /// One line for people.
    public var description: String { "\(operation): \(reason)" }

    /// An error of an operation.
    public init(_ operation: String, _ reason: String) {
        self.operation = operation
        self.reason = reason
    }
}

/// A certificate chain and its private key, as PEM files.
public struct TLSIdentity: Equatable, Hashable, Sendable {
    /// The certificate, followed by those that lead to its authority.
    public let certificatePath: String
    /// The private key, without a passphrase.
    public let keyPath: String

    /// An identity; without `keyPath` the key is in the certificate's file.
    public init(certificatePath: String, keyPath: String? = nil) {
        self.certificatePath = certificatePath
        self.keyPath = keyPath ?? certificatePath
    }
}

/// The oldest protocol that is spoken.
public enum TLSVersion: String, CaseIterable, Sendable {
    /// TLS 1.2, RFC 5246.
    case v12 = "1.2"
    /// TLS 1.3, RFC 8446.
    case v13 = "1.3"
}

/// Whether clients are asked for certificates.
public enum TLSClientCheck: Equatable, Sendable {
    /// They are not.
    case none
    /// They may show one; a wrong one is refused.
    case optional(authoritiesPath: String)
    /// They must show one.
    case required(authoritiesPath: String)
}

/// The common part of a server's, or of a client's, sessions.
@safe
public final class TLSContext: Sendable {
    // SAFETY: made in init, freed in deinit, not changed in between; OpenSSL counts references with atomics.
    nonisolated(unsafe) let raw: OpaquePointer
    let isServer: Bool

    /// A server's context.
    ///
    /// - Throws: `TLSError` when a file cannot be read or used, when the key does not belong to the certificate, or
    ///   when everybody may read it.
    public convenience init(
        server identity: TLSIdentity, oldest: TLSVersion = .v12, clients: TLSClientCheck = .none
    ) throws(TLSError) {
        try self.init(isServer: true, oldest: oldest)
        try Self.checkPrivacy(of: identity.keyPath)
        try use(identity)
        let (mode, path) =
            switch clients {
            case .none: (COPENSSL_ASK_NOT, "")
            case .optional(let path): (COPENSSL_ASK, path)
            case .required(let path): (COPENSSL_DEMAND, path)
            }
        guard unsafe copenssl_ask_clients(raw, Int32(mode), path) == 1 else {
            throw TLSError("authorities of clients \(path)", Self.reason())
        }
    }

    /// A client's context, which trusts the authorities in a PEM file, or those of the system.
    ///
    /// - Throws: `TLSError` when a file cannot be read or used.
    public convenience init(
        clientTrusting authoritiesPath: String?, identity: TLSIdentity? = nil
    ) throws(TLSError) {
        try self.init(isServer: false, oldest: .v12)
        if let identity { try use(identity) }
        guard unsafe copenssl_trust(raw, authoritiesPath) == 1 else {
            throw TLSError("authorities \(authoritiesPath ?? "of the system")", Self.reason())
        }
    }

    private init(isServer: Bool, oldest: TLSVersion) throws(TLSError) {
        guard let raw = unsafe copenssl_context_new(isServer ? 1 : 0, oldest == .v13 ? 3 : 2) else {
            throw TLSError("TLS", "out of memory")
        }
        unsafe self.raw = raw
        self.isServer = isServer
    }

    deinit { unsafe copenssl_context_free(raw) }

    private func use(_ identity: TLSIdentity) throws(TLSError) {
        guard unsafe copenssl_use_identity(raw, identity.certificatePath, identity.keyPath) == 1 else {
            let files =
                identity.keyPath == identity.certificatePath
                ? identity.certificatePath : "\(identity.certificatePath) with key \(identity.keyPath)"
            throw TLSError("certificate \(files)", Self.reason())
        }
    }

    /// Refuses a private key that everybody on the machine may read or replace.
    private static func checkPrivacy(of path: String) throws(TLSError) {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { throw TLSError("key \(path)", Self.message(errno)) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw TLSError("key \(path)", "is not a regular file") }
        guard status.st_mode & 0o027 == 0 else {
            throw TLSError("key \(path)", "others may read it or its group may write it; chmod 600 makes it private")
        }
    }

    /// The system's words for an error number.
    private static func message(_ code: Int32) -> String {
        // SAFETY: strerror(3) always returns a string, in glibc a thread's own; it is copied at once.
        unsafe String(cString: strerror(code))
    }

    /// Seconds from now until the certificate expires, negative afterwards; 0 without one.
    public var secondsLeft: Int64 { unsafe copenssl_seconds_left(raw) }

    /// The reason of this thread's last failure.
    static func reason() -> String {
        var text = [CChar](repeating: 0, count: 256)
        // SAFETY: at most the array's size is written, terminated.
        unsafe copenssl_reason(&text, UInt(text.count))
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
