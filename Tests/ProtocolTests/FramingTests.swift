// Where a request begins and ends, however its bytes arrive.

import Testing

@testable import Protocol

@Suite struct FramingTests {
    @Test func everyPrefixIsIncompleteAndTheRestChangesNothing() {
        for row in classicRows + metaRows {
            let bytes = Array((row.line + "\r\n").utf8)
            for split in 0..<bytes.count {
                var parser = RequestParser(limits: ProtocolLimits())
                let early = bytes[..<split].withUnsafeBytes { parser.parse($0) }
                #expect(early == .incomplete, "\(row.line) cut at \(split)")
                let late = bytes.withUnsafeBytes { describe(parser.parse($0), $0) }
                #expect(late == row.expected, "\(row.line) cut at \(split)")
            }
        }
    }

    @Test func aTrickledLineGivesTheSameAnswer() {
        for row in classicRows + metaRows {
            let bytes = Array((row.line + "\r\n").utf8)
            var parser = RequestParser(limits: ProtocolLimits())
            for end in 0..<bytes.count {
                #expect(bytes[..<end].withUnsafeBytes { parser.parse($0) } == .incomplete)
            }
            #expect(bytes.withUnsafeBytes { describe(parser.parse($0), $0) } == row.expected)
        }
    }

    @Test func onePassOverManyRequestsMatchesOneByOne() {
        // One connection, all rows that keep it open, each followed by the data block it announces.
        var parser = RequestParser(limits: ProtocolLimits())
        var stream: [UInt8] = []
        var expected: [String] = []
        for row in classicRows + metaRows where !row.expected.hasPrefix("fatal") {
            guard let block = dataBlockBytes(row), block < 1000 else { continue }
            stream += Array((row.line + "\r\n").utf8) + [UInt8](repeating: UInt8(ascii: "\n"), count: block)
            expected.append(row.expected)
        }
        var position = 0
        for line in expected {
            let rest = stream[position...]
            let (result, description) = rest.withUnsafeBytes {
                let result = parser.parse($0)
                return (result, describe(result, $0))
            }
            #expect(description == line)
            position += consumedBytes(result)
        }
        #expect(position == stream.count)
        #expect(stream[position...].withUnsafeBytes { parser.parse($0) } == .incomplete)
    }

    @Test func onlyOneCarriageReturnBelongsToTheLineEnd() {
        #expect(parseOnce(Array("get a\r\r\n".utf8)) == "get [\"a\\r\"]")
        #expect(parseOnce(Array("get a \r\n".utf8)) == "get [\"a\"]")
        #expect(parseOnce(Array("\n".utf8)) == bad)
        #expect(parseOnce(Array("\r\n".utf8)) == bad)
    }

    @Test func binaryProtocolIsRecognizedByTheFirstByteOfAConnectionOnly() {
        #expect(parseOnce([0x80]) == "fatal: binary protocol")
        #expect(parseOnce([0x80, 0x0a]) == "fatal: binary protocol")
        var parser = RequestParser(limits: ProtocolLimits())
        _ = Array("version\r\n".utf8).withUnsafeBytes { parser.parse($0) }
        let later: [UInt8] = [0x80, 0x0b, 0x0d, 0x0a]
        #expect(later.withUnsafeBytes { describe(parser.parse($0), $0) } == unknown)
    }

    @Test func aLineWithoutEndIsFatalAboveTheLimit() {
        for line in ["incr " + spaces(3000), spaces(3000), "set a 0 0 1 " + spaces(3000), "getx " + spaces(3000)] {
            let bytes = Array(line.utf8)
            #expect(bytes[..<2048].withUnsafeBytes { parseOnce(Array($0)) } == "incomplete", "\(line.prefix(8))")
            #expect(
                bytes[..<2049].withUnsafeBytes { parseOnce(Array($0)) } == "fatal: line too long",
                "\(line.prefix(8))")
        }
    }

    @Test func aLongLineThatIsWholeIsParsed() {
        #expect(parseOnce(Array(("incr " + spaces(3000) + "n 1\r\n").utf8)) == "incr n 1")
        #expect(parseOnce(Array(("set " + spaces(3000) + "n 0 0 1\r\n").utf8)) == "store n set flags=0 never bytes=1")
    }

    @Test func keyListsMayGrowToTheirOwnLimit() {
        var limits = ProtocolLimits()
        limits.retrievalLineBytesMax = 10_000
        for command in ["get ", "gets ", "gat 0 ", "gats 0 "] {
            let keys = String(repeating: "0123456789 ", count: 1000)
            let bytes = Array((command + keys).utf8)
            var parser = RequestParser(limits: limits)
            #expect(bytes[..<9999].withUnsafeBytes { parser.parse($0) } == .incomplete)
            #expect(bytes[..<10_000].withUnsafeBytes { parser.parse($0) } == .fatal(.lineTooLong))
        }
    }

    @Test func aKeyListAtTheLimitIsParsed() {
        let line = "get" + String(repeating: " 0123456789", count: 90_000) + "\r\n"
        let bytes = Array(line.utf8)
        var parser = RequestParser(limits: ProtocolLimits())
        bytes.withUnsafeBytes { input in
            guard case .request(.retrieve(let retrieval), let lineBytes) = parser.parse(input) else {
                Issue.record("not a retrieval")
                return
            }
            #expect(retrieval.keyCount == 90_000)
            #expect(lineBytes == bytes.count)
            var keys = KeyIterator(input, retrieval.keys)
            var count = 0
            while let key = keys.next() {
                #expect(key.count == 10)
                count += 1
            }
            #expect(count == 90_000)
        }
    }

    @Test func emptyInputIsIncomplete() {
        var parser = RequestParser(limits: ProtocolLimits())
        #expect(parser.parse(UnsafeRawBufferPointer(start: nil, count: 0)) == .incomplete)
        #expect(Array("get a\r\n".utf8).withUnsafeBytes { describe(parser.parse($0), $0) } == "get [\"a\"]")
    }

    @Test func aKeyLimitBelow250IsKept() {
        var limits = ProtocolLimits()
        limits.keyBytesMax = 3
        #expect(parseOnce(Array("get abc\r\n".utf8), limits: limits) == "get [\"abc\"]")
        #expect(parseOnce(Array("get abcd\r\n".utf8), limits: limits) == bad)
        #expect(parseOnce(Array("set abcd 0 0 1\r\n".utf8), limits: limits) == bad + " swallow=3")
    }
}

private func spaces(_ count: Int) -> String { String(repeating: " ", count: count) }

/// Length of the data block, CR LF included, that a row's line announces or has swallowed; nil if unknown.
private func dataBlockBytes(_ row: Row) -> Int? {
    let bytes = Array((row.line + "\r\n").utf8)
    var parser = RequestParser(limits: ProtocolLimits())
    let result = bytes.withUnsafeBytes { parser.parse($0) }
    switch result {
    case .fatal, .incomplete: return nil
    default: return consumedBytes(result) - bytes.count
    }
}

/// Bytes that a session drops for a result: line and data block.
func consumedBytes(_ result: ParseResult) -> Int {
    switch result {
    case .incomplete, .fatal: 0
    case .request(.store(let header), let lineBytes): lineBytes + header.valueBytes + 2
    case .request(.meta(let meta), let lineBytes):
        lineBytes + (meta.operation == .set ? meta.valueBytes + 2 : 0)
    case .request(_, let lineBytes): lineBytes
    case .refused(_, let lineBytes, let swallowBytes, _): lineBytes + swallowBytes
    }
}
