// What clients that do not read can make the daemon hold: bounded for each, and for all of them together.

import CacheEngine
import Primitives
import Protocol
import Testing

@testable import CacheDaemon

@Suite("memory of clients")
struct ClientMemoryTests {
    // MARK: One connection

    /// Entries of `bytes` bytes that only the disk has, and the replies to a get of each.
    private func cold(_ count: Int, _ bytes: Int) throws -> (Conversation, TemporaryDirectory, replies: [String]) {
        let directory = try TemporaryDirectory()
        let values = (0..<count).map { [UInt8](repeating: UInt8(97 + $0 % 26), count: bytes) }
        let entries = Dictionary(uniqueKeysWithValues: values.enumerated().map { ("k\($0.offset)", $0.element) })
        let client = try Conversation(owning: try coldCache(entries, in: directory))
        let replies = values.enumerated().map {
            "VALUE k\($0.offset) 7 \(bytes)\r\n\(String(decoding: $0.element, as: UTF8.self))\r\nEND\r\n"
        }
        return (client, directory, replies)
    }

    private static let pipelines = ["get k# \r\n", "mg k# v f k s\r\n"]

    @Test("values from disk that wait behind others are let go of, and asked for again", arguments: pipelines)
    func largeValues(request: String) throws {
        let (client, directory, replies) = try cold(20, 300_000)
        client.isReading = false
        client.say((0..<20).map { request.replacing("#", with: "\($0)") }.joined())
        let asked = client.openReads
        #expect(asked > 5)
        client.deliver(client.held.take(asked))
        #expect(client.queuedBytes <= Output.referencedBytesMax + 2 * 300_000)
        client.isReading = true
        client.run()
        let said = client.takeReplies() + client.finish()
        if request.hasPrefix("get") {
            #expect(said == replies.joined())
        } else {
            let values = (0..<20).map { "VA 300000 f7 kk\($0) s300000\r\n" + replies[$0].split(separator: "\r\n")[1] }
            #expect(said == values.joined(separator: "\r\n") + "\r\n")
        }
        withExtendedLifetime(directory) {}
    }

    @Test("of values that only their files have, one is open at a time", arguments: pipelines)
    func streams(request: String) throws {
        let (client, directory, replies) = try cold(8, 1_500_000)
        client.isReading = false
        client.say((0..<8).map { request.replacing("#", with: "\($0)") }.joined())
        for _ in 0..<3 {
            client.deliver(client.held.take(1) + client.held.takeAll())
            #expect(client.queuedBytes <= 300 << 10)
        }
        client.isReading = true
        client.run()
        let said = client.takeReplies() + client.finish()
        #expect(said.utf8.count > 12_000_000)
        if request.hasPrefix("get") { #expect(said == replies.joined()) }
        withExtendedLifetime(directory) {}
    }

    @Test("a change waits for values before it that are to be asked for again")
    func order() throws {
        let (client, directory, replies) = try cold(20, 300_000)
        client.isReading = false
        client.say((0..<20).map { "get k\($0)\r\n" }.joined() + "delete k19\r\nget k19\r\n")
        client.deliver(client.held.take(client.openReads))
        client.isReading = true
        client.run()
        #expect(client.takeReplies() + client.finish() == replies.joined() + "DELETED\r\nEND\r\n")
        withExtendedLifetime(directory) {}
    }

    // MARK: All connections

    /// A server with one worker, and its limit.
    private func start(_ bytesMax: Int) throws -> (RunningServer, PlainClient) {
        let server = try RunningServer(
            testSettings {
                $0.threads = 1
                $0.memory.bytesMax = 256 << 20
                $0.clientBytesMax = bytesMax
            })
        return (server, try PlainClient(server.addresses[0]))
    }

    private func number(_ client: PlainClient, _ name: String) -> Int {
        client.statistics()[name].flatMap { Int($0) } ?? -1
    }

    /// Whether the client reads this reply so many times.
    private func reads(_ reply: String, times: Int, _ client: PlainClient) -> Bool {
        let bytes = Array(reply.utf8)
        return (0..<times).allSatisfy { _ in client.read(bytes.count) == bytes }
    }

    /// A client that asks for much more than its socket takes, and reads nothing.
    private func silent(_ server: RunningServer, _ asker: PlainClient, asking key: String) throws -> PlainClient {
        let before = number(asker, "bytes_written")
        let client = try PlainClient(server.addresses[0])
        client.send(String(repeating: "get \(key)\r\n", count: 2000))
        // What is counted last is what the socket took last.
        var last = -1
        #expect(
            eventually {
                let written = number(asker, "bytes_written") - before
                defer { last = written }
                return written > 100_000 && written - last < 10_000
            })
        return client
    }

