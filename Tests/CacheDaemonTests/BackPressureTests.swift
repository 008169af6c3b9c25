// Bounded work and bounded output: a turn ends, and a client that does not read is not served on.

import CacheEngine
import Primitives
import Protocol
import Testing

@testable import CacheDaemon

@Suite("back-pressure")
struct BackPressureTests {
    /// A cache with `count` values of `bytes` bytes, and the reply to a get of all of them.
    private func filled(_ count: Int, _ bytes: Int) throws -> (Conversation, keys: [String], reply: String) {
        let client = try Conversation(owning: memoryCache { $0.memory.bytesMax = 256 << 20 })
        var expected = ""
        let keys = (0..<count).map { "key-\($0)" }
        for (index, key) in keys.enumerated() {
            let value = String(repeating: Character(Unicode.Scalar(UInt8(97 + index % 26))), count: bytes)
            #expect(client.say("set \(key) 0 0 \(bytes)\r\n\(value)\r\n") == "STORED\r\n")
            expected += "VALUE \(key) 0 \(bytes)\r\n\(value)\r\n"
        }
        return (client, keys, expected + "END\r\n")
    }

    @Test(
        "a long multi-get stops at the output's bounds and goes on from the same key", arguments: [100, 10_000, 50_000])
    func multiGet(valueBytes: Int) throws {
        let (client, keys, expected) = try filled(500, valueBytes)
        client.isReading = false
        client.say("get \(keys.joined(separator: " "))\r\nversion\r\n")
        #expect(client.unconsumedBytes > 0, "not all was executed at once")
        client.isReading = true
        client.run()
        #expect(client.takeReplies() == expected + "VERSION \(ProductVersion.wire)\r\n")
        #expect(client.unconsumedBytes == 0)
    }

    @Test("a pipeline of gets stops too; nothing is executed while replies wait")
    func pipeline() throws {
        let (client, keys, _) = try filled(40, 10_000)
        client.isReading = false
        client.say(keys.map { "get \($0)\r\n" }.joined() + "delete key-0\r\n")
        #expect(client.stall == .output)
        #expect(try Conversation(client.cache).say("get key-0\r\n") != "END\r\n", "the delete has to wait")
        client.isReading = true
        client.run()
        #expect(client.takeReplies().hasSuffix("END\r\nDELETED\r\n"))
        #expect(client.unconsumedBytes == 0)
    }

    @Test("one turn executes a bounded number of requests")
    func turnBudget() throws {
        let client = try Conversation(owning: memoryCache())
        client.isReading = false
        client.say(String(repeating: "get missing\r\n", count: 1000))
        #expect(client.count(.getCommands) == UInt64(Turn.requestsMax))
        client.isReading = true
        client.run()
        #expect(client.count(.getCommands) == 1000)
        #expect(client.takeReplies() == String(repeating: "END\r\n", count: 1000))
    }

    @Test("after what costs as much as many requests the others have their turn", arguments: ["stats", "flush_all"])
    func costlyRequests(command: String) throws {
        let client = try Conversation(owning: memoryCache())
        client.isReading = false
        client.say(String(repeating: "\(command)\r\n", count: 3))
        #expect(client.stall == .turn)
        #expect(client.unconsumedBytes == 2 * (command.utf8.count + 2))
        client.isReading = true
        client.run()
        #expect(client.unconsumedBytes == 0)
    }

    @Test("values sent by reference survive being overwritten, deleted and evicted meanwhile")
    func references() throws {
        let (client, keys, expected) = try filled(3, 60_000)
        client.isReading = false
        client.say("get \(keys.joined(separator: " "))\r\n")
        let other = try Conversation(client.cache)
        other.say("set key-0 0 0 3\r\nnew\r\ndelete key-1\r\nflush_all\r\n")
        client.isReading = true
        client.run()
        #expect(client.takeReplies() == expected)
    }
}
