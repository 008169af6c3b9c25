// From the options to what encrypts connections.

import TLS

extension TLSContext {
    /// What the settings ask for; nil where connections are not to be encrypted.
    ///
    /// Reads the files that they name.
    /// - Throws: `TLSError` naming the file that cannot be used.
    static func make(_ settings: Settings.TLS) throws(TLSError) -> TLSContext? {
        guard let certificate = settings.certificate else {
            guard let stray = settings.key ?? settings.clientAuthorities else { return nil }
            throw TLSError("TLS", "\(stray) needs tls.certificate beside it")
        }
        let clients: TLSClientCheck =
            switch (settings.clientAuthorities, settings.clientCertificates) {
            case (nil, _): .none
            case (let path?, .required): .required(authoritiesPath: path)
            case (let path?, .optional): .optional(authoritiesPath: path)
            }
        return try TLSContext(
            server: TLSIdentity(certificatePath: certificate, keyPath: settings.key), oldest: settings.oldest,
            clients: clients)
    }
}
