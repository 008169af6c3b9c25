// Replies, byte for byte.

import Primitives
import Testing

@testable import Protocol

@Suite struct ReplyTests {
    @Test func oneLineReplies() {
        let replies: [(Reply, String)] = [
            (.stored, "STORED\r\n"), (.notStored, "NOT_STORED\r\n"), (.exists, "EXISTS\r\n"),
            (.notFound, "NOT_FOUND\r\n"), (.deleted, "DELETED\r\n"), (.touched, "TOUCHED\r\n"), (.ok, "OK\r\n"),
            (.end, "END\r\n"), (.reset, "RESET\r\n"), (.metaNoOperation, "MN\r\n"), (.number(0), "0\r\n"),
            (.number(.max), "18446744073709551615\r\n"), (.error(.unknownCommand), "ERROR\r\n"),
            (.error(.valueTooLarge), "SERVER_ERROR object too large for cache\r\n"), (.error(.binaryProtocol), ""),
        ]
        for (reply, expected) in replies {
            #expect(written { $0.append(reply) } == expected)
        }
    }

    @Test func everyErrorHasItsOwnLineAndThoseThatCloseSilentlyHaveNone() {
        var seen: Set<String> = []
        for error in RequestError.allCases {
            let line = "\(error.replyLine)"
            #expect(line.isEmpty || seen.insert(line).inserted, "twice: \(line)")
            #expect(line.isEmpty == [.binaryProtocol, .httpRequest, .lineTooLong].contains(error))
            #expect(!"\(error.reason)".isEmpty)
            #expect(!line.contains("\r") && !line.contains("\n"))
            let prefixes = [
                "ERROR", "CLIENT_ERROR ", "SERVER_ERROR", "MEMLIMIT_", "BADCLASS ", "BUSY ", "WATCHER_TOO_MANY ",
            ]
            #expect(line.isEmpty || prefixes.contains { line.hasPrefix($0) }, "\(line)")
            #expect(written { $0.append(.error(error)) } == (line.isEmpty ? "" : line + "\r\n"))
        }
    }

    @Test func fatalErrorsAreThoseThatLoseFraming() {
        let fatal = RequestError.allCases.filter(\.isFatal)
        #expect(fatal == [.lineTooLong, .httpRequest, .binaryProtocol, .tooManyConnections])
    }

    @Test func valueHeaders() {
        let key: [UInt8] = [0x6b, 0x00, 0xff]
        var buffer = ByteBuffer()
        key.withUnsafeBytes { buffer.appendValueHeader(key: $0, flags: 0, count: 0, cas: nil) }
        key.withUnsafeBytes { buffer.appendValueHeader(key: $0, flags: .max, count: 2_147_483_645, cas: .max) }
        let expected =
            Array("VALUE ".utf8) + key + Array(" 0 0\r\nVALUE ".utf8) + key
            + Array(" 4294967295 2147483645 18446744073709551615\r\n".utf8)
        #expect(Array(buffer.readable) == expected)
    }

    @Test func valueHeadersFitHoweverFullTheBufferIs() {
        let key = [UInt8](repeating: 0x6b, count: 250)
        let header = Array("VALUE ".utf8) + key + Array(" 4294967295 9223372036854775807 18446744073709551615\r\n".utf8)
        for filled in 0..<1200 {
            var buffer = ByteBuffer()
            for _ in 0..<filled { buffer.append(byte: 0) }
            key.withUnsafeBytes { buffer.appendValueHeader(key: $0, flags: .max, count: .max, cas: .max) }
            #expect(Array(buffer.readable.dropFirst(filled)) == header)
        }
    }

    @Test func statisticsVersionAndHelp() {
        #expect(written { $0.appendStatistic("curr_items", 42) } == "STAT curr_items 42\r\n")
        #expect(written { $0.appendStatistic("rusage_user", "0.000001") } == "STAT rusage_user 0.000001\r\n")
        #expect(written { $0.appendVersion("1.6.45-test") } == "VERSION 1.6.45-test\r\n")
        let help = written { $0.appendHelp() }.split(separator: "\r\n")
        #expect(help.count == Command.allCases.count + 1)
        #expect(help.first == "get <key>+ - read entries")
        #expect(help.contains("version - tell name and version"))
        #expect(help.last == "END")
    }
}

