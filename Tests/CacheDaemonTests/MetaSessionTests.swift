// Meta commands over plain buffers: cut anywhere, from memory and from disk.

import CacheEngine
import Primitives
import Protocol
import Testing

@testable import CacheDaemon

/// Requests with the replies that a fresh memory-only cache gives.
private let meta: [(send: String, expect: String)] = [
    ("mn\r\n", "MN\r\n"),
    ("mg a v\r\n", "EN\r\n"),
    ("mg a v q\r\n", ""),
    ("mg a k O1\r\n", "EN ka O1\r\n"),
    ("ms a 5 F7 T0 k Oq s\r\nhello\r\n", "HD ka Oq s5\r\n"),
    ("mg a s f t v k O2\r\n", "VA 5 s5 f7 t-1 ka O2\r\nhello\r\n"),
    ("ms a 5 ME\r\nother\r\n", "NS\r\n"),
    ("ms a 1 MA s\r\n!\r\n", "HD s6\r\n"),
    ("ms a 1 MP q\r\n<\r\n", ""),
    ("mg a v\r\n", "VA 7\r\n<hello!\r\n"),
    ("ms a 2 q\r\nbadness\r\nmn\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"),
    ("ms b 2 C5\r\nxx\r\n", "NF\r\n"),
    ("ms b 2 E500 c\r\nxx\r\n", "HD c500\r\n"),
    ("ms b 2 C499\r\nyy\r\n", "EX\r\n"),
    ("ms b 2 C499 I E501\r\nyy\r\n", "HD\r\n"),
    ("mg b v c\r\n", "VA 2 c501 X W\r\nyy\r\n"),
    ("mg b v\r\n", "VA 2 Z X\r\nyy\r\n"),
    ("ms b 2 T100\r\nzz\r\n", "HD\r\n"),
    ("mg b v R200 t\r\n", "VA 2 t100 W\r\nzz\r\n"),
    ("mg b t T50\r\n", "HD t100 Z\r\n"),
    ("mg b T60 t\r\n", "HD t60 Z\r\n"),
    ("mg v N30 t v\r\n", "VA 0 t30 W\r\n\r\n"),
    ("get v\r\n", "VALUE v 0 0\r\n\r\nEND\r\n"),
    ("md b C1\r\n", "EX\r\n"),
    ("md b x\r\n", "HD\r\n"),
    ("mg b v s f t\r\n", "VA 0 s0 f0 t60\r\n\r\n"),
    ("md b q\r\n", ""),
    ("md b q\r\n", "NF\r\n"),
    ("ma n\r\n", "NF\r\n"),
    ("ma n N0 J13 v t\r\n", "VA 2 t-1\r\n13\r\n"),
    ("ma n D5 MD v q\r\nma n v\r\n", "VA 1\r\n9\r\n"),
    ("ma a\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    ("ms Zm9v 3 b k\r\nbar\r\n", "HD kZm9v b\r\n"),
    ("mg foo k v\r\n", "VA 3 kZm9v b\r\nbar\r\n"),
    ("mg a v v\r\n", "CLIENT_ERROR duplicate flag\r\n"),
    ("me missing\r\n", "EN\r\n"),
]

@Suite("meta sessions")
struct MetaSessionTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test("each command by itself, and all in one pipeline")
    func commands() throws {
        let client = try Conversation(owning: memoryCache(clock: ManualClock()))
        for (send, expect) in meta { #expect(client.say(send) == expect, "\(send)") }
        let other = try Conversation(owning: memoryCache(clock: ManualClock()))
        #expect(other.say(meta.map(\.send).joined()) == meta.map(\.expect).joined())
    }

    @Test("the pipeline cut in two at every byte")
    func everySplit() throws {
        let bytes = Array(meta.map(\.send).joined().utf8)
        let expected = meta.map(\.expect).joined()
        let owner = try Conversation(owning: memoryCache(clock: ManualClock()))
        for cut in 1..<bytes.count {
            let client = try Conversation(owner.cache)
            client.say("flush_all\r\n")
            let replies = client.say(bytes[..<cut]) + client.say(bytes[cut...])
            guard replies != expected else { continue }
            Issue.record("cut at \(cut): \(replies)")
            break
        }
    }

    @Test("several mg read from disk at once and answer in order")
    func disk() throws {
        let entries = ["a": Array("1".utf8), "b": Array("22".utf8), "c": [UInt8](repeating: 120, count: 2_000_000)]
        let large = String(repeating: "x", count: 2_000_000)
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let client = try Conversation(owning: try coldCache(entries, in: directory))
            #expect(client.say("mg a v k\r\nmg c v s\r\nmg b v f\r\nmn\r\n") == "")
            #expect(client.openReads == 3)
            let completions = client.held.take(3)
            let first = order.map { client.deliver([completions[$0]]) }.joined()
            let expected = "VA 1 ka\r\n1\r\nVA 2000000 s2000000\r\n\(large)\r\nVA 2 f7\r\n22\r\nMN\r\n"
            #expect(first + client.finish() == expected)
            #expect(client.count(.getHits) == 3)
        }
    }

    @Test(
        "changes mean the same for an entry on disk",
        arguments: [
            ("md k\r\n", "HD", "EN"), ("md x\r\n", "NF", "VA 1\r\n5"), ("md k I\r\n", "HD", "VA 1 X W\r\n5"),
            ("ma k v\r\n", "VA 1\r\n6", "VA 1\r\n6"), ("ma x N0 J3 v\r\n", "VA 1\r\n3", "VA 1\r\n5"),
            ("ms k 1 ME\r\n7\r\n", "NS", "VA 1\r\n5"), ("ms k 1 MA s\r\n7\r\n", "HD s2", "VA 2\r\n57"),
            ("ms k 1 C1\r\n7\r\n", "EX", "VA 1\r\n5"), ("ms x 1 C1\r\n7\r\n", "NF", "VA 1\r\n5"),
            ("ms k 1 C1 I\r\n7\r\n", "HD", "VA 1 X W\r\n7"), ("mg k T100 t v\r\n", "VA 1 t100\r\n5", "VA 1\r\n5"),
            ("mg x N100 v\r\n", "VA 0 W\r\n", "VA 1\r\n5"), ("mg k R10 v\r\n", "VA 1\r\n5", "VA 1\r\n5"),
            ("md k x T100\r\n", "HD", "VA 0\r\n"), ("ms k 1 q\r\n8\r\n", "", "VA 1\r\n8"),
        ])
    func changes(send: String, reply: String, left: String) throws {
        let client = try Conversation(owning: try coldCache(["k": Array("5".utf8)], in: directory))
        let expected = reply.isEmpty ? "" : reply + "\r\n"
        #expect(client.say(send) + client.finish() == expected)
        #expect(client.say("mg k v\r\n") + client.finish() == left + "\r\n")
    }

    @Test("a change waits for the mg before it, and an mg that changes waits for its turn")
    func order() throws {
        let client = try Conversation(owning: try coldCache(["k": Array("5".utf8)], in: directory))
        #expect(client.say("mg k v\r\nma k v\r\nmg k T100 v\r\nmd k\r\nmg k\r\n") == "")
        #expect(client.openReads == 1)
        #expect(client.finish() == "VA 1\r\n5\r\nVA 1\r\n6\r\nVA 1\r\n6\r\nHD\r\nEN\r\n")
    }

    @Test("at durability `always` quiet changes are silent and others wait for the commit")
    func commits() throws {
        let cache = try coldCache(["k": Array("5".utf8)], in: directory) { $0.disk?.durability = .always }
        let client = try Conversation(owning: cache)
        #expect(client.say("mg k T100 t\r\nms k 1 c\r\n6\r\nma k v\r\nmd k q\r\nmg k v\r\n") == "")
        let replies = client.finish()
        #expect(replies.hasPrefix("HD t100\r\nHD c"))
        #expect(replies.hasSuffix("\r\nVA 1\r\n7\r\nEN\r\n"))
    }
}
