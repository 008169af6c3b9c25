// The lines before authentication, with memcached's answers.

import Testing

@testable import Protocol

struct LoginLineTests {
    private func parse(_ text: String) -> LoginResult {
        var parser = RequestParser(limits: ProtocolLimits())
        let bytes = Array(text.utf8)
        return bytes.withUnsafeBytes { parser.parseLogin($0) }
    }

    @Test(arguments: [
        ("", LoginResult.incomplete), ("set a 0 0 7", .incomplete), ("set a 0 0 7\r", .incomplete),
        ("set a 0 0 7\r\n", .announced(bytes: 7, lineBytes: 13)),
        ("set a 0 0 7\nfoo bar\r\n", .announced(bytes: 7, lineBytes: 12)),
        ("set  a  x y 0 noreply more\r\n", .announced(bytes: 0, lineBytes: 28)),
        ("set a 0 0 1024\r\n", .announced(bytes: 1024, lineBytes: 16)),
        ("set a 0 0 1025\r\n", .refused(.authenticationTokenTooLong, lineBytes: 16, swallowBytes: 1027)),
        ("set a 0 0 16384\r\n", .refused(.authenticationTokenTooLong, lineBytes: 17, swallowBytes: 16_386)),
        ("set a 0 0 16385\r\n", .refused(.authenticationTokenTooLong, lineBytes: 17, swallowBytes: 0)),
        ("set a 0 0 2147483646\r\n", .refused(.authenticationTokenTooLong, lineBytes: 22, swallowBytes: 0)),
        ("set a 0 0 4294967295\r\n", .refused(.authenticationTokenTooLong, lineBytes: 22, swallowBytes: 0)),
        ("quit\r\n", .quit(lineBytes: 6)), ("quit now\n", .quit(lineBytes: 9)),
        ("GET / HTTP/1.1\r\n", .refused(.unauthenticated, lineBytes: 16, swallowBytes: 0)),
        ("\u{1}\n", .refused(.unauthenticated, lineBytes: 2, swallowBytes: 0)),
    ])
    func line(_ text: String, _ expected: LoginResult) { #expect(parse(text) == expected) }

    @Test(arguments: [
        "\r\n", "\n", "mn", "version", "get a", "add a 0 0 7", "set", "set a 0 0", "set a 0 0 x", "set a 0 0 -1",
        "set a 0 0 4294967296", "setx a 0 0 7", "SET a 0 0 7", " set a 0 0 7", "ms a 7", "stats", "quitt",
        "flush_all noreply",
    ])
    func everythingElseIsUnauthenticated(_ line: String) {
        let text = line.utf8.last == 10 ? line : line + "\r\n"
        #expect(parse(text) == .refused(.unauthenticated, lineBytes: text.utf8.count, swallowBytes: 0))
    }

    @Test func linesWithoutEndAreFatal() {
        #expect(parse(String(repeating: "a", count: 2048)) == .incomplete)
        #expect(parse(String(repeating: "a", count: 2049)) == .fatal(.lineTooLong))
        // However much waits, the line ends within the limit or not at all.
        #expect(parse(String(repeating: "a", count: 3000) + "\n") == .fatal(.lineTooLong))
    }

    @Test func binaryProtocolIsFatalAsTheFirstByteOnly() {
        var parser = RequestParser(limits: ProtocolLimits())
        let binary: [UInt8] = [0x80, 0x01]
        #expect(binary.withUnsafeBytes { parser.parseLogin($0) } == .fatal(.binaryProtocol))
        let text = Array("version\r\n".utf8)
        parser = RequestParser(limits: ProtocolLimits())
        _ = text.withUnsafeBytes { parser.parseLogin($0) }
        #expect(binary.withUnsafeBytes { parser.parseLogin($0) } == .incomplete)
    }

    @Test func tokensSplitAtTheFirstSpace() {
        #expect(LoginToken(Array("foo bar baz ".utf8))?.name == Array("foo".utf8))
        #expect(LoginToken(Array("foo bar baz ".utf8))?.password == Array("bar baz ".utf8))
        #expect(LoginToken(Array(" x".utf8))?.name == [])
        #expect(LoginToken(Array("foo ".utf8))?.password == [])
        #expect(LoginToken(Array("foobar".utf8)) == nil)
        #expect(LoginToken([UInt8]()) == nil)
    }
}
