// The load generator must catch every kind of lie, name it rightly, and never accuse an honest server.

import CacheClient
import Foundation
import Glibc
import Testing

@testable import CacheBench

/// A small verified load: 8 connections, 50 keys, half sets.
private func settings(_ address: ServerAddress) -> BenchSettings {
    var settings = BenchSettings()
    settings.address = address
    settings.connections = 4
    settings.pipeline = 8
    settings.keys = 50
    settings.setShare = 1
    settings.getShare = 1
    settings.valueSizes = .between(64, 300)
    settings.length = .operations(2000)
    settings.warm = true
    return settings
}

private func run(_ settings: BenchSettings, number: UInt32 = 1) throws -> (warm: PhaseResult, load: PhaseResult) {
    let run = BenchRun(settings, run: number)
    return (try run.warm { _ in }, try run.load { _ in })
}

@Suite("bench against servers that lie")
struct BenchVerificationTests {
    @Test("an honest server is never accused", arguments: [Lie.none, Lie.drip], [1, 2])
    func honest(lie: Lie, threads: Int) throws {
        let server = try FakeServer(lie: lie)
        defer { server.stop() }
        var settings = settings(server.address)
        settings.threads = threads
        let (warm, load) = try run(settings)
        #expect(warm.tally.sets == 50 && warm.tally.wrong == 0)
        #expect(load.tally.operations == 2000)
        #expect(load.tally.gets > 800 && load.tally.sets > 800)
        #expect(load.tally.hits == load.tally.gets && load.tally.wrong == 0, "\(load.tally.remarks)")
        #expect(load.tally.refused == 0 && load.tally.lost == 0 && load.tally.earlier == 0)
        #expect(load.latency.count == 2000 && load.getLatency.count == UInt64(load.tally.gets))
        #expect(load.latency.quantile(1) == load.latency.max && load.latency.max > 0)
        #expect(load.seconds > 0 && load.ownSeconds > 0)
    }

    @Test("the value of another key is foreign")
    func foreign() throws {
        let server = try FakeServer(lie: .foreign)
        defer { server.stop() }
        let tally = try run(settings(server.address)).load.tally
        #expect(tally.foreign == tally.gets && tally.torn == 0 && tally.stale == 0)
        #expect(tally.remarks.first?.contains("another key") == true)
    }

    @Test(
        "one wrong bit is torn, wherever it is",
        arguments: [0, 3, 4, 7, 8, 12, 16, 20, 23, 24, 63, 100_000])
    func flippedBit(position: Int) throws {
        let server = try FakeServer(lie: .flippedBit(at: position))
        defer { server.stop() }
        let tally = try run(settings(server.address)).load.tally
        #expect(tally.torn == tally.gets && tally.foreign == 0 && tally.gets > 0)
    }

    @Test("one wrong bit in a value too short to have a header", arguments: [0, 11])
    func flippedBitInShortValue(position: Int) throws {
        let server = try FakeServer(lie: .flippedBit(at: position))
        defer { server.stop() }
        var settings = settings(server.address)
        settings.valueSizes = .exactly(12)
        let tally = try run(settings).load.tally
        #expect(tally.torn + tally.foreign == tally.gets && tally.gets > 0)
    }

    @Test("a missing last byte is torn")
    func truncated() throws {
        let server = try FakeServer(lie: .truncated)
        defer { server.stop() }
        let tally = try run(settings(server.address)).load.tally
        #expect(tally.torn == tally.gets && tally.gets > 0)
    }

    @Test("halves of two versions are torn")
    func mixed() throws {
        let server = try FakeServer(lie: .mixed)
        defer { server.stop() }
        var settings = settings(server.address)
        settings.valueSizes = .exactly(200)
        let tally = try run(settings).load.tally
        #expect(tally.torn > tally.gets / 2 && tally.foreign == 0 && tally.stale == 0)
    }

    @Test("an old value after an acknowledged set is stale", arguments: [1, 2])
    func stale(threads: Int) throws {
        let server = try FakeServer(lie: .stale)
        defer { server.stop() }
        var settings = settings(server.address)
        settings.threads = threads
        let tally = try run(settings).load.tally
        // Not all: while sets of the same key are on their way, an old value may be right.
        #expect(tally.stale > 100 && tally.torn == 0 && tally.foreign == 0)
        #expect(tally.remarks.first?.contains("stale") == true)
    }

    @Test("values of an earlier run are told from ours, and are stale once overwritten")
    func earlierRun() throws {
        let server = try FakeServer()
        defer { server.stop() }
        var settings = settings(server.address)
        #expect(try run(settings, number: 1).load.tally.earlier == 0)
        settings.warm = false
        settings.setShare = 0
        settings.valueSizes = .exactly(40)
        let second = try BenchRun(settings, run: 2).load { _ in }
        #expect(second.tally.earlier == second.tally.gets && second.tally.gets == 2000 && second.tally.wrong == 0)

        // A server that acknowledges the second run's sets and keeps the first run's values.
        let forgetful = try FakeServer(lie: .stale)
        defer { forgetful.stop() }
        settings = CacheClientTests.settings(forgetful.address)
        _ = try run(settings, number: 1)
        let third = BenchRun(settings, run: 3)
        _ = try third.warm { _ in }
        settings.setShare = 0
        let tally = try third.load { _ in }.tally
        #expect(tally.stale == tally.gets && tally.earlier == 0)
    }

