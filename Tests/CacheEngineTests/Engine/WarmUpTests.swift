// The warm-up after a start: what was hot comes back, in order, within bounds, and never in place of anything newer.

import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

/// A cache that warms up fast.
private func warmFixture(
    rate: Int = 1 << 40, _ adjust: (inout CacheOptions) -> Void = { _ in }
) throws -> EngineFixture {
    try EngineFixture { options in
        var warmUp = WarmUpOptions()
        warmUp.bytesPerSecondMax = rate
        options.disk?.warmUp = warmUp
        adjust(&options)
    }
}

extension EngineFixture {
    fileprivate var warmUp: WarmUpProgress { cache.statistics().warmUp ?? WarmUpProgress() }

    /// Waits until the warm-up has ended.
    fileprivate func untilWarm() { until { warmUp.stage != .loading } }

    fileprivate func fill(_ keys: Int, bytes: Int = 100) throws {
        for number in 0..<keys { try cache.set([UInt8](repeating: 7, count: bytes), forKey: "k\(number)") }
    }

    fileprivate var listPath: String { scratch.path("cache/hot") }
}

@Suite struct WarmUpTests {
    @Test func `what was in memory is there after a start, in the same order`() throws {
        let fixture = try warmFixture()
        try fixture.fill(50)
        for number in [3, 1, 4, 15, 9, 2, 6] {
            fixture.clock.advance(milliseconds: 1000)
            #expect(fixture.cache.value(forKey: "k\(number)") != nil)
        }
        try fixture.reopen()
        fixture.untilWarm()
        let keys = fixture.cache.keysOldestFirst()
        #expect(keys.count == 50)
        #expect(keys.suffix(7) == ["k3", "k1", "k4", "k15", "k9", "k2", "k6"])
        let warmUp = fixture.warmUp
        #expect(warmUp.stage == .done && warmUp.listed == 50 && warmUp.loaded == 50 && warmUp.looked == 50)
        #expect(warmUp.loadedBytes == fixture.cache.statistics().memoryBytes)
        #expect(fixture.cache.value(forKey: "k6") == [UInt8](repeating: 7, count: 100))
        let statistics = fixture.cache.statistics()
        #expect(statistics.memoryHits == 1 && statistics.diskHits == 0 && statistics.misses == 0)
        fixture.cache.checkMemoryCounters()
    }

    @Test func `without the option nothing is remembered`() throws {
        let fixture = try EngineFixture()
        try fixture.fill(5)
        try fixture.reopen()
        #expect(!FileManager.default.fileExists(atPath: fixture.listPath))
        #expect(fixture.cache.statistics().warmUp == nil && !fixture.cache.isResident("k1"))
    }

    @Test func `it stops at its share of memory and leaves what clients use in front`() throws {
        let fixture = try warmFixture()
        try fixture.fill(200)
        let bytes = fixture.cache.statistics().memoryBytes
        fixture.close()
        try fixture.reopen { $0.memory.bytesMax = bytes / 2 }
        fixture.untilWarm()
        let statistics = fixture.cache.statistics()
        #expect(statistics.memoryBytes >= bytes / 2 * 8 / 10 && statistics.memoryBytes < bytes / 2)
        #expect(statistics.evictions == 0 && fixture.warmUp.loaded < 100)
    }

    @Test func `a client's entry is not evicted for one that was hot`() throws {
        let fixture = try warmFixture(rate: 64 << 10)
        try fixture.fill(2000)
        try fixture.reopen()
        try fixture.cache.set([1], forKey: "new")
        until { fixture.warmUp.loaded > 0 }
        #expect(fixture.cache.keysOldestFirst().last == "new")
        fixture.close()
        #expect(fixture.warmUp.stage == .stopped)
    }

    @Test func `what was not looked up before a stop is still listed after it`() throws {
        let fixture = try warmFixture(rate: 64 << 10)
        try fixture.fill(3000)
        try fixture.reopen()
        until { fixture.warmUp.looked > 0 }
        fixture.close()
        let first = fixture.warmUp
        #expect(first.stage == .stopped && first.looked < first.listed, "it did not keep to its rate: \(first)")
        try fixture.reopen { $0.disk?.warmUp = WarmUpOptions() }
        fixture.untilWarm()
        #expect(fixture.warmUp.listed == 3000 && fixture.warmUp.loaded == 3000)
    }

