// Each row of the classic tables, with both line ends, alone and with another request behind it.

import Testing

@testable import Protocol

@Suite struct ClassicCommandTests {
    @Test func everyRowParsesAsTheTableSays() {
        check(classicRows)
    }
}

/// Holds `rows` against a fresh parser, once with each line end and once with more input behind the line.
func check(_ rows: [Row]) {
    for row in rows {
        for lineEnd in ["\r\n", "\n"] {
            let bytes = Array((row.line + lineEnd).utf8)
            #expect(parseOnce(bytes) == row.expected, "\(row.line)")
            let pipelined = bytes + Array("get behind\r\n".utf8)
            #expect(parseOnce(pipelined) == row.expected, "pipelined: \(row.line)")
            expectLineBytes(bytes.count, pipelined, row.line)
        }
    }
}

/// A result that is not fatal must say how long the line is, whatever follows it.
private func expectLineBytes(_ expected: Int, _ bytes: [UInt8], _ line: String) {
    var parser = RequestParser(limits: ProtocolLimits())
    let result = bytes.withUnsafeBytes { parser.parse($0) }
    switch result {
    case .request(_, let lineBytes), .refused(_, let lineBytes, _, _): #expect(lineBytes == expected, "\(line)")
    case .fatal: break
    case .incomplete: Issue.record("incomplete: \(line)")
    }
}
