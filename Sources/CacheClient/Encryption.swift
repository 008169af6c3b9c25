// How connections to a server are encrypted: whom to trust, and who we are.
//
// Made once from PEM files and used for many connections. The server's certificate is always checked, its name too;
// there is no way to switch that off: to trust a server that signed its own certificate, name that certificate as the
// authority. Immutable; any thread.

internal import TLS

/// What encrypted connections have in common.
public struct Encryption: Sendable {
    let context: TLSContext

    /// Reads the files that `settings` name.
    ///
    /// - Throws: `EncryptionError` naming the file that cannot be used.
    public init(_ settings: EncryptionSettings) throws(EncryptionError) {
        let identity = settings.certificatePath.map { TLSIdentity(certificatePath: $0, keyPath: settings.keyPath) }
        do throws(TLSError) {
            context = try TLSContext(clientTrusting: settings.authoritiesPath, identity: identity)
        } catch {
            throw EncryptionError(description: error.description)
        }
    }
}

/// What people say about encryption.
public struct EncryptionSettings: Equatable, Sendable {
    /// Authorities that servers' certificates must come from, a PEM file; nil: the system's.
    public var authoritiesPath: String?
    /// Our own certificate chain, a PEM file, for servers that ask for one.
    public var certificatePath: String?
    /// Its private key; nil: in the same file.
    public var keyPath: String?

    /// Settings; all are optional.
    public init(authoritiesPath: String? = nil, certificatePath: String? = nil, keyPath: String? = nil) {
        self.authoritiesPath = authoritiesPath
        self.certificatePath = certificatePath
        self.keyPath = keyPath
    }
}

/// A file that cannot be used.
public struct EncryptionError: Error, Equatable, Sendable, CustomStringConvertible {
    /// One line for people.
    public let description: String
}
