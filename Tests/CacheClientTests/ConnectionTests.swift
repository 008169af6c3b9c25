// The client against a server in the test: right replies, split replies, wrong replies, and no replies.

import CacheClient
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("client connections")
struct ConnectionTests {
    private let quick = Timeouts(connectMilliseconds: 2000, progressMilliseconds: 200)

    @Test("every command against an honest server", arguments: [Lie.none, Lie.drip])
    func commands(lie: Lie) throws {
        let server = try FakeServer(lie: lie)
        defer { server.stop() }
        let client = try Connection(to: server.address)
        #expect(try client.get("a") == nil)
        try client.set("a", Array("one\r\nEND\r\n".utf8))
        try client.set("b", [])
        #expect(try client.get("a") == Value(Array("one\r\nEND\r\n".utf8)))
        #expect(try client.gets("a")?.cas == 42)
        #expect(try client.get(["a", "b", "c"]).mapValues(\.bytes) == ["a": Array("one\r\nEND\r\n".utf8), "b": []])
        #expect(try client.gets(["a", "c"]).count == 1)
        #expect(try client.delete("a"))
        #expect(try !client.delete("a"))
        #expect(try client.version() == "1.6.99-fake")
        let statistics = try client.stats()
        #expect(statistics.entries.map(\.name) == ["pid", "version", "uptime"])
        #expect(statistics.integer("uptime") == 100 && statistics["version"] == "1.6.99-fake")
        #expect(statistics.integer("version") == nil && statistics["absent"] == nil)
        try client.flushAll()
        #expect(try client.get("b") == nil)
        #expect(try client.get([]) == [:])
    }

