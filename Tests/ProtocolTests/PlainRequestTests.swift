// The short way through the parser: what it accepts means the same as on the long way.

import Testing

@testable import Protocol

@Suite struct PlainRequestTests {
    /// What `parsePlain` makes of a line, in the words of `describe`; nil if it leaves it to `parse`.
    private func describePlain(_ bytes: [UInt8], limits: ProtocolLimits = ProtocolLimits()) -> String? {
        var parser = RequestParser(limits: limits)
        return bytes.withUnsafeBytes { input in
            let plain = parser.parsePlain(input)
            guard plain.lineBytes > 0 else { return nil }
            let key = ByteRange(start: PlainRequest.keyStart, count: Int(plain.keyBytes))
            let request: Request =
                plain.isStore
                ? .store(
                    StoreHeader(
                        key: key, mode: .set, flags: plain.flags,
                        expiration: Expiration(exptime: Int64(plain.exptime)), valueBytes: Int(plain.valueBytes),
                        isQuiet: false))
                : .retrieve(Retrieval(keys: key, keyCount: 1, includesCAS: false, expiration: nil))
            var whole = RequestParser(limits: limits)
            #expect(whole.parse(input) == .request(request, lineBytes: Int(plain.lineBytes)))
            return describe(request, input)
        }
    }

    @Test(arguments: [
        "get a1\r\n", "get 0123456\r\n", "get 01234567\r\n", "get 012345678\r\nget b\r\n", "get \u{e9}\u{2713}\r\n",
        "set a 0 0 5\r\n", "set a 4294967 2592000 123456789\r\n", "set key 007 000000001 0\r\n",
        "set 0123456789abcdef 1 2592001 1\r\n",
    ]) func `takes what has the plain form`(line: String) {
        #expect(describePlain(Array(line.utf8)) != nil)
    }

    @Test(arguments: [
        "get a\r\n", "get  a\r\n", "get a b\r\n", "get a \r\n", "get a\n", "get aaaaaaaa\n", "get a\tb\r\n",
        "get aaaaaaa\r\r\n", "get aaaaaaaa", "get aaaaaaaa\r", "gets aaaa\r\n", "GET aaaaa\r\n", "get \r\n\r\n\r\n",
        "set a 0 0 5 noreply\r\n", "set a 0 0 5 \r\n", "set a 0 0 \r\n", "set a 0 0 5", "set a 0 0 5\n",
        "set a 0 0\r\n",
        "set a -1 0 5\r\n", "set a 0 -1 5\r\n", "set a 0 0 -1\r\n", "set a +1 0 5\r\n", "set a 0 0 x\r\n",
        "set a  0 0 5\r\n", "set a 1234567890 0 5\r\n", "set a 0 1234567890 5\r\n", "set a 0 0 1234567890\r\n",
        "setq a 0 0 5\r\n", "add a 0 0 5\r\n",
    ]) func `leaves the rest alone`(line: String) {
        #expect(describePlain(Array(line.utf8)) == nil)
    }

    @Test func `holds keys to their limit`() {
        let key = String(repeating: "k", count: 250)
        #expect(describePlain(Array("get \(key)\r\n".utf8)) != nil)
        #expect(describePlain(Array("get \(key)k\r\n".utf8)) == nil)
        #expect(describePlain(Array("set \(key)k 0 0 1\r\n".utf8)) == nil)
    }

    @Test func `means the same for all lines of the tables, cut anywhere`() {
        for row in classicRows + metaRows {
            let bytes = Array((row.line + "\r\nget next\r\n").utf8)
            for end in 0...bytes.count {
                // The comparison with the long way is inside.
                let plain = describePlain(Array(bytes[..<end]))
                if let plain { #expect(plain == row.expected, "\(row.line)") }
            }
        }
    }

    @Test func `goes on behind a line that came in parts`() {
        var parser = RequestParser(limits: ProtocolLimits())
        let line = Array("get abcdefgh\r\n".utf8)
        let early = line[..<9].withUnsafeBytes { parser.parse($0) }
        #expect(early == .incomplete)
        let plain = line.withUnsafeBytes { parser.parsePlain($0) }
        #expect(Int(plain.lineBytes) == line.count)
        // A shorter line than the part that was searched.
        let next = Array("get a\r\n".utf8).withUnsafeBytes { describe(parser.parse($0), $0) }
        #expect(next == "get [\"a\"]")
    }
}
