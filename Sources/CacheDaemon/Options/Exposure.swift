// Who may reach the daemon without proving anything: the one place that decides whether an address may be listened on.
//
// An address of this machine alone is safe, and so is one behind TLS or authentication. Any other must be asked for
// with `allow_insecure`: caches that were open to the Internet by accident have been emptied, read, and used against
// others. Reads settings only.

import Glibc

extension Settings {
    /// Addresses that other machines reach while nothing keeps strangers out.
    var exposedAddresses: [ListenAddress] {
        if allowsInsecure { return [] }
        var exposed = listen.filter { !$0.isLoopback && !isProtected($0) }
        // Nothing protects the admin port, which shows names of keys.
        if case .tcp(let address) = admin, !address.isLoopback { exposed.append(address) }
        return exposed
    }

    /// Whether clients of `address` have to prove something.
    ///
    /// Encryption alone counts: who listens with a certificate has thought of who connects.
    private func isProtected(_ address: ListenAddress) -> Bool {
        access.accountFile != nil || tls.isOn && !address.isPlain
    }
}

extension ListenAddress {
    /// Whether only this machine reaches the address: a numeric address of the loopback network, or `localhost`.
    ///
    /// Other names count as reachable, wherever they may lead today.
    var isLoopback: Bool {
        if host == "localhost" { return true }
        var four = in_addr()
        // SAFETY: inet_pton(3) reads the C string and fills the struct; both live until it returns.
        if unsafe inet_pton(AF_INET, host, &four) == 1 { return UInt32(bigEndian: four.s_addr) >> 24 == 127 }
        var six = in6_addr()
        guard unsafe inet_pton(AF_INET6, String(host.prefix { $0 != "%" }), &six) == 1 else { return false }
        let bytes = unsafe withUnsafeBytes(of: &six) { unsafe Array($0) }
        if bytes.dropLast().allSatisfy({ $0 == 0 }) { return bytes.last == 1 }
        let isMapped = bytes.prefix(12).elementsEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255])
        return isMapped && bytes[12] == 127
    }
}
