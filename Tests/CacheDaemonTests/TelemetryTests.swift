// What the daemon records about itself: buckets, quantiles, hot keys, big entries, the slow log, windows.

import CacheEngine
import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheDaemon

struct LatencyTests {
    @Test("every time is in a bucket that begins where the one before it ends, and a quarter of it wide at most")
    func buckets() {
        var begin: Int64 = 0
        for bucket in 0..<LatencyScale.bucketCount {
            #expect(LatencyScale.bucket(begin) == bucket)
            guard let end = LatencyScale.end(of: bucket) else { break }
            #expect(LatencyScale.bucket(end - 1) == bucket)
            if bucket > 0 { #expect(end - begin <= begin / 4) }
            begin = end
        }
        #expect(begin == Int64(1) << LatencyScale.highestPower)
        #expect(LatencyScale.bucket(.max) == LatencyScale.bucketCount - 1)
        #expect(LatencyScale.bucket(-5) == 0)
    }

    @Test("quantiles, sums and differences are those of the times that were added")
    func quantiles() {
        let book = LatencyBook()
        #expect(LatencyHistogram(.set, [book]).quantile(0.5) == nil)
        for microseconds in 1...1000 {
            let time = Int64(microseconds) * 1000
            book.add(.set, nanoseconds: time, bucket: LatencyScale.bucket(time))
        }
        let histogram = LatencyHistogram(.set, [book, book])
        #expect(histogram.count == 2000)
        #expect(histogram.nanoseconds == 2 * 500_500_000)
        for (quantile, exact) in [(0.5, 500_000.0), (0.99, 990_000.0), (1, 1_000_000.0), (0, 1000.0)] {
            let found = Double(histogram.quantile(quantile) ?? 0)
            #expect(found >= exact && found <= exact * 1.25, "\(quantile): \(found)")
        }
        // 2^17 ns is 131072 ns.
        #expect(histogram.count(below: 17) == 2 * 131)
        #expect(histogram.since(LatencyHistogram(.set, [book])).count == 1000)
        #expect(LatencyHistogram(.delete, [book]).count == 0)
    }

    @Test("requests are counted by command and outcome, each once, whichever tier answered")
    func kinds() throws {
        let directory = try TemporaryDirectory()
        let cache = try coldCache(["cold": Array("c".utf8), "chilly": Array("d".utf8)], in: directory)
        cache.close()
        let server = try RunningServer(
            testSettings {
                $0.threads = 1
                $0.disk.isEnabled = true
                $0.disk.directory = directory.path + "/cache"
            })
        let client = try PlainClient(server.addresses[0])
        #expect(client.ask("set a 0 0 1\r\nx\r\n") == "STORED")
        client.send("get a b c\r\nmg a v\r\nget cold\r\nmg chilly v\r\nincr a 1\r\n")
        client.send("delete a\r\ntouch b 1\r\nms m 1\r\ny\r\nmn\r\n")
        while !["MN", ""].contains(client.line()) {}
        var counts = client.statistics("latency").filter { $0.key.hasSuffix(":count") }
        // Until the filter is built, only the disk knows what is absent.
        let misses = [counts["get_miss:count"], counts.removeValue(forKey: "get_disk_miss:count")]
        counts["get_miss:count"] = "\(misses.compactMap { $0.flatMap { Int($0) } }.reduce(0, +))"
        // A change of an absent key waits for it then.
        counts.removeValue(forKey: "change_waited:count")
        #expect(
            counts == [
                "get_memory_hit:count": "2", "get_miss:count": "2", "get_disk_hit:count": "2", "set_done:count": "2",
                "delete_done:count": "1", "touch_done:count": "1",
            ])
        let hits = client.statistics()
        #expect(hits["memory_hits"] == "2" && hits["disk_hits"] == "2" && hits["misses"] == "2")
        #expect(client.ask("stats reset\r\n") == "RESET")
        #expect(client.statistics("latency").isEmpty)
        server.stop()
    }
}

struct HotKeyTests {
    /// A sketch, and turns that tell it their keys as a worker's do.
    private struct Sampled {
        var sketch = HotKeys(now: 0)
        var sampling = KeySampling()
        var notes = 0

        mutating func turn(_ keys: [String], atMicrosecond now: Int64) {
            guard sampling.draw(now / 1000) else { return }
            for key in keys { note(key, now / 1000, weight: sampling.weight, turn: sampling.turn) }
            sampling.noted(keys.count)
            notes += keys.count
        }

        mutating func note(_ key: String, _ now: Int64 = 0, weight: Double = 1, turn: UInt64) {
            Array(key.utf8).withUnsafeBytes { sketch.note($0, weight: weight, turn: turn, now: now) }
        }

