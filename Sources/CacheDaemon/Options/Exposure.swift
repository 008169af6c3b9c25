// Whether strangers could use the server: addresses that others reach, and what protects them.
//
// The one place that decides it; SettingsDraft.swift refuses settings by it.

import Glibc

extension Settings {
    /// Addresses that strangers reach and may use, while nothing says that this is wanted.
    var exposedAddresses: [ListenAddress] {
        if allowsInsecure || access.accountFile != nil { return [] }
        // Encryption alone counts: who listens with a certificate has thought of who connects.
        return listen.filter { !$0.isLoopback && ($0.isPlain || !tls.isOn) }
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
