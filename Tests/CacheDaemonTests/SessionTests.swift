// Sessions over plain buffers: every classic command, however the bytes are cut.

import CacheEngine
import Primitives
import Protocol
import Testing

@testable import CacheDaemon

/// Every classic command, with the replies that a memory-only cache gives.
private let classic: [(send: String, expect: String)] = [
    ("get a\r\n", "END\r\n"),
    ("set a 5 0 5\r\nhello\r\n", "STORED\r\n"),
    ("get a\r\n", "VALUE a 5 5\r\nhello\r\nEND\r\n"),
    ("get a b a\r\n", "VALUE a 5 5\r\nhello\r\nVALUE a 5 5\r\nhello\r\nEND\r\n"),
    ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
    ("add b 0 0 1\r\nx\r\n", "STORED\r\n"),
    ("replace c 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
    ("replace b 1 0 2\r\nyz\r\n", "STORED\r\n"),
    ("append b 9 0 1\r\n!\r\n", "STORED\r\n"),
    ("prepend b 9 0 1\r\n<\r\n", "STORED\r\n"),
    ("append c 9 0 1\r\n!\r\n", "NOT_STORED\r\n"),
    ("get b\r\n", "VALUE b 1 4\r\n<yz!\r\nEND\r\n"),
    ("cas c 0 0 1 7\r\nx\r\n", "NOT_FOUND\r\n"),
    ("cas b 0 0 1 1\r\nx\r\n", "EXISTS\r\n"),
    ("set empty 0 0 0\r\n\r\n", "STORED\r\n"),
    ("get empty\r\n", "VALUE empty 0 0\r\n\r\nEND\r\n"),
    ("set n 0 0 2\r\n10\r\n", "STORED\r\n"),
    ("incr n 5\r\n", "15\r\n"),
    ("decr n 20\r\n", "0\r\n"),
    ("get n\r\n", "VALUE n 0 2\r\n0 \r\nEND\r\n"),
    ("incr missing 1\r\n", "NOT_FOUND\r\n"),
    ("incr a 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    ("incr n 1 noreply\r\n", ""),
    ("touch a 100\r\n", "TOUCHED\r\n"),
    ("touch missing 100\r\n", "NOT_FOUND\r\n"),
    ("touch a 100 noreply\r\n", ""),
    ("gat 100 a b missing\r\n", "VALUE a 5 5\r\nhello\r\nVALUE b 1 4\r\n<yz!\r\nEND\r\n"),
    ("set q 0 0 1 noreply\r\nq\r\n", ""),
    (
        "set q 0 0 1\r\nqq\r\nget q\r\n",
        "CLIENT_ERROR bad data chunk\r\nCLIENT_ERROR bad command line format\r\nVALUE q 0 1\r\nq\r\nEND\r\n"
    ),
    ("set q 0 0 1 noreply\r\nqq\nversion\r\n", "VERSION \(ProductVersion.wire)\r\n"),
    ("delete q\r\n", "DELETED\r\n"),
    ("delete q\r\n", "NOT_FOUND\r\n"),
    ("delete q noreply\r\n", ""),
    ("set gone 0 -1 1\r\nx\r\n", "STORED\r\n"),
    ("get gone\r\n", "END\r\n"),
    ("nonsense\r\n", "ERROR\r\n"),
    ("set a b c d\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("verbosity 1\r\n", "OK\r\n"),
    ("mn\r\n", "MN\r\n"),
    ("stats reset\r\n", "RESET\r\n"),
    ("stats nonsense\r\n", "ERROR\r\n"),
    ("shutdown\r\n", "SERVER_ERROR: shutdown not enabled\r\n"),
    ("flush_all\r\n", "OK\r\n"),
    ("get a b n\r\n", "END\r\n"),
    ("flush_all noreply\r\n", ""),
    ("version\r\n", "VERSION \(ProductVersion.wire)\r\n"),
]

@Suite("sessions")
struct SessionTests {
    @Test("each command by itself")
    func commands() throws {
        let client = try Conversation(owning: memoryCache())
        for (send, expect) in classic { #expect(client.say(send) == expect, "\(send)") }
        #expect(client.stall == .input)
        #expect(client.unconsumedBytes == 0)
    }

    @Test("all commands in one pipeline")
    func pipeline() throws {
        let client = try Conversation(owning: memoryCache())
        #expect(client.say(classic.map(\.send).joined()) == classic.map(\.expect).joined())
    }

    @Test("the pipeline cut in two at every byte")
    func everySplit() throws {
        let bytes = Array(classic.map(\.send).joined().utf8)
        let expected = classic.map(\.expect).joined()
        let owner = try Conversation(owning: memoryCache())
        for cut in 1..<bytes.count {
            let client = try Conversation(owner.cache)
            client.say("flush_all\r\n")
            let replies = client.say(bytes[..<cut]) + client.say(bytes[cut...])
            guard replies != expected else { continue }
            Issue.record("cut at \(cut): \(replies)")
            break
        }
    }

    @Test("the pipeline byte by byte")
    func byteByByte() throws {
        let client = try Conversation(owning: memoryCache())
        var replies = ""
        for byte in classic.map(\.send).joined().utf8 { replies += client.say([byte]) }
        #expect(replies == classic.map(\.expect).joined())
    }

    @Test("values are read straight into the entry")
    func directBody() throws {
        let client = try Conversation(owning: memoryCache())
        let value = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        #expect(client.say("set big 0 0 100000\r\n") == "")
        #expect(client.wantsBody)
        var sent = 0
        while sent < value.count { sent += client.sayDirectly(Array(value[sent..<min(sent + 7777, value.count)])) }
        #expect(!client.wantsBody)
        #expect(client.say("\r") == "")
        #expect(client.say("\n") == "STORED\r\n")
        let reply = client.say("get big\r\n")
        #expect(
            reply.utf8.count == "VALUE big 0 100000\r\n".utf8.count + 100_000 + "\r\nEND\r\n".utf8.count
                || reply.hasPrefix("VALUE big 0 100000\r\n"))
    }

    @Test("quit: what came before is answered, what comes after is not executed")
    func quit() throws {
        let client = try Conversation(owning: memoryCache())
        #expect(client.say("set a 0 0 1\r\nx\r\nquit\r\nset a 0 0 1\r\ny\r\n") == "STORED\r\n")
        #expect(client.isClosing)
        #expect(client.say("get a\r\n") == "")
        #expect(try Conversation(client.cache).say("get a\r\n") == "VALUE a 0 1\r\nx\r\nEND\r\n")
    }

    @Test(
        "lost framing closes without a word",
        arguments: [
            [UInt8](repeating: 0x80, count: 3000), [UInt8](repeating: 0x78, count: 3000),
            Array("GET / HTTP/1.1\r\nset a 0 0 1\r\nx\r\n".utf8),
        ])
    func fatal(bytes: [UInt8]) throws {
        let client = try Conversation(owning: memoryCache())
        #expect(client.say(bytes) == "")
        #expect(client.isClosing)
        #expect(client.say("version\r\n") == "")
    }

    @Test("a value over the limit is refused at once and swallowed; set drops the old one, the others leave it")
    func tooLarge() throws {
        let client = try Conversation(owning: memoryCache { $0.entryBytesMax = 2000 })
        let body = String(repeating: "z", count: 3000) + "\r\n"
        #expect(client.say("set a 0 0 1\r\nx\r\n") == "STORED\r\n")
        for command in ["add", "replace", "append", "prepend"] {
            let line = "\(command) a 0 0 3000\r\n"
            #expect(client.say(line) == "SERVER_ERROR object too large for cache\r\n", "answered before the data")
            #expect(client.say(body + "get a\r\n") == "VALUE a 0 1\r\nx\r\nEND\r\n")
        }
        #expect(client.say("cas a 0 0 3000 1\r\n" + body) == "SERVER_ERROR object too large for cache\r\n")
        #expect(client.say("set a 0 0 3000 noreply\r\n" + body) == "")
        #expect(client.say("get a\r\n") == "END\r\n")
        #expect(client.count(.valuesTooLarge) == 6)
    }

    @Test("a TTL of n seconds lasts at least n, and ends")
    func timeToLive() throws {
        let clock = ManualClock()
        let client = try Conversation(owning: memoryCache(clock: clock))
        let soon = clock.wall().seconds + 2
        #expect(client.say("set a 0 1 1\r\nx\r\nset b 0 \(soon) 1\r\nx\r\n") == "STORED\r\nSTORED\r\n")
        clock.advance(1000)
        #expect(client.say("get a\r\n") == "VALUE a 0 1\r\nx\r\nEND\r\n")
        clock.advance(2)
        #expect(client.say("get a\r\n") == "END\r\n")
        #expect(client.say("get b\r\n") == "VALUE b 0 1\r\nx\r\nEND\r\n")
        clock.advance(1000)
        #expect(client.say("get b\r\n") == "END\r\n")
        #expect(client.say("set c 0 1600000000 1\r\nx\r\nget c\r\n") == "STORED\r\nEND\r\n")
    }

    @Test("counters count as memcached's")
    func counters() throws {
        let client = try Conversation(owning: memoryCache())
        client.say("set a 0 0 1\r\n1\r\nset b 0 0 1 noreply\r\n1\r\nadd a 0 0 1\r\n1\r\n")
        client.say("get a b x\r\ngets a\r\ngat 0 a x\r\ntouch a 0\r\ntouch x 0\r\n")
        client.say("incr a 1\r\nincr x 1\r\ndecr a 1\r\ndecr x 1\r\ndelete a\r\ndelete a\r\n")
        client.say("cas x 0 0 1 1\r\n1\r\ncas b 0 0 1 1\r\n1\r\nflush_all\r\nflush_all 10\r\n")
        let expected: [(Counter, UInt64)] = [
            (.setCommands, 5), (.getCommands, 4), (.getHits, 3), (.getMisses, 1), (.touchCommands, 4), (.touchHits, 2),
            (.touchMisses, 2), (.incrementHits, 1), (.incrementMisses, 1), (.decrementHits, 1), (.decrementMisses, 1),
            (.deleteHits, 1), (.deleteMisses, 1), (.casMisses, 1), (.casMismatches, 1), (.casHits, 0),
            (.flushCommands, 2),
        ]
        for (counter, value) in expected { #expect(client.count(counter) == value, "\(counter)") }
    }
}