    @Test("copied replies of many that do not read stay within the limit; who reads is served")
    func copies() throws {
        let (server, asker) = try start(1 << 20)
        let value = String(repeating: "v", count: 10_000)
        #expect(asker.ask("set k 0 0 10000\r\n\(value)\r\n") == "STORED")
        var clients: [PlainClient] = []
        for _ in 0..<40 {
            clients.append(try silent(server, asker, asking: "k"))
            #expect(number(asker, "client_bytes") <= 1 << 20 + Output.bytesMax + 16 << 10)
        }
        #expect(number(asker, "client_memory_kicks") > 0)
        asker.send(String(repeating: "get k\r\n", count: 1000))
        let reply = "VALUE k 0 10000\r\n\(value)\r\nEND\r\n"
        #expect(reads(reply, times: 1000, asker))
        clients = []
        #expect(eventually { number(asker, "client_bytes") == 0 })
        server.stop()
    }

    @Test("values that were overwritten while replies wait count, each once; who has waited longest goes first")
    func detached() throws {
        // Four such values fit, and no fifth; seven eighths of it hold three.
        let limit = 4_500_000
        let (server, asker) = try start(limit)
        let value = String(repeating: "v", count: 1_000_000)
        let reply = "VALUE big 0 1000000\r\n\(value)\r\nEND\r\n"
        var clients: [PlainClient] = []
        for count in 1...5 {
            #expect(asker.ask("set big 0 0 1000000\r\n\(value)\r\n") == "STORED")
            clients.append(try silent(server, asker, asking: "big"))
            if count == 1 { clients.append(try silent(server, asker, asking: "big")) }
        }
        #expect(number(asker, "client_memory_kicks") == 0)
        #expect(number(asker, "client_bytes") >= 4_000_000)
        #expect(asker.ask("set big 0 0 1000000\r\n\(value)\r\n") == "STORED")
        // The two that share the oldest value, and one more.
        #expect(eventually { number(asker, "client_memory_kicks") == 3 })
        #expect(number(asker, "client_bytes") <= limit)
        #expect(server.waitForLog("connections closed for memory"))
        for client in clients[3...] { #expect(reads(reply, times: 5, client)) }
        server.stop()
    }

    @Test("requests that come in part count")
    func partialRequests() throws {
        let (server, asker) = try start(1 << 20)
        var clients: [PlainClient] = []
        for _ in 0..<10 {
            let client = try PlainClient(server.addresses[0])
            client.send("get " + String(repeating: "k ", count: 150_000))
            clients.append(client)
        }
        #expect(eventually { number(asker, "client_memory_kicks") >= 6 })
        #expect(eventually { number(asker, "client_bytes") <= 1 << 20 })
        #expect(asker.ask("mn\r\n") == "MN")
        server.stop()
    }

    @Test("a value that others wait for has to come faster")
    func hurry() throws {
        let clock = ManualClock()
        let server = try RunningServer(testSettings { $0.threads = 1 }, clock: clock)
        let asker = try PlainClient(server.addresses[0])
        var slow: [PlainClient] = []
        for _ in 0..<16 {
            let client = try PlainClient(server.addresses[0])
            client.send("set s 0 0 1048576\r\n" + String(repeating: "x", count: 1_048_000))
            slow.append(client)
        }
        #expect(eventually { number(asker, "body_bytes") == 16 << 20 })
        let value = String(repeating: "v", count: 20_000)
        let waiting = try PlainClient(server.addresses[0])
        waiting.send("set honest 0 0 20000\r\n\(value)\r\n")
        #expect(eventually { number(asker, "body_waits") == 1 })
        clock.advance(30_000)
        #expect(waiting.line() == "STORED")
        server.stop()
    }
}
