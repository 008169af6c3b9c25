// Which names a client of the admin port may call it by: a browser must not be made to read it for a stranger's page.
//
// Such a page can let its own name point to 127.0.0.1; then the browser takes this port for the page's own server, and
// the name in the request's Host header is all that tells the two apart. Where only this machine can connect, its own
// names and addresses are enough; where others can, nobody knows what they call it. Plain values.

import Glibc

/// The names of an admin port.
struct HostCheck: Sendable {
    /// Nil: any name will do.
    private let names: Set<String>?

    /// A check for requests to `address`; nil is an address that somebody else chose.
    init(_ address: AdminAddress?) {
        guard case .tcp(let address) = address, address.isLoopback else {
            names = nil
            return
        }
        names = [address.host.lowercased(), "localhost", Self.machineName].filter { !$0.isEmpty }
            .reduce(into: []) { $0.insert($1) }
    }

    /// Whether a request with this Host header is meant for us.
    func allows(_ header: String?) -> Bool {
        // No browser leaves it out.
        guard let names, let header else { return true }
        let host = Self.host(of: header.lowercased())
        return names.contains(host) || host.hasSuffix(".localhost") || Self.isAddress(host)
    }

    /// The header without its port, and without brackets.
    private static func host(of header: String) -> String {
        if header.hasPrefix("[") { return String(header.dropFirst().prefix { $0 != "]" }) }
        let name = String(header.prefix { $0 != ":" })
        return name.hasSuffix(".") ? String(name.dropLast()) : name
    }

    /// Whether it is a numeric address: no page can have one of ours.
    private static func isAddress(_ host: String) -> Bool {
        var address = in6_addr()
        // SAFETY: inet_pton(3) reads the C string and fills at most the struct; both live until it returns.
        return unsafe inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1
    }

    private static var machineName: String {
        var name = [CChar](repeating: 0, count: 256)
        // SAFETY: one byte less than there is: the last one stays 0.
        guard unsafe gethostname(&name, name.count - 1) == 0 else { return "" }
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self).lowercased()
    }
}
