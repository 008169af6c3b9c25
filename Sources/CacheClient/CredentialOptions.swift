// The options by which a program learns how to speak to a server that wants encryption or a login: the same names, help
// and messages in every program that is a client.
//
// A program puts `CredentialOption.options` into its table under a tag of its own, hands each occurrence to
// `CredentialArguments.take`, and asks for the results at the end, because the options may come in any order. Files are
// read then and not before. A value; no thread rule.

public import Arguments

/// One of the options.
public enum CredentialOption: Sendable {
    case user, passwordFile, tls, authorities, certificate, key

    /// The rows of an option table, with the caller's tag around each.
    public static func options<Tag>(as tag: (CredentialOption) -> Tag) -> [Option<Tag>] {
        [
            Option(
                tag(.user), long: "user", short: "u", value: "NAME",
                help: "Authenticate as NAME; the password comes from a file or $\(Login.environmentName)."),
            Option(
                tag(.passwordFile), long: "password-file", value: "FILE",
                help: "With --user: the password is the first line of FILE."),
            Option(tag(.tls), long: "tls", help: "Encrypt; the server's certificate must be for the host named."),
            Option(
                tag(.authorities), long: "ca", value: "FILE",
                help: "Trust these authorities, PEM, instead of the system's."),
            Option(
                tag(.certificate), long: "cert", value: "FILE",
                help: "Our certificate chain, PEM, where the server asks."),
            Option(tag(.key), long: "key", value: "FILE", help: "Its private key, PEM, if it is in another file."),
        ]
    }
}

/// What a command line said about encryption and login.
public struct CredentialArguments: Equatable, Sendable {
    private var user: String?
    private var passwordFile: String?
    /// How to encrypt; nil is not at all.
    ///
    /// Naming a file asks for encryption.
    public private(set) var encryption: EncryptionSettings?

    /// Nothing said: plain, and nobody in particular.
    public init() {}

    /// Notes one occurrence; a later one of the same option wins.
    public mutating func take(_ option: CredentialOption, value: String?) {
        switch option {
        case .user: user = value
        case .passwordFile: passwordFile = value
        case .tls: encryption = encryption ?? EncryptionSettings()
        case .authorities: encryption.orEmpty.authoritiesPath = value
        case .certificate: encryption.orEmpty.certificatePath = value
        case .key: encryption.orEmpty.keyPath = value
        }
    }

    /// The login, or nil when nobody was named; reads the password.
    ///
    /// - Throws: `LoginError` when there is no password, or a password without a name.
    public func login() throws(LoginError) -> Login? {
        if let user { return try Login.find(user: user, passwordFile: passwordFile) }
        if passwordFile != nil { throw LoginError("--password-file needs --user") }
        return nil
    }
}

extension EncryptionSettings? {
    /// The settings, made when there are none.
    fileprivate var orEmpty: EncryptionSettings {
        get { self ?? EncryptionSettings() }
        set { self = newValue }
    }
}