    @Test("a pipeline keeps the order and survives refusals")
    func pipeline() throws {
        let server = try FakeServer(script: { $0.hasPrefix("get bad") ? "SERVER_ERROR no\r\n" : nil })
        defer { server.stop() }
        let client = try Connection(to: server.address)
        let replies = try client.pipeline([
            .set("a", [1, 2], flags: 0, expiry: 0), .get("a"), .get("bad"), .gets("a"), .delete("a"), .delete("a"),
            .get("a"),
        ])
        #expect(
            replies == [
                .stored, .value(Value([1, 2])), .refused("SERVER_ERROR no"), .value(Value([1, 2], cas: 42)), .deleted,
                .miss,
                .miss,
            ])
    }

    @Test("what a server says reaches no terminal as control characters")
    func controlCharacters() throws {
        let evil = "\u{1b}]0;x\u{7}\u{9b}2J"
        let shown = "\\x1b]0;x\\x7\\x9b2J"
        let server = try FakeServer(script: { line in
            switch line {
            case "stats": "STAT a\(evil) \(evil)\r\nEND\r\n"
            case "version": "VERSION \(evil)\r\n"
            case "get a": "SERVER_ERROR \(evil)\r\n"
            default: "\(evil)\r\n"
            }
        })
        defer { server.stop() }
        let client = try Connection(to: server.address)
        #expect(try client.stats().entries.map { [$0.name, $0.value] } == [["a" + shown, shown]])
        #expect(try client.version() == shown)
        for key in ["a", "b"] {
            let error = #expect(throws: ClientError.self) { try client.get(key) }
            #expect(error?.description.hasSuffix(key == "a" ? "refused: SERVER_ERROR \(shown)" : "'\(shown)'") == true)
        }
        #expect("tab\t, é and 日本 stay, \u{7f} not".printable == "tab\\x9, é and 日本 stay, \\x7f not")
    }

    @Test("statistics that do not end are given up", .timeLimit(.minutes(patience)))
    func endlessStatistics() throws {
        let line = "STAT x 1\r\n"
        let server = try FakeServer(script: { _ in String(repeating: line, count: 1_000_001) })
        defer { server.stop() }
        let client = try Connection(to: server.address)
        let error = #expect(throws: ClientError.self) { try client.stats() }
        #expect(
            error?.cause == .malformedReply("statistics without end") || error?.cause == .timedOut(milliseconds: 60_000)
        )
    }

    @Test("a pipeline larger than all socket buffers does not deadlock", .timeLimit(.minutes(patience)))
    func largePipeline() throws {
        let server = try FakeServer()
        defer { server.stop() }
        let client = try Connection(to: server.address)
        let value = [UInt8](repeating: 7, count: 100_000)
        try client.set("big", value)
        // 40 MB of replies while 20 MB of requests are still being sent: a client that only writes would hang here.
        let filler = Request.set("filler", [UInt8](repeating: 1, count: 50_000), flags: 0, expiry: 0)
        let requests = (0..<400).flatMap { _ in [Request.get("big"), filler] }
        let replies = try client.pipeline(requests)
        #expect(replies.count == 800)
        #expect(replies.filter { $0 == .value(Value(value)) }.count == 400)
    }

    @Test(
        "wrong replies are told apart from refusals",
        arguments: [
            ("VALUE k 0 3\r\nabcX\r\nEND\r\n", false), ("VALUE other 0 1\r\na\r\nEND\r\n", false),
            ("VALUE k 0 -1\r\n", false),
            ("VALUE k x 1\r\na\r\nEND\r\n", false), ("VALUE k 0\r\n", false), ("STORED\r\n", false), ("\r\n", false),
            ("ERROR\r\n", true), ("SERVER_ERROR out of memory\r\n", true), ("CLIENT_ERROR bad\r\n", true),
        ])
    func wrongReplies(reply: String, isRefusal: Bool) throws {
        let server = try FakeServer(script: { $0.hasPrefix("get") ? reply : nil })
        defer { server.stop() }
        let client = try Connection(to: server.address, timeouts: quick)
        let error = try #require(throws: ClientError.self) { try client.get("k") }
        #expect(error.operation == "get" && error.address == server.address)
        if case .refused = error.cause { #expect(isRefusal) } else { #expect(!isRefusal) }
        #expect(error.leavesConnectionUsable == isRefusal)
        if isRefusal {
            #expect(try client.version() == "1.6.99-fake")
        } else {
            #expect(throws: ClientError(operation: "version", address: server.address, cause: .closed)) {
                try client.version()
            }
        }
    }

    @Test("a silent server is a timeout, a closed one is closed, an absent one refuses")
    func absence() throws {
        let mute = try FakeServer(lie: .mute)
        defer { mute.stop() }
        let waiting = try Connection(to: mute.address, timeouts: quick)
        let timeout = try #require(throws: ClientError.self) { try waiting.version() }
        #expect(timeout.cause == .timedOut(milliseconds: 200))

        let closing = try FakeServer(lie: .closeAfter(1))
        defer { closing.stop() }
        let client = try Connection(to: closing.address)
        #expect(try client.version() == "1.6.99-fake")
        #expect(try #require(throws: ClientError.self) { try client.version() }.cause == .closed)

        let (descriptor, unused) = boundSocket()
        defer { close(descriptor) }
        let refused = try #require(throws: ClientError.self) { try Connection(to: unused) }
        #expect(refused.cause == .system(call: "connect", errno: ECONNREFUSED))
        #expect(refused.description.hasPrefix("connect 127.0.0.1:"))
        let nowhere = ServerAddress.unix(path: "/nonexistent/socket")
        #expect(
            throws: ClientError(operation: "connect", address: nowhere, cause: .system(call: "connect", errno: ENOENT))
        ) { try Connection(to: nowhere) }
        let unresolved = try #require(throws: ClientError.self) {
            try Connection(to: .tcp(host: "no.such.host.invalid", port: 1))
        }
        if case .unresolved = unresolved.cause {} else { Issue.record("\(unresolved)") }
    }

    @Test("a value that breaks off is not a value")
    func brokenOff() throws {
        let server = try FakeServer(script: { $0.hasPrefix("get") ? "VALUE k 0 1000\r\nabc" : nil })
        defer { server.stop() }
        let client = try Connection(to: server.address, timeouts: quick)
        #expect(try #require(throws: ClientError.self) { try client.get("k") }.cause == .timedOut(milliseconds: 200))
    }

    @Test("a claimed size does not become memory")
    func claimedSize() throws {
        let server = try FakeServer(script: { $0.hasPrefix("get") ? "VALUE k 0 2147483647\r\nabc" : nil })
        defer { server.stop() }
        let client = try Connection(to: server.address, timeouts: quick)
        let before = residentBytes()
        #expect(throws: ClientError.self) { try client.get("k") }
        #expect(residentBytes() - before < 512 << 20)
    }

    @Test(
        "keys are checked before anything is sent",
        arguments: ["", "a b", "a\r\nflush_all", "\u{7f}", String(repeating: "k", count: 251)])
    func badKeys(key: String) throws {
        let server = try FakeServer()
        defer { server.stop() }
        let client = try Connection(to: server.address)
        for operation in [
            { _ = try client.get(key) }, { try client.set(key, [1]) }, { _ = try client.delete(key) },
            { _ = try client.pipeline([.get("fine"), .get(key)]) },
        ] {
            let error = #expect(throws: ClientError.self) { try operation() }
            #expect(error?.cause == .badKey(key))
        }
        // Nothing went out: the next reply is the next command's.
        #expect(try client.version() == "1.6.99-fake")
    }

    @Test("Unix sockets")
    func unixSocket() throws {
        let path = "\(NSTemporaryDirectory())/client-\(getpid())-\(UInt32.random(in: 0 ... .max)).sock"
        defer { unlink(path) }
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(listener) }
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let bound = withUnsafePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0 && listen(listener, 1) == 0
            }
        }
        try #require(bound)
        let client = try Connection(to: .unix(path: path))
        client.enqueue("version\r\n")
        try client.flush()
        let peer = accept(listener, nil, nil)
        defer { close(peer) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = recv(peer, &bytes, bytes.count, 0)
        #expect(String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self) == "version\r\n")
        let reply = Array("VERSION 1\nrest".utf8)
        #expect(send(peer, reply, reply.count, 0) == reply.count)
        #expect(try client.readLine() == "VERSION 1")
        #expect(try client.readBytes(4) == Array("rest".utf8))
    }
}

/// Resident memory of this process.
private func residentBytes() -> Int {
    let text =
        (FileManager.default.contents(atPath: "/proc/self/statm")).map { String(decoding: $0, as: UTF8.self) } ?? ""
    let pages = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
    return pages * Int(getpagesize())
}