    @Test func `a list is written every so often, for the case of a kill`() throws {
        let fixture = try warmFixture { $0.disk?.warmUp?.saveInterval = 5 }
        try fixture.fill(20)
        fixture.settle()
        let saves = fixture.warmUp.saves
        until { fixture.warmUp.saves > saves + 1 }
        let copy = try fixture.reopenedCopy()
        defer { copy.close() }
        until { copy.statistics().warmUp?.stage == .done }
        #expect(copy.statistics().warmUp?.loaded == 20)
    }

    @Test(arguments: ["set", "delete", "flush"])
    func `what a client does during the lookup wins`(_ what: String) throws {
        let fixture = try warmFixture()
        try fixture.cache.set([1], forKey: "k")
        fixture.close()
        // The first look of a warm-up may come before a test can step in between: it is made by hand here.
        let list = try #require(HotList(bytes: Array(Data(contentsOf: URL(fileURLWithPath: fixture.listPath)))))
        try fixture.reopen { $0.disk?.warmUp = nil }
        let cache = fixture.cache
        let disk = try #require(cache.disk)
        disk.injected.withLock { injected in
            injected.beforeLanding = { [cache] in
                switch what {
                case "set": cache.setQuietly([2], "k")
                case "delete": _ = cache.delete([UInt8]("k".utf8).span, isBlind: true, now: cache.clock.now())
                default: cache.flushAll(now: cache.clock.now())
                }
            }
        }
        let outcome = WarmUp(WarmUpOptions(), disk).promote(list.hashes)
        disk.injected.withLock { $0.beforeLanding = nil }
        #expect(outcome.looked == 1)
        #expect(cache.value(forKey: "k") == (what == "set" ? [2] : nil))
        #expect(cache.statistics().promotionsDropped == 1)
    }

    @Test func `hashes of entries that are gone, expired or in memory already change nothing`() throws {
        let fixture = try warmFixture()
        try fixture.cache.set([1], forKey: "gone")
        try fixture.cache.set([1], forKey: "short", timeToLive: .seconds(5))
        try fixture.cache.set([1], forKey: "stays")
        fixture.close()
        let list = try #require(HotList(bytes: Array(Data(contentsOf: URL(fileURLWithPath: fixture.listPath)))))
        try fixture.reopen { $0.disk?.warmUp = nil }
        #expect(fixture.cache.remove("gone") && fixture.cache.value(forKey: "stays") == [1])
        fixture.settle()
        fixture.clock.advance(milliseconds: 6000)
        let disk = try #require(fixture.cache.disk)
        let before = fixture.cache.statistics()
        let outcome = WarmUp(WarmUpOptions(), disk).promote(list.hashes + [0, 1, .max])
        #expect(outcome.looked == 6 && outcome.loaded == 0)
        let after = fixture.cache.statistics()
        #expect(after.memoryEntries == 1 && after.misses == before.misses && after.memoryHits == before.memoryHits)
        #expect(after.disk?.readErrors == 0)
    }

    @Test func `values that memory does not take stay on disk`() throws {
        let fixture = try warmFixture()
        try fixture.cache.set([UInt8](repeating: 3, count: 60_000), forKey: "file")
        try fixture.cache.set([1], forKey: "small")
        try fixture.reopen { $0.memory.valueBytesMax = 4096 }
        fixture.untilWarm()
        #expect(fixture.cache.isResident("small") && !fixture.cache.isResident("file"))
        #expect(fixture.cache.value(forKey: "file")?.count == 60_000)
    }

    @Test func `a flush leaves nothing to warm up`() throws {
        let fixture = try warmFixture()
        try fixture.fill(20)
        fixture.cache.flushAll(now: fixture.clock.now())
        try fixture.reopen()
        fixture.untilWarm()
        #expect(fixture.warmUp.listed == 0 && fixture.cache.statistics().memoryEntries == 0)
    }

