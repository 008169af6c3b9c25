// Values that are stored without a draft: into a slot of their own, or over the entry that was there.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct WholeStoreTests {
    /// Stores without a draft; nil if that takes one.
    private func store(
        _ cache: Cache, _ key: String, _ value: [UInt8], flags: UInt32 = 0, _ mode: WriteMode = .set
    ) -> StoreOutcome? {
        let key = Array(key.utf8)
        return cache.storeWhole(
            key.span, value.span, flags: flags, deadline: .never, mode, now: cache.clock.now())
    }

    private func memoryOnly(_ adjust: (inout CacheOptions) -> Void = { _ in }) throws -> EngineFixture {
        try EngineFixture {
            $0.disk = nil
            adjust(&$0)
        }
    }

    @Test(arguments: [0, 1, 7, 8, 100, 4096, 16_384]) func `comes back byte by byte`(size: Int) throws {
        let fixture = try EngineFixture()
        let value = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        #expect(store(fixture.cache, "k", value, flags: 7)?.storedID != nil)
        #expect(fixture.cache.value(forKey: "k") == value)
        fixture.settle()
        fixture.dropMemory()
        #expect(fixture.cache.value(forKey: "k") == value)
        #expect(fixture.cache.info(forKey: "k")?.flags == 7)
    }

    @Test func `leaves to a draft what does not lie in a block, or has to be asked about`() throws {
        let fixture = try memoryOnly()
        #expect(store(fixture.cache, "k", [UInt8](repeating: 1, count: 16_385)) == nil)
        #expect(store(fixture.cache, "k", [1], .append) == nil)
        #expect(store(fixture.cache, "k", [1], .prepend) == nil)
        let asked = try EngineFixture { $0.disk?.write = .onEvict }
        #expect(store(asked.cache, "k", [1]) == nil)
        let small = try EngineFixture { $0.disk?.inlineBytesMax = 1024 }
        #expect(store(small.cache, "k", [UInt8](repeating: 1, count: 1025)) == nil)
        let limited = try memoryOnly { $0.entryBytesMax = 10 }
        #expect(store(limited.cache, "k", [UInt8](repeating: 1, count: 11)) == nil)
    }

    @Test func `keeps to the modes`() throws {
        let cache = try memoryOnly().cache
        #expect(store(cache, "k", [1], .replace) == .notStored)
        #expect(store(cache, "k", [1], .compare(cas: 1)) == .notFound)
        let first = try #require(store(cache, "k", [1], .add)?.storedID)
        #expect(store(cache, "k", [2], .add) == .notStored)
        #expect(store(cache, "k", [2], .compare(cas: first &+ 1)) == .exists)
        let second = try #require(store(cache, "k", [2], .compare(cas: first))?.storedID)
        #expect(second > first)
        #expect(store(cache, "k", [3], .replace)?.storedID != nil)
        #expect(cache.value(forKey: "k") == [3])
    }

    @Test func `renews an entry in its slot, and moves it when the size changes`() throws {
        let cache = try memoryOnly().cache
        let sizes = [100, 100, 101, 99, 10, 4000, 100, 0, 16_384, 20_000, 100]
        for (round, size) in sizes.enumerated() {
            let value = [UInt8](repeating: UInt8(round), count: size)
            try cache.set(value, forKey: "k", flags: UInt32(round))
            try cache.set([UInt8(round)], forKey: "other")
            #expect(cache.value(forKey: "k") == value)
            #expect(cache.info(forKey: "k")?.flags == UInt32(round))
            cache.checkMemoryCounters("size \(size)")
        }
        #expect(cache.entryCount(in: .memory) == 2)
    }

    @Test func `forgets what was known about the value before`() throws {
        let fixture = try memoryOnly()
        try fixture.cache.set([1], forKey: "k", extended: [9, 9, 9])
        #expect(fixture.cache.value(forKey: "k") == [1])
        #expect(store(fixture.cache, "k", [2, 3, 4])?.storedID != nil)
        #expect(fixture.cache.entry(forKey: "k")?.extended.isEmpty == true)
        #expect(fixture.cache.value(forKey: "k") == [2, 3, 4])
        fixture.cache.checkMemoryCounters()
    }

    @Test func `becomes the most recently used`() throws {
        let cache = try memoryOnly().cache
        for key in ["a", "b", "c"] { #expect(store(cache, key, [1])?.storedID != nil) }
        #expect(store(cache, "a", [2])?.storedID != nil)
        #expect(cache.keysOldestFirst() == ["b", "c", "a"])
        #expect(store(cache, "b", [UInt8](repeating: 2, count: 500))?.storedID != nil)
        #expect(cache.keysOldestFirst() == ["c", "a", "b"])
    }

    @Test func `leaves a value alone that a reader holds`() throws {
        let cache = try memoryOnly().cache
        #expect(store(cache, "k", [1, 1, 1])?.storedID != nil)
        let key = Array("k".utf8)
        var pinned: PinnedEntry?
        _ = cache.withEntry(key.span, now: cache.clock.now()) { pinned = $0.pin() }
        #expect(store(cache, "k", [2, 2, 2])?.storedID != nil)
        #expect(pinned.map { Array($0.value) } == [1, 1, 1])
        #expect(cache.value(forKey: "k") == [2, 2, 2])
        pinned = nil
        cache.checkMemoryCounters()
    }

    @Test func `keeps to the limit`() throws {
        let cache = try memoryOnly { $0.memory.bytesMax = 1 << 20 }.cache
        for number in 0..<20_000 {
            let value = [UInt8](repeating: 1, count: number % 700)
            try cache.set(value, forKey: "k\(number)")
        }
        #expect(cache.byteCount(in: .memory) <= 1 << 20)
        #expect(cache.statistics().evictions > 0)
        cache.checkMemoryCounters()
    }

    @Test func `changes nothing when the journal has no room`() throws {
        let fixture = try EngineFixture { $0.disk?.journalBytes = 64 << 10 }
        fixture.holdWriter()
        let value = [UInt8](repeating: 1, count: 4000)
        var stored = 0
        while store(fixture.cache, "k\(stored)", value)?.storedID != nil { stored += 1 }
        #expect(stored > 5)
        #expect(!fixture.cache.isResident("k\(stored)"))
        #expect(store(fixture.cache, "k0", [UInt8](repeating: 2, count: 4000)) == nil)
        #expect(fixture.cache.value(forKey: "k0") == value)
        fixture.cache.checkMemoryCounters()
    }

    @Test func `survives the death of the process`() throws {
        let fixture = try EngineFixture()
        fixture.holdWriter()
        #expect(store(fixture.cache, "a", [1])?.storedID != nil)
        #expect(store(fixture.cache, "b", [1])?.storedID != nil)
        let second = try #require(store(fixture.cache, "a", [2])?.storedID)
        let found = try fixture.reopenedCopy()
        #expect(found.value(forKey: "a") == [2])
        #expect(found.value(forKey: "b") == [1])
        #expect(found.info(forKey: "a")?.cas == second)
        found.close()
    }

    @Test func `entries are approached, present or not, while the table grows`() throws {
        let cache = try memoryOnly { $0.memory.bytesMax = 64 << 20 }.cache
        #expect(!cache.isWide)
        let count = 2 * TierWidth.entriesMin
        for number in 0..<count {
            var hashes: [KeyHash] = []
            for key in ["\(number)", "\(number / 2)", "none"] {
                let bytes = Array(key.utf8)
                hashes.append(cache.hash(of: bytes.span))
            }
            cache.approach(hashes.span)
            try cache.set([1], forKey: "\(number)")
        }
        #expect(cache.isWide)
        #expect(cache.value(forKey: "\(count - 1)") == [1])
        cache.checkMemoryCounters()
    }
}
