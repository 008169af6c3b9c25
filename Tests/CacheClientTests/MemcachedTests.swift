// The tools against a real memcached, where one is installed: the fake server and the client could share a mistake.

import CacheClient
import Foundation
import Glibc
import Testing

@testable import CacheBench
@testable import CacheStats

/// Runs Debian's memcached on a Unix socket of its own, so that no port can be taken.
final class Memcached {
    static let path = "/usr/bin/memcached"
    static var isInstalled: Bool { access(path, X_OK) == 0 }

    let address: ServerAddress
    private let process = Process()
    private let socketPath: String

    init(_ options: [String] = []) throws {
        socketPath = "\(NSTemporaryDirectory())/memcached-\(getpid())-\(UInt32.random(in: 0 ... .max)).sock"
        address = .unix(path: socketPath)
        process.executableURL = URL(fileURLWithPath: Self.path)
        process.arguments =
            ["-s", socketPath, "-U", "0", "-m", "64", "-t", "1", "-u", "nobody", "-a", "0777"] + options
        try process.run()
        // The connection is refused until memcached listens.
        while process.isRunning, case .failure = Result(catching: { try Connection(to: address).version() }) {
            sched_yield()
        }
    }

    deinit {
        // Children inherit the blocked signals of Dispatch's worker threads, SIGTERM among them.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        unlink(socketPath)
    }
}

@Suite("against memcached", .enabled(if: Memcached.isInstalled, "memcached is not installed"))
struct MemcachedTests {
    @Test("client commands")
    func client() throws {
        let server = try Memcached()
        let client = try Connection(to: server.address)
        #expect(try client.version().hasPrefix("1."))
        try client.set("k", Array("value".utf8), flags: 12, expiry: 100)
        #expect(try client.get("k") == Value(Array("value".utf8), flags: 12))
        #expect(try client.gets("k")?.cas != nil)
        #expect(try client.get(["k", "absent"]).count == 1)
        let tooLarge = try #require(throws: ClientError.self) {
            try client.set("k", [UInt8](repeating: 0, count: 2 << 20))
        }
        #expect(tooLarge.cause == .refused("SERVER_ERROR object too large for cache"))
        #expect(try client.get("k") == nil)
        try client.set("k", [1], expiry: -1)
        #expect(try client.get("k") == nil)
        #expect(try !client.delete("k"))
        try client.set("k", [1])
        try client.flushAll()
        #expect(try client.get("k") == nil)
        #expect(try client.stats().integer("cmd_flush") == 1)
        #expect(try client.stats("settings").integer("maxconns") != nil)
        let refused = try #require(throws: ClientError.self) { try client.stats("nonsense") }
        #expect(refused.leavesConnectionUsable)
    }

    @Test("a verified load is clean", arguments: [1, 3])
    func load(threads: Int) throws {
        let server = try Memcached()
        var settings = BenchSettings()
        settings.address = server.address
        settings.threads = threads
        settings.connections = 6
        settings.pipeline = 10
        settings.keys = 500
        settings.setShare = 1
        settings.getShare = 1
        settings.distribution = .zipf(0.99)
        settings.valueSizes = .web
        settings.length = .operations(20_000)
        settings.warm = true
        let run = BenchRun(settings, run: 1)
        let warm = try run.warm { _ in }
        let load = try run.load { _ in }
        #expect(warm.tally.sets == 500 && warm.tally.operations == 500)
        #expect(load.tally.operations == 20_000)
        #expect(load.tally.wrong == 0, "\(load.tally.remarks)")
        #expect(load.tally.hits == load.tally.gets)
        #expect(load.tally.refused == 0 && load.tally.lost == 0)
    }

    @Test("statistics make a page and a JSON object")
    func statistics() throws {
        let server = try Memcached()
        let client = try Connection(to: server.address)
        try client.set("k", [1])
        _ = try client.get("k")
        let sample = Sample(time: .init(milliseconds: 0), statistics: try client.stats())
        let object = try #require(
            try JSONSerialization.jsonObject(with: Data(sample.json.utf8)) as? [String: Any])
        #expect(object.count == sample.statistics.entries.count)
        #expect(object["get_hits"] as? Int == 1)
        #expect(object["version"] is String)
        let page = Summary(sample: sample, previous: nil, address: server.address, usesColor: false).text
        #expect(page.contains("Hit ratio    [########################] 100.00 %"))
        #expect(page.contains("1 entries"))
        #expect(!page.contains("Disk") && !page.contains("Journal"))
    }
}