    @Test func `the list counts as part of the directory`() throws {
        let fixture = try warmFixture()
        try fixture.fill(3000)
        fixture.settle()
        let before = try #require(fixture.cache.statistics().disk?.allocatedBytes)
        fixture.cache.warmUp?.save()
        let after = try #require(fixture.cache.statistics().disk?.allocatedBytes)
        // 3000 hashes of eight bytes, in whole blocks, twice: the next list is written beside this one.
        #expect(after - before == 2 * 24_576)
        #expect(allocatedBytes(below: fixture.scratch.path("cache")) <= after + 256 * 4096 + 65_536)
    }
}

extension Cache {
    fileprivate func setQuietly(_ value: [UInt8], _ key: String) {
        do { try set(value, forKey: key) } catch { Issue.record("\(error)") }
    }
}

@Suite struct HotListTests {
    @Test func `a list is what was written; anything else is none`() throws {
        let list = HotList(hashes: [1, .max, 0, 0xdead_beef])
        let bytes = list.bytes
        #expect(HotList(bytes: bytes) == list && bytes.count == HotList.fileBytes(entries: 4))
        #expect(HotList(bytes: HotList(hashes: []).bytes)?.hashes == [])
        for index in bytes.indices {
            var damaged = bytes
            damaged[index] ^= 0x10
            #expect(HotList(bytes: damaged) == nil, "byte \(index)")
        }
        for count in 0..<bytes.count { #expect(HotList(bytes: Array(bytes.prefix(count))) == nil, "\(count) bytes") }
        #expect(HotList(bytes: bytes + [0]) == nil)
    }

    @Test func `a start with a damaged list, or something else in its place, is a cold one`() throws {
        for content in [Data("nonsense".utf8), Data(), Data(count: 100_000)] {
            let fixture = try warmFixture()
            try fixture.fill(5)
            fixture.close()
            try content.write(to: URL(fileURLWithPath: fixture.listPath))
            try fixture.reopen()
            fixture.untilWarm()
            #expect(fixture.warmUp.listed == 0 && fixture.cache.value(forKey: "k1") != nil)
        }
        let fixture = try warmFixture()
        try fixture.fill(5)
        fixture.close()
        try FileManager.default.removeItem(atPath: fixture.listPath)
        try FileManager.default.createSymbolicLink(atPath: fixture.listPath, withDestinationPath: "/etc/passwd")
        try fixture.reopen()
        fixture.untilWarm()
        #expect(fixture.warmUp.listed == 0)
        fixture.close()
        #expect(
            try FileManager.default.attributesOfItem(atPath: fixture.listPath)[.type] as? FileAttributeType
                == .typeRegular, "the link is replaced, not followed")
    }

    @Test func `its length is bounded by memory and by the disk's limit`() {
        #expect(HotList.limit(memoryBytes: 64 << 20, diskBytes: 1 << 30) == 1 << 18)
        #expect(HotList.limit(memoryBytes: nil, diskBytes: 1 << 50) == HotList.entriesMax)
        #expect(HotList.limit(memoryBytes: 1 << 30, diskBytes: 16 << 20) == 4096)
    }

    @Test func `idle classes are in order and within their number`() {
        var last = 0
        for seconds in (0..<5000).map(UInt32.init) + [1 << 20, 1 << 30, .max] {
            let found = IdleClass.of(seconds: seconds)
            #expect(found >= last && found < IdleClass.count, "\(seconds)")
            last = found
        }
        #expect(IdleClass.of(seconds: 15) == 15 && IdleClass.of(seconds: 16) == 16 && IdleClass.of(seconds: 17) == 16)
    }

    @Test func `a short list has the most recently used`() throws {
        let fixture = try warmFixture()
        for number in 0..<1000 {
            try fixture.cache.set([1], forKey: "k\(number)")
            fixture.clock.advance(milliseconds: 500)
        }
        let memory = fixture.cache.memory
        let hashes = HotSurvey.hottest(memory, limit: 10)
        let wanted = (990..<1000).map { number in
            "k\(number)".withKeyBytes { $0.withUnsafeBytes { memory.hash($0) } }
        }
        #expect(Set(hashes) == Set(wanted))
        #expect(HotSurvey.hottest(memory, limit: 5000).count == 1000)
        #expect(HotSurvey.hottest(memory, limit: 0).isEmpty)
    }
}
