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
    private func note(_ sketch: inout HotKeys, _ key: String, _ now: Int64 = 0, weight: Double = 1) {
        Array(key.utf8).withUnsafeBytes { sketch.note($0, weight: weight, now: now) }
    }

    @Test("the keys that get most are found among a hundred times as many others, with their shares")
    func finds() {
        var random = SeededRandom(seed: 7)
        var sketch = HotKeys(now: 0)
        for _ in 0..<100_000 {
            let draw = Int.random(in: 0..<100, using: &random)
            if draw < 20 {
                note(&sketch, "hot-\(draw / 10)")
            } else {
                note(&sketch, "cold-\(Int.random(in: 0..<20_000, using: &random))")
            }
        }
        let top = HotKeys.top([sketch.report(now: 1000)], limit: 2)
        #expect(Set(top.map { String(decoding: $0.key, as: UTF8.self) }) == ["hot-0", "hot-1"])
        for entry in top { #expect(abs(entry.count - 10_000) < 1500, "\(entry)") }
    }

    @Test("counts fade: what was hot gives way to what is hot")
    func fades() {
        var sketch = HotKeys(now: 0)
        for _ in 0..<1000 { note(&sketch, "yesterday") }
        for second in 0..<300 { note(&sketch, "today", Int64(second) * 1000) }
        let top = HotKeys.top([sketch.report(now: 300_000)], limit: 1)
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