    @Test("nonsense is malformed and does not hang")
    func garbage() throws {
        let server = try FakeServer(lie: .garbage)
        defer { server.stop() }
        let (warm, load) = try run(settings(server.address))
        #expect(warm.tally.malformed > 0 && load.tally.malformed > 0)
        #expect(load.tally.disconnects >= load.tally.malformed && load.tally.operations == 0)
        #expect(load.tally.lost > 0)
    }

    @Test("more replies than requests are malformed")
    func chatty() throws {
        let server = try FakeServer(lie: .chatty)
        defer { server.stop() }
        var settings = settings(server.address)
        settings.length = .operations(64)
        #expect(try run(settings).load.tally.malformed > 0)
    }

    @Test("refusals are counted and are not wrong")
    func refused() throws {
        let server = try FakeServer(lie: .refuseSets)
        defer { server.stop() }
        let (warm, load) = try run(settings(server.address))
        #expect(warm.tally.refused == 50 && warm.tally.sets == 0)
        #expect(load.tally.refused > 800 && load.tally.wrong == 0 && load.tally.misses == load.tally.gets)
        #expect(load.tally.refused + load.tally.gets == 2000)
        #expect(load.tally.remarks.first?.contains("SERVER_ERROR out of memory") == true)
    }

    @Test("broken connections are made again and what was on its way is lost, not wrong")
    func reconnect() throws {
        let server = try FakeServer(lie: .closeAfter(100))
        defer { server.stop() }
        let load = try run(settings(server.address)).load
        #expect(load.tally.disconnects > 4 && load.tally.wrong == 0)
        #expect(load.tally.operations + load.tally.lost == 2000)
        #expect(load.unreachable <= 4)
        #expect(server.connectionsTotal > 8)
    }

    @Test("a server that goes away for good ends a bounded run")
    func vanished() throws {
        let server = try FakeServer(lie: .closeAfter(40))
        // The first connection asks for the version, four carry the load.
        let thread = Thread {
            while server.connectionsTotal < 6 { sched_yield() }
            server.stop()
        }
        thread.start()
        #expect(runBench(["-c", "4", "-s", "0.3", "--quiet", "\(server.address)"]) == 69)
    }

    @Test("an absent server is an error at once")
    func absent() throws {
        let (descriptor, address) = boundSocket()
        defer { close(descriptor) }
        var settings = settings(address)
        settings.threads = 2
        let error = #expect(throws: ClientError.self) { try BenchRun(settings, run: 1).load { _ in } }
        #expect(error?.cause == .system(call: "connect", errno: ECONNREFUSED))
    }

    @Test("with a rate, all operations are sent and none early")
    func rate() throws {
        let server = try FakeServer()
        defer { server.stop() }
        var settings = settings(server.address)
        settings.warm = false
        settings.pipeline = 2
        settings.rate = 4000
        settings.length = .operations(400)
        let load = try BenchRun(settings, run: 1).load { _ in }
        #expect(load.tally.operations == 400 && load.tally.wrong == 0)
        // The 200th batch is due 199 intervals of 0.5 ms after the start; slower is the machine's business.
        #expect(load.seconds >= 0.0995)
    }

    @Test("large values and deep pipelines pass through full socket buffers")
    func largeValues() throws {
        let server = try FakeServer()
        defer { server.stop() }
        var settings = settings(server.address)
        settings.keys = 8
        settings.connections = 2
        settings.pipeline = 40
        settings.valueSizes = .between(200_000, 400_000)
        settings.length = .operations(400)
        let (warm, load) = try run(settings)
        #expect(warm.tally.sets == 8 && load.tally.operations == 400 && load.tally.wrong == 0, "\(load.tally.remarks)")
    }

    @Test("without verification lies pass, which is why it is on by default")
    func unverified() throws {
        let server = try FakeServer(lie: .flippedBit(at: 50))
        defer { server.stop() }
        var settings = settings(server.address)
        #expect(settings.verify)
        settings.verify = false
        let tally = try run(settings).load.tally
        #expect(tally.wrong == 0 && tally.hits == tally.gets && tally.hits > 0)
    }

    @Test("exit codes: 0 clean, 1 wrong values, 64 usage, 69 no server")
    func exitCodes() throws {
        let honest = try FakeServer()
        defer { honest.stop() }
        let liar = try FakeServer(lie: .flippedBit(at: 40))
        defer { liar.stop() }
        let (descriptor, unused) = boundSocket()
        defer { close(descriptor) }
        let options = ["--warm", "--keys", "20", "-c", "2", "-n", "200", "--quiet"]
        #expect(runBench(options + ["\(honest.address)"]) == 0)
        #expect(runBench(options + ["--json", "\(liar.address)"]) == 1)
        #expect(runBench(options + ["\(unused)"]) == 69)
        #expect(runBench(["--keys", "none"]) == 64)
    }
}
