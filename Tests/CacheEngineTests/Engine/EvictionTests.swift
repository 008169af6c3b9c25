// Who leaves memory and the disk, in which order, under each limit alone.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct MemoryEvictionTests {
    private func fixture(_ adjust: (inout CacheOptions) -> Void) throws -> EngineFixture {
        try EngineFixture { options in
            options.disk = nil
            options.memory.bytesMax = nil
            adjust(&options)
        }
    }

    @Test func `the least recently used goes first`() throws {
        let fixture = try fixture { $0.memory.entriesMax = 3 }
        let cache = fixture.cache
        for key in ["a", "b", "c"] { try cache.set([1], forKey: key) }
        #expect(cache.keysOldestFirst() == ["a", "b", "c"])
        // Reading, touching and storing count as use; looking does not.
        #expect(cache.value(forKey: "a") == [1])
        #expect(cache.keysOldestFirst() == ["b", "c", "a"])
        #expect(cache.info(forKey: "b") != nil && cache.contains("b") && cache.tier(ofKey: "b") == .memory)
        cache.forEachEntry { _, _ in }
        #expect(cache.keysOldestFirst() == ["b", "c", "a"])
        #expect(cache.touch("b", timeToLive: nil))
        #expect(cache.keysOldestFirst() == ["c", "a", "b"])
        try cache.set([2], forKey: "d")
        #expect(cache.keysOldestFirst() == ["a", "b", "d"])
        try cache.set([3], forKey: "a")
        try cache.set([3], forKey: "e")
        #expect(cache.keysOldestFirst() == ["d", "a", "e"])
        #expect(cache.value(forKey: "b") == nil)
    }

    /// The exact order against a plain list, with a random mix of operations.
    @Test(arguments: [1, 2, 3] as [UInt64]) func `the order is that of a plain list`(seed: UInt64) throws {
        let fixture = try fixture { $0.memory.entriesMax = 20 }
        var random = SeededRandom(seed: seed)
        var order: [String] = []
        for step in 0..<3000 {
            let key = "k\(random.below(40))"
            let isThere = order.contains(key)
            switch random.below(4) {
            case 0, 1:
                try fixture.cache.set([UInt8(step & 255)], forKey: key)
                order.removeAll { $0 == key }
                order.append(key)
            case 2:
                #expect((fixture.cache.value(forKey: key) != nil) == isThere)
                if isThere {
                    order.removeAll { $0 == key }
                    order.append(key)
                }
            default:
                #expect(fixture.cache.remove(key) == isThere)
                order.removeAll { $0 == key }
            }
            if order.count > 20 { order.removeFirst() }
            try #require(fixture.cache.keysOldestFirst() == order, "seed \(seed), step \(step)")
        }
        fixture.cache.checkMemoryCounters()
    }

    @Test func `the byte limit alone holds at all times`() throws {
        let limit = 100_000
        let fixture = try fixture { $0.memory.bytesMax = limit }
        var random = SeededRandom(seed: 5)
        for number in 0..<2000 {
            try fixture.cache.set(random.bytes(random.below(5000)), forKey: "k\(number)")
            #expect(fixture.cache.byteCount(in: .memory) <= limit)
        }
        // And it is used: no more is evicted than needed.
        #expect(fixture.cache.byteCount(in: .memory) > limit - 6000)
        fixture.cache.checkMemoryCounters()
        #expect(fixture.cache.statistics().evictions == 2000 - fixture.cache.entryCount(in: .memory))
    }

    @Test func `the entry limit alone holds over many shards`() throws {
        let fixture = try fixture { options in
            options.memory.entriesMax = 1000
            options.memory.shards = nil
        }
        for number in 0..<5000 { try fixture.cache.set([], forKey: "k\(number)") }
        #expect(fixture.cache.entryCount(in: .memory) <= 1000)
        #expect(fixture.cache.entryCount(in: .memory) > 900)
    }

    @Test func `a small entry limit is not rounded up`() throws {
        let fixture = try fixture { options in
            options.memory.entriesMax = 5
            options.memory.shards = nil
        }
        for number in 0..<100 { try fixture.cache.set([], forKey: "k\(number)") }
        #expect(fixture.cache.entryCount(in: .memory) == 5)
    }

    @Test func `without limits nothing leaves`() throws {
        let fixture = try fixture { _ in }
        for number in 0..<20_000 { try fixture.cache.set([1], forKey: "k\(number)") }
        #expect(fixture.cache.entryCount(in: .memory) == 20_000)
        #expect(fixture.cache.statistics().memoryBytesMax == nil)
        #expect(fixture.cache.statistics().evictions == 0)
    }

    @Test func `the value limit alone: larger values are refused, and the old value is gone`() throws {
        let fixture = try fixture { $0.memory.valueBytesMax = 100 }
        try fixture.cache.set([UInt8](repeating: 1, count: 100), forKey: "k")
        #expect(throws: StorageError.valueTooLarge(bytes: 101)) {
            try fixture.cache.set([UInt8](repeating: 1, count: 101), forKey: "k")
        }
        #expect(fixture.cache.value(forKey: "k") == nil)
    }

    @Test func `the largest entry is a limit of its own`() throws {
        let fixture = try EngineFixture { $0.entryBytesMax = 1000 }
        try fixture.cache.set([UInt8](repeating: 1, count: 1000), forKey: "k")
        #expect(throws: StorageError.valueTooLarge(bytes: 1001)) {
            try fixture.cache.set([UInt8](repeating: 1, count: 1001), forKey: "k")
        }
        #expect(fixture.cache.value(forKey: "k") == nil)
        fixture.dropMemory()
        #expect(fixture.cache.value(forKey: "k") == nil)
    }

    @Test func `an entry lives for its time and not a millisecond longer`() throws {
        let fixture = try fixture { _ in }
        try fixture.cache.set([1], forKey: "k", timeToLive: .milliseconds(1500))
        fixture.clock.advance(milliseconds: 1499)
        #expect(fixture.cache.value(forKey: "k") == [1])
        fixture.clock.advance(milliseconds: 1)
        #expect(fixture.cache.value(forKey: "k") == nil)
        #expect(fixture.cache.statistics().expirations == 1)
    }

    @Test func `default and longest time to live apply to what is stored and touched`() throws {
        let fixture = try fixture { options in
            options.defaultTTL = 1000
            options.maximumTTL = 5000
        }
        try fixture.cache.set([1], forKey: "default")
        try fixture.cache.set([1], forKey: "long", timeToLive: .seconds(60))
        #expect(fixture.cache.info(forKey: "default")?.timeToLive == .seconds(1))
        #expect(fixture.cache.info(forKey: "long")?.timeToLive == .seconds(5))
        #expect(fixture.cache.touch("default", timeToLive: .seconds(60)))
        #expect(fixture.cache.info(forKey: "default")?.timeToLive == .seconds(5))
    }

    @Test(arguments: [AgeBase.access, .write]) func `the age limit alone, from access or from write`(base: AgeBase)
        throws
    {
        let fixture = try fixture { _ in }
        let cache = fixture.cache
        for key in ["idle", "used", "rewritten"] { try cache.set([1], forKey: key) }
        fixture.clock.advance(seconds: 60)
        #expect(cache.value(forKey: "used") == [1])
        try cache.set([2], forKey: "rewritten")
        fixture.clock.advance(seconds: 60)
        #expect(cache.trim(.memory, to: .age(.seconds(90), base)) == (base == .access ? 1 : 2))
        #expect(!cache.isResident("idle"))
        #expect(cache.isResident("used") == (base == .access))
        #expect(cache.isResident("rewritten"))
    }

    /// An age limit far longer than the machine is up must not evict anything.
    @Test(arguments: [AgeBase.access, .write]) func `an age limit may reach back before the boot`(base: AgeBase) throws
    {
        let fixture = try EngineFixture(clock: ManualClock(boot: 5_000)) { $0.disk = nil }
        try fixture.cache.set([1], forKey: "k")
        #expect(fixture.cache.trim(.memory, to: .age(.seconds(86_400), base)) == 0)
        #expect(fixture.cache.isResident("k"))
    }

    @Test func `the background thread holds the age limit`() throws {
        let fixture = try fixture { options in
            options.memory.ageMax = 60_000
            options.memoryTrimInterval = 1
        }
        let evicted = Answer(0)
        let observation = fixture.cache.observe { events, _ in
            evicted.update { $0 += events.filter { $0.reason == .evicted }.count }
        }
        try fixture.cache.set([1], forKey: "k")
        fixture.clock.advance(seconds: 120)
        until { fixture.cache.entryCount(in: .memory) == 0 && evicted.value == 1 }
        observation.cancel()
    }

    @Test func `the background thread finds expired entries`() throws {
        let fixture = try fixture { $0.memoryTrimInterval = 1 }
        for number in 0..<3000 { try fixture.cache.set([1], forKey: "k\(number)", timeToLive: .seconds(1)) }
        try fixture.cache.set([1], forKey: "stays")
        fixture.clock.advance(seconds: 2)
        until { fixture.cache.entryCount(in: .memory) == 1 }
        #expect(fixture.cache.isResident("stays"))
    }
}