        mutating func top(_ limit: Int = 10, now: Int64) -> [HotKey] {
            HotKeys.top([sketch.report(now: now)], limit: limit)
        }

        mutating func names(now: Int64) -> [String] { top(now: now).map { String(decoding: $0.key, as: UTF8.self) } }
    }

    @Test("the keys that get most are found among a hundred times as many others, with their shares")
    func finds() {
        var random = SeededRandom(seed: 7)
        var sampled = Sampled()
        for turn in 1...100_000 {
            let draw = Int.random(in: 0..<100, using: &random)
            let key = draw < 20 ? "hot-\(draw / 10)" : "cold-\(Int.random(in: 0..<20_000, using: &random))"
            sampled.note(key, turn: UInt64(turn))
        }
        #expect(Set(sampled.names(now: 1000).prefix(2)) == ["hot-0", "hot-1"])
        for entry in sampled.top(2, now: 1000) { #expect(abs(entry.count - 10_000) < 1500, "\(entry)") }
    }

    @Test(
        "a key with many times the requests of each other is the hottest, however fast the machine is",
        arguments: [5, 20, 100, 1000, 7999, 20_000] as [Int64], [1, 3, 16, 128])
    func hottest(microsecondsPerTurn: Int64, setsPerTurn: Int) {
        var sampled = Sampled()
        var now: Int64 = 0
        for first in stride(from: 0, to: 3000, by: setsPerTurn) {
            sampled.turn((first..<first + setsPerTurn).map { "cold-\($0)" }, atMicrosecond: now)
            now += microsecondsPerTurn
        }
        for _ in 0..<20 {
            for _ in 0..<20 {
                sampled.turn(["warm"], atMicrosecond: now)
                now += microsecondsPerTurn
            }
            sampled.turn(["absent"], atMicrosecond: now)
            now += microsecondsPerTurn + 10_000
        }
        #expect(sampled.names(now: now / 1000).first == "warm")
    }

    @Test("requests that the sample met once do not outrank many that it met often, nor does one turn that was full")
    func chance() {
        var sampled = Sampled()
        for turn in 1...20 { sampled.note("warm", weight: 22, turn: UInt64(turn)) }
        sampled.note("once", weight: 800, turn: 21)
        for _ in 0..<50 { sampled.note("burst", weight: 64, turn: 22) }
        #expect(sampled.names(now: 1000) == ["warm"])
    }

    @Test("a sample stands for all requests, at any rate, and takes few of them")
    func stands() {
        for turnsPerMillisecond in [1, 10, 200] {
            var sampled = Sampled()
            // Keys in turn, so that a sample in step with them would see one alone.
            for turn in 0..<Int64(turnsPerMillisecond * 2000) {
                sampled.turn(["k\(turn % 4)"], atMicrosecond: turn * 1000 / Int64(turnsPerMillisecond))
            }
            let top = sampled.top(now: 2000)
            #expect(top.count == 4)
            for entry in top {
                let expected = Double(turnsPerMillisecond) * 250
                #expect(abs(entry.count - expected) < max(4 * entry.doubt, 1), "\(entry) of \(expected) a second")
                #expect(entry.doubt < expected / 5)
            }
            // In a quarter of a thousand windows.
            #expect(sampled.notes <= 250 * 4 * KeySampling.notesMax, "\(sampled.notes) notes in two seconds")
        }
    }

    @Test("a pause lets the next turns be noted as if there had been no load before")
    func pauses() {
        var sampled = Sampled()
        for turn in 0..<Int64(100_000) { sampled.turn(["load"], atMicrosecond: turn * 5) }
        #expect(sampled.sampling.weight > 16)
        #expect(sampled.sampling.draw(1000) && sampled.sampling.weight == 1)
    }

    @Test("counts fade: what was hot gives way to what is hot")
    func fades() {
        var sampled = Sampled()
        for turn in 1...1000 { sampled.note("yesterday", turn: UInt64(turn)) }
        for second in 0..<300 { sampled.note("today", Int64(second) * 1000, turn: UInt64(2000 + second)) }
        let top = sampled.top(1, now: 300_000)
        #expect(top.first.map { String(decoding: $0.key, as: UTF8.self) } == "today")
        #expect(abs((top.first?.count ?? 0) - 1) < 0.2, "one request per second")
    }

    @Test("a running server names the key that clients ask for most")
    func served() throws {
        let server = try RunningServer(testSettings { $0.threads = 1 })
        let client = try PlainClient(server.addresses[0])
        #expect(
            eventually {
                for _ in 0..<20 { _ = client.ask("get loved%20key\r\n") }
                _ = client.ask("get other\r\n")
                return client.statistics("hot")["1:key"] == "loved%2520key"
            })
        server.stop()
    }
}

