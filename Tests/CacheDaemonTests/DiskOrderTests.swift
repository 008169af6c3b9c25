// Entries that only the disk knows: the order of replies and of effects, whatever order the engine answers in.

import CacheEngine
import Primitives
import Protocol
import Testing

@testable import CacheDaemon

private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

/// All orders of `items`.
private func permutations<Item>(_ items: [Item]) -> [[Item]] {
    guard items.count > 1 else { return [items] }
    return items.indices.flatMap { index -> [[Item]] in
        var rest = items
        let first = rest.remove(at: index)
        return permutations(rest).map { [first] + $0 }
    }
}

@Suite("entries on disk")
struct DiskOrderTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func cold(_ entries: [String: String]) throws -> Conversation {
        try Conversation(owning: try coldCache(entries.mapValues(bytes), in: directory))
    }

    @Test("replies keep the order of the requests, in whatever order the disk answers")
    func replyOrder() throws {
        let entries = ["a": "1", "b": "22", "c": "333", "d": "4444"]
        let expected =
            "VALUE a 7 1\r\n1\r\nVALUE b 7 2\r\n22\r\nEND\r\nVALUE c 7 3\r\n333\r\nVALUE d 7 4\r\n4444\r\nEND\r\n"
            + "VERSION \(ProductVersion.wire)\r\n"
        for order in permutations([0, 1, 2, 3]) {
            let client = try cold(entries)
            #expect(client.say("get a b\r\nget c d\r\nversion\r\n") == "")
            #expect(client.openReads == 4)
            let completions = client.held.take(4)
            let replies = order.map { client.deliver([completions[$0]]) }.joined()
            #expect(replies == expected, "order \(order)")
        }
    }

    @Test("values from memory queue up behind values from disk")
    func mixed() throws {
        let client = try cold(["a": "1"])
        #expect(client.say("set m 0 0 1\r\nm\r\n") == "STORED\r\n")
        #expect(client.say("get m a m\r\nget m\r\n") == "VALUE m 0 1\r\nm\r\n")
        #expect(client.finish() == "VALUE a 7 1\r\n1\r\nVALUE m 0 1\r\nm\r\nEND\r\nVALUE m 0 1\r\nm\r\nEND\r\n")
        #expect(client.count(.getHits) == 4)
    }

    @Test("a change waits until the reads before it are answered, and reads after it see it")
    func programOrder() throws {
        let client = try cold(["a": "old"])
        #expect(client.say("get a\r\nset a 0 0 3\r\nnew\r\nget a\r\n") == "")
        #expect(client.stall == .slots)
        #expect(client.finish() == "VALUE a 7 3\r\nold\r\nEND\r\nSTORED\r\nVALUE a 0 3\r\nnew\r\nEND\r\n")
    }

    @Test(
        "every command means the same for an entry on disk",
        arguments: [
            ("add k 0 0 1\r\nx\r\n", "NOT_STORED", "5"), ("add x 0 0 1\r\nx\r\n", "STORED", "5"),
            ("replace k 7 0 1\r\nx\r\n", "STORED", "x"), ("replace x 0 0 1\r\nx\r\n", "NOT_STORED", "5"),
            ("append k 0 0 1\r\nx\r\n", "STORED", "5x"), ("prepend k 0 0 1\r\nx\r\n", "STORED", "x5"),
            ("append x 0 0 1\r\nx\r\n", "NOT_STORED", "5"), ("incr k 4\r\n", "9", "9"), ("decr k 9\r\n", "0", "0"),
            ("incr x 4\r\n", "NOT_FOUND", "5"), ("touch k 100\r\n", "TOUCHED", "5"),
            ("touch x 100\r\n", "NOT_FOUND", "5"), ("delete k\r\n", "DELETED", nil),
            ("delete x\r\n", "NOT_FOUND", "5"), ("delete k noreply\r\n", "", nil),
            ("cas k 0 0 1 1\r\nx\r\n", "EXISTS", "5"), ("cas x 0 0 1 1\r\nx\r\n", "NOT_FOUND", "5"),
            ("set k 7 0 1\r\nx\r\n", "STORED", "x"), ("gat 100 k\r\n", "VALUE k 7 1\r\n5\r\nEND", "5"),
            ("gat 100 x\r\n", "END", "5"), ("flush_all\r\n", "OK", nil),
        ] as [(String, String, String?)])
    func commands(send: String, reply: String, left: String?) throws {
        let client = try cold(["k": "5"])
        let expected = reply.isEmpty ? "" : reply + "\r\n"
        #expect(client.say(send) + client.finish() == expected)
        let value = left.map { "VALUE k 7 \($0.utf8.count)\r\n\($0)\r\n" } ?? ""
        #expect(client.say("get k\r\n") + client.finish() == value + "END\r\n")
    }

    @Test("the number of open reads is bounded; the rest of the keys follows")
    func slotBound() throws {
        let keys = (0..<300).map { "key-\($0)" }
        let client = try cold(Dictionary(uniqueKeysWithValues: keys.map { ($0, "v" + $0) }))
        client.say("get \(keys.joined(separator: " "))\r\nversion\r\n")
        #expect(client.openReads == ReplyQueue.slotsMax)
        let expected = keys.map { "VALUE \($0) 7 \($0.utf8.count + 1)\r\nv\($0)\r\n" }.joined()
        #expect(client.finish() == expected + "END\r\nVERSION \(ProductVersion.wire)\r\n")
        #expect(client.count(.getHits) == 300)
    }

    @Test("a value too large for memory is streamed in and out, behind and before other replies")
    func streams() throws {
        let large = (0..<3_000_001).map { UInt8(97 + $0 % 26) }
        let text = String(decoding: large, as: UTF8.self)
        let client = try Conversation(
            try coldCache(["l": large, "s": bytes("small")], in: directory) { $0.memory.bytesMax = 64 << 20 })
        let expected = "VALUE l 7 3000001\r\n\(text)\r\nVALUE s 7 5\r\nsmall\r\nVALUE l 7 3000001\r\n\(text)\r\nEND\r\n"
        let replies = client.say("get l s l\r\n") + client.finish()
        #expect(replies == expected)
        #expect(
            client.say("get l\r\nget s\r\n") + client.finish() == "VALUE l 7 3000001\r\n\(text)\r\nEND\r\n"
                + "VALUE s 7 5\r\nsmall\r\nEND\r\n")
        #expect(client.say("gat 100 l\r\n") + client.finish() == "VALUE l 7 3000001\r\n\(text)\r\nEND\r\n")
        #expect(client.say("append l 0 0 1\r\n!\r\n") + client.finish() == "STORED\r\n")
        #expect(client.say("get l\r\n") + client.finish() == "VALUE l 7 3000002\r\n\(text)!\r\nEND\r\n")
    }

    @Test("a client that does not read gets at most one chunk of a stream ahead")
    func streamBackPressure() throws {
        let large = [UInt8](repeating: 120, count: 3_000_000)
        let client = try Conversation(owning: try coldCache(["l": large], in: directory))
        client.say("get l\r\n")
        // The lookup may first say only that memory knows the entry now, and the session looks again.
        var found = client.held.take(1)
        while !found.isEmpty, !found.contains(where: { if case .stream = $0.outcome { true } else { false } }) {
            client.deliver(found)
            found = client.held.take(1)
        }
        client.deliver(found)
        client.isReading = false
        client.deliver(client.held.take(1))
        #expect(client.held.takeAll().isEmpty, "the next chunk is requested only when this one is sent")
        client.isReading = true
        client.run()
        #expect((client.takeReplies() + client.finish()).utf8.count > 2_700_000)
    }

    @Test("a session may end in the middle of anything; the engine and other clients go on")
    func drops() throws {
        let entries = ["a": "1", "l": String(repeating: "x", count: 2_000_000)]
        let beginnings = [
            "get a", "get a\r\n", "get a a x\r\n", "get l\r\n", "gat 100 a\r\n", "delete a\r\n", "incr a 1\r\n",
            "touch a 1\r\n", "add a 0 0 1\r\nx\r\n", "append a 0 0 1\r\nx\r\n", "append a 0 0 1\r\n",
            "set a 0 0 100\r\nhalf", "set b 0 0 2000000\r\n" + String(repeating: "y", count: 700_000),
            "set b 0 0 30000\r\n" + String(repeating: "y", count: 30_000) + "\r\n", "set b 0 0 99999999\r\nxx",
        ]
        let cache = try coldCache(entries.mapValues(bytes), in: directory)
        for (index, beginning) in beginnings.enumerated() {
            do {
                let client = try Conversation(cache, id: UInt32(index + 10))
                client.say(beginning)
            }
            let other = try Conversation(cache)
            #expect(
                other.say("set c 0 0 1\r\nx\r\nget c\r\n") + other.finish() == "STORED\r\nVALUE c 0 1\r\nx\r\nEND\r\n")
        }
        let client = try Conversation(owning: cache)
        let replies = client.say("add a 0 0 1\r\nx\r\nget l\r\nset a 0 0 1\r\nz\r\nget a\r\n") + client.finish()
        #expect(replies.hasSuffix("END\r\nSTORED\r\nVALUE a 0 1\r\nz\r\nEND\r\n"))
    }

    @Test("at durability `always` replies wait for the commit, in order")
    func commits() throws {
        let cache = try coldCache(["a": bytes("1")], in: directory) { $0.disk?.durability = .always }
        let client = try Conversation(owning: cache)
        #expect(client.say("set b 0 0 1\r\nx\r\nget b\r\nset c 0 0 1 noreply\r\ny\r\ndelete b\r\nversion\r\n") == "")
        #expect(
            client.finish()
                == "STORED\r\nVALUE b 0 1\r\nx\r\nEND\r\nDELETED\r\nVERSION \(ProductVersion.wire)\r\n")
        #expect(
            client.say("get a\r\nset a 0 0 1\r\nz\r\nget a\r\n") + client.finish()
                == "VALUE a 7 1\r\n1\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\nz\r\nEND\r\n")
        #expect(client.say("add a 0 0 1\r\nx\r\n") == "NOT_STORED\r\n", "nothing was changed, so nothing waits")
        // What made the key absent may not be durable yet.
        #expect(client.say("delete nowhere\r\nmd nowhere\r\n") == "")
        #expect(client.finish() == "NOT_FOUND\r\nNF\r\n")
    }
}