@Suite struct DiskEvictionTests {
    /// Keys on disk, after everything is committed and trimmed.
    private func diskKeys(_ fixture: EngineFixture) -> Set<String> {
        fixture.settle()
        return Set(fixture.cache.keys(in: .disk).map { String(decoding: $0, as: UTF8.self) })
    }

    @Test func `the least recently used row goes first`() throws {
        let fixture = try EngineFixture { $0.disk?.entriesMax = 5 }
        for number in 0..<5 {
            try fixture.cache.set([1], forKey: "k\(number)")
            fixture.clock.advance(seconds: 600)
        }
        fixture.settle()
        fixture.dropMemory()
        // Used again, and long after the others.
        #expect(fixture.cache.value(forKey: "k0") == [1])
        for number in 5..<7 {
            try fixture.cache.set([1], forKey: "k\(number)")
            fixture.clock.advance(seconds: 600)
        }
        #expect(diskKeys(fixture) == ["k0", "k3", "k4", "k5", "k6"])
        #expect(fixture.cache.statistics().disk?.evictions == 2)
        try fixture.cache.checkDiskCounters()
    }

    @Test func `the byte limit alone bounds the directory`() throws {
        let fixture = try EngineFixture { options in
            options.memory.bytesMax = 1 << 20
            options.disk?.bytesMax = 8 << 20
        }
        var random = SeededRandom(seed: 4)
        for number in 0..<3000 {
            let size = random.isOne(in: 10) ? 30_000 : 3_000
            try fixture.cache.set(random.bytes(size), forKey: "k\(number)")
        }
        fixture.settle()
        let allocated = allocatedBytes(below: fixture.scratch.path("cache"))
        #expect(allocated <= 8 << 20, "\(fixture.cache.statistics())")
        #expect(allocated > 4 << 20)
        #expect((fixture.cache.statistics().disk?.evictions ?? 0) > 500)
        #expect(fixture.cache.contains("k2999"))
        #expect(!fixture.cache.contains("k0"))
        try fixture.cache.checkDiskCounters()
    }