struct SlowAndBigTests {
    @Test("the slow log keeps the newest and counts all")
    func ring() {
        let log = SlowLog(threshold: TimeSpan(milliseconds: 3))
        #expect(log.threshold == 3_000_000)
        for number in 0..<SlowLog.capacity + 5 {
            log.add(
                SlowRequest(
                    time: WallTime(milliseconds: Int64(number)), nanoseconds: 1, place: .disk, command: "get",
                    requests: 1, key: [], descriptor: 1))
        }
        #expect(log.all.total == UInt64(SlowLog.capacity + 5))
        #expect(log.all.requests.map(\.time.milliseconds) == (5..<Int64(SlowLog.capacity) + 5).reversed())
    }

    @Test("a request that takes longer than log.slow is in the slow log with the tier that was slow")
    func slowRequests() throws {
        let clock = ManualClock()
        let directory = try TemporaryDirectory()
        try coldCache(["cold": Array("c".utf8)], in: directory).close()
        let options = CacheOptions(
            testSettings {
                $0.disk.isEnabled = true
                $0.disk.directory = directory.path + "/cache"
            })
        let client = try Conversation(owning: Cache.open(options, clock: clock))
        client.say("get cold\r\n")
        clock.advance(25)
        client.finish()
        let slow = client.statistics("slow")
        #expect(slow["slow_total"] == "1" && slow["1:place"] == "disk" && slow["1:key"] == "cold")
        #expect(slow["1:command"] == "get" && slow["1:took_us"] == "25000")
        client.say("delete cold\r\n")
        client.finish()
        #expect(client.statistics("slow")["slow_total"] == "1", "fast enough")
    }

    @Test("the largest values are listed by size; deleted ones are not")
    func big() throws {
        let client = try Conversation(owning: memoryCache())
        for size in [20_000, 90_000, 40_000, 100] {
            client.say("set k\(size) 0 0 \(size)\r\n\(String(repeating: "v", count: size))\r\n")
        }
        client.say("ms meta 30000\r\n\(String(repeating: "v", count: 30_000))\r\n")
        func keys() -> [String?] { (1...4).map { client.statistics("big")["\($0):key"] } }
        #expect(keys() == ["k90000", "k40000", "meta", "k20000"])
        client.say("delete k90000\r\n")
        #expect(keys() == ["k40000", "meta", "k20000", nil])
        client.say("set k40000 0 0 1\r\nv\r\n")
        #expect(keys() == ["meta", "k20000", "k40000", nil], "sizes are those of now")
    }

    @Test("lists of keys are refused where dumps are")
    func refused() throws {
        let server = try RunningServer(testSettings { $0.allowsDumps = false })
        let client = try PlainClient(server.addresses[0])
        for group in ["hot", "big", "slow"] {
            #expect(client.ask("stats \(group)\r\n") == "CLIENT_ERROR stats of keys not allowed")
        }
        server.stop()
    }
}

struct HistoryTests {
    @Test("hit ratios of the last seconds, of the last minutes and since the start are told apart")
    func windows() throws {
        let clock = ManualClock()
        let cache = try Cache.open(CacheOptions(testSettings()), clock: clock)
        defer { cache.close() }
        let service = Service(
            cache: cache, settings: testSettings(), log: Log(level: .error) { _ in }, control: try ServerControl())
        func ask(hits: Int, misses: Int) {
            for _ in 0..<hits { _ = cache.withEntry(Array("a".utf8).span, now: clock.now()) { _ in } }
            for _ in 0..<misses { _ = cache.withEntry(Array("b".utf8).span, now: clock.now()) { _ in } }
        }
        try cache.set(Array("x".utf8), forKey: "a")
        ask(hits: 100, misses: 0)
        for _ in 0..<400 {
            clock.advance(1000)
            service.history.addSample(service)
        }
        ask(hits: 0, misses: 100)
        for _ in 0..<100 {
            clock.advance(1000)
            service.history.addSample(service)
        }
        ask(hits: 30, misses: 10)
        clock.advance(400)
        var reply = ByteBuffer()
        StatsReport().append(group: "windows", of: service, to: &reply)
        let text = String(decoding: reply.readable, as: UTF8.self)
        #expect(text.contains("STAT 10s:hit_ratio 0.750000\r\n"))
        #expect(text.contains("STAT 5m:hit_ratio \(fixed(30.0 / 140, places: 6))\r\n"))
        #expect(text.contains("STAT start:hit_ratio \(fixed(130.0 / 240, places: 6))\r\n"))
        #expect(text.contains("STAT 10s:seconds 10.400\r\n"))
        #expect(service.history.samples.count == 500)
    }
}