@Suite struct MetaReplyTests {
    @Test func statuses() {
        let statuses: [(MetaStatus, String)] = [
            (.done, "HD\r\n"), (.value(bytes: 5), "VA 5\r\n"), (.miss, "EN\r\n"), (.notFound, "NF\r\n"),
            (.notStored, "NS\r\n"), (.exists, "EX\r\n"),
        ]
        for (status, expected) in statuses {
            #expect(reply(to: "mg k", status, MetaAttributes()) == expected)
        }
    }

    @Test func attributesComeInTheOrderOfTheRequest() {
        let line = "mg foo s v t f c k h l Oabc"
        #expect(reply(to: line, .value(bytes: 3), hit) == "VA 3 s3 t-1 f7 c9 kfoo h1 l12 Oabc\r\n")
        #expect(reply(to: "mg foo Oabc l k", .done, hit) == "HD Oabc l12 kfoo\r\n")
        #expect(reply(to: "mg foo O", .done, hit) == "HD O\r\n")
    }

    @Test func missesReturnKeyAndOpaqueOnly() {
        #expect(reply(to: "mg foo s t f c k Oz", .miss, MetaAttributes()) == "EN kfoo Oz\r\n")
        #expect(reply(to: "md foo Oz k", .notFound, MetaAttributes()) == "NF Oz kfoo\r\n")
    }

    @Test func binaryKeysGoBackAsBase64() {
        #expect(reply(to: "mg Zm9vYg== k b", .miss, MetaAttributes()) == "EN kZm9vYg== b\r\n")
        #expect(reply(to: "mg AP8= b k s", .done, hit) == "HD kAP8= b s3\r\n")
    }

    @Test func marksComeLast() {
        var marked = hit
        marked.isWon = true
        marked.isStale = true
        #expect(reply(to: "mg foo c", .done, marked) == "HD c9 X W\r\n")
        marked.isWon = false
        marked.isWonByOther = true
        #expect(reply(to: "mg foo c", .done, marked) == "HD c9 Z X\r\n")
    }

    @Test func aTTLThatIsOverIsZeroAndNotALargeNumber() {
        var ended = hit
        ended.ttl = .seconds(0)
        #expect(reply(to: "mg foo t", .done, ended) == "HD t0\r\n")
    }

    @Test func inspection() {
        let text = written { buffer in
            Array("foo".utf8).withUnsafeBytes {
                buffer.appendMetaInspection(key: MetaReplyKey($0, isBinary: false), hit, totalBytes: 70)
                buffer.appendMetaInspection(key: MetaReplyKey($0, isBinary: true), MetaAttributes(), totalBytes: 0)
            }
        }
        #expect(
            text == "ME foo exp=-1 la=12 cas=9 fetch=yes cls=1 size=70\r\n"
                + "ME Zm9v exp=-1 la=0 cas=0 fetch=no cls=1 size=0\r\n")
    }

    private var hit: MetaAttributes {
        var attributes = MetaAttributes()
        attributes.unique = 9
        attributes.clientFlags = 7
        attributes.wasHit = true
        attributes.lastAccessSeconds = 12
        attributes.valueBytes = 3
        attributes.ttl = .unlimited
        return attributes
    }

    /// What a session sends when `line` has the given outcome.
    private func reply(to line: String, _ status: MetaStatus, _ attributes: MetaAttributes) -> String {
        let bytes = Array((line + "\r\n").utf8)
        var parser = RequestParser(limits: ProtocolLimits())
        return bytes.withUnsafeBytes { input in
            guard case .request(.meta(let request), _) = parser.parse(input) else { return "not a meta request" }
            return written { buffer in
                request.withKey(in: input) { key in
                    buffer.appendMeta(
                        status, returns: request.returns,
                        key: MetaReplyKey(key, isBinary: request.flags.contains(.base64Key)),
                        opaque: input[request.opaque], attributes)
                }
            }
        }
    }
}

/// What `write` appends to an empty buffer, as text.
func written(_ write: (inout ByteBuffer) -> Void) -> String {
    var buffer = ByteBuffer()
    write(&buffer)
    return String(decoding: buffer.readable, as: UTF8.self)
}

/// `bytes` as base64, by the production encoder.
func encoded(_ bytes: [UInt8]) -> String {
    written { buffer in bytes.withUnsafeBytes { buffer.append(base64: $0) } }
}