    @Test func `the age limit alone, from access`() throws {
        let fixture = try EngineFixture { $0.disk?.ageMax = 3_600_000 }
        for key in ["idle", "used"] { try fixture.cache.set([1], forKey: key) }
        fixture.settle()
        fixture.dropMemory()
        fixture.clock.advance(seconds: 3000)
        #expect(fixture.cache.value(forKey: "used") == [1])
        fixture.clock.advance(seconds: 1000)
        // In memory, or told to the index when it left memory: the use counts either way.
        #expect(diskKeys(fixture) == ["used"])
        fixture.dropMemory()
        try fixture.cache.set([1], forKey: "other")
        #expect(diskKeys(fixture) == ["used", "other"])
        fixture.clock.advance(seconds: 3000)
        #expect(diskKeys(fixture) == ["other"])
    }

    @Test func `the age limit alone, from write`() throws {
        let fixture = try EngineFixture { options in
            options.disk?.ageMax = 3_600_000
            options.disk?.ageBase = .write
        }
        try fixture.cache.set([1], forKey: "old")
        fixture.clock.advance(seconds: 3000)
        try fixture.cache.set([1], forKey: "new")
        #expect(fixture.cache.value(forKey: "old") == [1])
        fixture.clock.advance(seconds: 1000)
        #expect(diskKeys(fixture) == ["new"])
    }

    @Test func `rows whose time is over are deleted`() throws {
        let fixture = try EngineFixture()
        for number in 0..<600 { try fixture.cache.set([1], forKey: "k\(number)", timeToLive: .seconds(10)) }
        try fixture.cache.set([UInt8](repeating: 1, count: 50_000), forKey: "file", timeToLive: .seconds(10))
        try fixture.cache.set([1], forKey: "stays")
        fixture.settle()
        fixture.clock.advance(seconds: 11)
        #expect(diskKeys(fixture) == ["stays"])
        #expect(fixture.cache.statistics().disk?.expirations == 601)
        try fixture.cache.checkDiskCounters()
    }

    @Test func `space that must stay free is not taken`() throws {
        let fixture = try EngineFixture()
        for number in 0..<100 { try fixture.cache.set([UInt8](repeating: 1, count: 30_000), forKey: "k\(number)") }
        #expect(diskKeys(fixture).count == 100)
        // More than any file system has: everything has to go.
        fixture.cache.changeDiskLimits { $0.freeBytesMin = 1 << 60 }
        #expect(diskKeys(fixture).isEmpty)
        #expect(fixture.scratch.files(below: "cache/store/v").filter { $0.contains("/") }.isEmpty)
    }

    @Test func `totals go beyond 4 GiB`() throws {
        let scratch = try TempDirectory()
        let directory = try StoreDirectory.open(path: scratch.path("cache"))
        _ = try directory.start(policy: .discard, durability: .process, bootID: "boot")
        let index = try DiskIndex(directory: directory, options: IndexOptions())
        try index.begin()
        for number in 0..<3 {
            let key = Array("key\(number)".utf8)
            let metadata = EntryMetadata(
                generation: UInt64(number + 1), cas: 1, flags: 0, marks: [], deadline: .never,
                written: WallTime(milliseconds: 0), accessed: WallTime(milliseconds: 0), valueBytes: 3 << 30,
                valueSum: 0)
            // Only rows: nobody looks for the files.
            _ = try index.putFile(
                hash: UInt64(number), key: key.span, metadata: metadata, extended: Span(), fileBytes: 3 << 30)
        }
        try index.commit()
        #expect(index.totals.valueBytes == 9 << 30)
        #expect(index.totals.fileBytes == 9 << 30)
        index.close()
        let again = try DiskIndex(directory: directory, options: IndexOptions())
        #expect(again.totals.valueBytes == 9 << 30)
        var report = DiskReport()
        report.totals = again.totals
        #expect(report.allocatedBytes == 9 << 30)
    }
}
