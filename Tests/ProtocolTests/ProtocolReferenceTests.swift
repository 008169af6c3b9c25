// docs/PROTOCOL.md against the command table, the parser and the error table: the page cannot go stale.

import Foundation
import Testing

@testable import Protocol

@Suite struct ProtocolReferenceTests {
    private let page: [Substring]

    init() throws {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../docs/PROTOCOL.md").standardizedFileURL
        page = try String(contentsOf: file, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false)
    }

    @Test func everyCommandHasAHeadingAndItsArguments() {
        for command in Command.allCases {
            let spec = command.spec
            let hasHeading = page.contains("### \(spec.name)")
            #expect(hasHeading, "no heading for \(spec.name)")
            let usage = "\(spec.name) \(spec.arguments)".trimmingCharacters(in: .whitespaces)
            let hasUsage = page.contains("`\(usage)`")
            #expect(hasUsage, "no line `\(usage)`")
        }
    }

    @Test func everyHeadingOfTheThirdLevelIsACommand() {
        let names = Set(Command.allCases.map { "\($0.spec.name)" })
        for line in page where line.hasPrefix("### ") { #expect(names.contains(String(line.dropFirst(4))), "\(line)") }
    }

    @Test func theErrorTableIsComplete() {
        for error in RequestError.allCases where error.replyLine.utf8CodeUnitCount > 0 {
            let line = "\(error.replyLine)".replacing("|", with: "\\|")
            let hasRow = page.contains { $0.hasPrefix("| `\(line)` |") }
            #expect(hasRow, "missing: \(error.replyLine)")
        }
    }

    @Test func everyExampleOfAnErrorIsWhatTheParserSays() throws {
        var checked = 0
        for session in sessions() {
            var parser = RequestParser(limits: ProtocolLimits())
            for exchange in exchanges(session) {
                let result = exchange.sent.withUnsafeBytes { parser.parse($0) }
                switch result {
                case .request:
                    #expect(consumedBytes(result) <= exchange.sent.count, "\(exchange)")
                    // Errors that only a session finds may come back; the parser's own may not.
                    let isParserError = exchange.replies.first.map(parserErrors.contains) ?? false
                    #expect(!isParserError, "\(exchange)")
                case .refused(let error, _, _, let isQuiet):
                    #expect(exchange.replies.first == (isQuiet ? nil : "\(error.replyLine)"), "\(exchange)")
                    checked += 1
                case .fatal, .incomplete: Issue.record("\(exchange)")
                }
            }
        }
        #expect(checked >= 10)
    }

    /// Lines that only the parser answers.
    ///
    /// A session says `ERROR` too, and a bad data chunk may leave a bad line behind.
    private let parserErrors: Set<String> = {
        let lines = RequestError.allCases.prefix { $0 != .badDataChunk }.map { "\($0.replyLine)" }
        return Set(lines).subtracting(["ERROR", "CLIENT_ERROR bad command line format"])
    }()

    private struct Exchange: CustomStringConvertible {
        var sent: [UInt8]
        var replies: [String]
        var description: String { String(decoding: sent, as: UTF8.self) }
    }

    /// The fenced blocks of the page that are sessions.
    private func sessions() -> [[Substring]] {
        page.split { $0 == "```" }.map(Array.init).filter { $0.first?.hasPrefix("> ") == true }
    }

    /// One exchange for each request: its line, with the data block if it has one, and the replies to it.
    private func exchanges(_ session: [Substring]) -> [Exchange] {
        var exchanges: [Exchange] = []
        var blockFollows = false
        for line in session {
            if line.hasPrefix("< ") || line == "<" {
                if !exchanges.isEmpty { exchanges[exchanges.count - 1].replies.append(String(line.dropFirst(2))) }
                continue
            }
            let bytes = Array((line.dropFirst(2) + "\r\n").utf8)
            if blockFollows {
                exchanges[exchanges.count - 1].sent += bytes
                blockFollows = false
                continue
            }
            exchanges.append(Exchange(sent: bytes, replies: []))
            var parser = RequestParser(limits: ProtocolLimits())
            blockFollows = consumedBytes(bytes.withUnsafeBytes { parser.parse($0) }) > bytes.count
        }
        return exchanges
    }
}
