// Addresses: every form that is taken and every form that is refused.

import CacheClient
import Testing

@Suite("server addresses")
struct ServerAddressTests {
    @Test(
        "accepted forms",
        arguments: [
            ("127.0.0.1:11211", .tcp(host: "127.0.0.1", port: 11211)),
            ("localhost", .tcp(host: "localhost", port: 11211)),
            ("cache.example.org:1", .tcp(host: "cache.example.org", port: 1)),
            ("h:65535", .tcp(host: "h", port: 65535)),
            ("[::1]", .tcp(host: "::1", port: 11211)), ("[::1]:2000", .tcp(host: "::1", port: 2000)),
            ("[fe80::1%eth0]:5", .tcp(host: "fe80::1%eth0", port: 5)), ("unix:/run/c.sock", .unix(path: "/run/c.sock")),
            ("unix:c.sock", .unix(path: "c.sock")), ("unix:/a b:c", .unix(path: "/a b:c")),
        ] as [(String, ServerAddress)])
    func accepted(text: String, address: ServerAddress) throws {
        #expect(try ServerAddress(parsing: text) == address)
        #expect(try ServerAddress(parsing: address.description) == address)
    }

    @Test(
        "refused forms",
        arguments: [
            ("", .noHost("")), (":11211", .noHost(":11211")), ("h:", .badPort("h:")), ("h:0", .badPort("h:0")),
            ("h:65536", .badPort("h:65536")), ("h:+1", .badPort("h:+1")), ("h:1x", .badPort("h:1x")),
            ("::1", .needsBrackets("::1")), ("::1:11211", .needsBrackets("::1:11211")), ("[::1", .noHost("[::1")),
            ("[::1]x", .badPort("[::1]x")), ("[::1]:", .badPort("[::1]:")), ("[]:1", .noHost("[]:1")),
            ("[host]:1", .noHost("[host]:1")), ("a b", .noHost("a b")), ("/run/c.sock", .noHost("/run/c.sock")),
            ("unix:", .noPath("unix:")),
            ("unix:" + String(repeating: "a", count: 108), .pathTooLong(String(repeating: "a", count: 108))),
        ] as [(String, ServerAddressError)])
    func refused(text: String, error: ServerAddressError) {
        #expect(throws: error) { try ServerAddress(parsing: text) }
    }

    @Test("the standard address is memcached's port on loopback")
    func standard() throws { #expect(try ServerAddress(parsing: "127.0.0.1") == .standard) }
}
