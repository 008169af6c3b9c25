// Who may reach the daemon without proving anything: the one place that decides whether an address may be listened on.
//
// An address of this machine alone is safe, and so is one behind TLS or authentication. Any other must be asked for
// with `allow_insecure`: caches that were open to the Internet by accident have been emptied, read, and used against
// others. Reads settings only.

extension Settings {
    /// Addresses that other machines reach while nothing keeps strangers out.
    var exposedAddresses: [ListenAddress] {
        if allowsInsecure { return [] }
        return listen.filter { !$0.isLoopback && !isProtected($0) }
    }

    /// Whether clients of `address` have to prove something.
    ///
    /// Encryption alone counts: who listens with a certificate has thought of who connects.
    private func isProtected(_ address: ListenAddress) -> Bool { tls.isOn && !address.isPlain }
}

extension ListenAddress {
    /// Whether only this machine can reach the address: 127.0.0.0/8, ::1 or localhost.
    var isLoopback: Bool {
        if host == "::1" || host == "localhost" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        let isNumeric = parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
        return isNumeric && parts[0] == "127"
    }
}
