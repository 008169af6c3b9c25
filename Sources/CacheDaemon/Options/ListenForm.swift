// The form of `listen`: HOST, HOST:PORT, [IPV6]:PORT, and comma-separated lists of them, as memcached's -l takes them.

import Glibc

/// An address as written: its port may still be the common one.
struct WrittenAddress: Equatable, Sendable {
    let host: String
    let port: Int?
    /// memcached's `notls:` stood before it.
    var isPlain = false

    /// The host with the common port.
    init(host: String) {
        self.host = host
        port = nil
    }

    /// Reads one address; `notls:` before it keeps it plain where others are encrypted.
    init(parsing written: String) throws(ValueProblem) {
        let text = written.hasPrefix("notls:") ? String(written.dropFirst(6)) : written
        isPlain = text != written
        let host: Substring
        var port: Substring?
        if text.hasPrefix("[") {
            guard let close = text.firstIndex(of: "]") else { throw ValueProblem("'\(text)' lacks a ]") }
            host = text[text.index(after: text.startIndex)..<close]
            let rest = text[text.index(after: close)...]
            if rest.hasPrefix(":") {
                port = rest.dropFirst()
            } else if !rest.isEmpty {
                throw ValueProblem("'\(text)': after ] only :PORT may stand")
            }
        } else if text.count(where: { $0 == ":" }) == 1, let colon = text.firstIndex(of: ":") {
            host = text[..<colon]
            port = text[text.index(after: colon)...]
        } else {
            // No colon, or the colons of a bare IPv6 address.
            host = text[...]
        }
        if host.isEmpty { throw ValueProblem("'\(text)' names no host") }
        let isIPv6 = text.hasPrefix("[") || host.contains(":")
        if isIPv6, !Self.isIPv6(host) { throw ValueProblem("'\(text)' is neither HOST:PORT nor an IPv6 address") }
        if host.utf8.count > 255 { throw ValueProblem("host name longer than 255 bytes") }
        if host.contains(where: { $0.isWhitespace || $0 == "/" }) { throw ValueProblem("'\(host)' is not a host") }
        self.host = String(host)
        guard let port else {
            self.port = nil
            return
        }
        guard port.utf8.allSatisfy({ (48...57).contains($0) }), let number = Int(port), number <= 65_535 else {
            throw ValueProblem("'\(port)' is not a port from 0 to 65535")
        }
        self.port = number
    }

    /// Whether `host` is a numeric IPv6 address, with a zone perhaps; see inet_pton(3).
    private static func isIPv6(_ host: Substring) -> Bool {
        let digits = String(host.prefix { $0 != "%" })
        var address = in6_addr()
        // SAFETY: inet_pton reads the C string and fills the struct; both live until it returns.
        return unsafe inet_pton(AF_INET6, digits, &address) == 1
    }
}

extension OptionForm {
    /// The address of the admin port.
    static var adminAddress: OptionForm {
        OptionForm(
            valueName: "ADDRESS", range: "HOST, HOST:PORT, [IPV6]:PORT or unix:PATH",
            read: { text, draft throws(ValueProblem) in
                if text.hasPrefix("unix:") {
                    let path = try self.text(String(text.dropFirst(5)), bytesMax: 107)
                    draft.settings.admin = .unix(path: path)
                } else {
                    let written = try WrittenAddress(parsing: text)
                    let port = written.port ?? AdminAddress.standardPort
                    draft.settings.admin = .tcp(ListenAddress(host: written.host, port: port))
                }
            }, show: { $0.admin.map { [$0.description] } ?? [] }, copy: { $1.admin = $0.admin })
    }

    /// Addresses to listen on.
    static var addresses: OptionForm {
        OptionForm(
            valueName: "HOST[:PORT]",
            range:
                "HOST, HOST:PORT or [IPV6]:PORT, also notls:HOST...; several with commas or on lines of their own",
            read: { text, draft throws(ValueProblem) in
                var addresses: [WrittenAddress] = []
                for part in text.split(separator: ",", omittingEmptySubsequences: false) {
                    let part = part.drop { $0 == " " }
                    addresses.append(try WrittenAddress(parsing: String(part)))
                }
                draft.listen += addresses
            }, show: { $0.listen.map(\.description) }, copy: { $1.listen = $0.listen }, isList: true)
    }
}
