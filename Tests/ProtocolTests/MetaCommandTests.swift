// Meta commands by table, and their keys.

import Testing

@testable import Protocol

@Suite struct MetaCommandTests {
    @Test func everyRowParsesAsTheTableSays() {
        check(metaRows)
    }

    @Test func plainKeysAreTakenFromTheLine() {
        #expect(key(of: "mg Zm9v k") == Array("Zm9v".utf8))
    }

    @Test func base64KeysAreDecoded() {
        #expect(key(of: "mg Zm9v b") == Array("foo".utf8))
        #expect(key(of: "mg Zm9vYg== b") == Array("foob".utf8))
        #expect(key(of: "me Zm9vYmE= b") == Array("fooba".utf8))
        #expect(key(of: "md AP8gDQr+ b") == [0x00, 0xff, 0x20, 0x0d, 0x0a, 0xfe])
        #expect(key(of: "ms +/+/ 5 b") == [0xfb, 0xff, 0xbf])
        // 248 letters are the longest that fit the key limit.
        let longest = String(repeating: "QUJD", count: 62)
        #expect(key(of: "mg \(longest) b") == Array(String(repeating: "ABC", count: 62).utf8))
    }

    @Test func everyByteSurvivesTheWayThroughBase64() {
        for count in 1...6 {
            for byte in UInt8.min...UInt8.max {
                let bytes = (0..<count).map { byte &+ UInt8($0) &* 37 }
                #expect(key(of: "mg \(encoded(bytes)) b") == bytes)
            }
        }
    }

    private func key(of line: String) -> [UInt8]? {
        let bytes = Array((line + "\r\n").utf8)
        var parser = RequestParser(limits: ProtocolLimits())
        return bytes.withUnsafeBytes { input in
            guard case .request(.meta(let request), _) = parser.parse(input) else { return nil }
            return request.withKey(in: input) { Array($0) }
        }
    }
}
