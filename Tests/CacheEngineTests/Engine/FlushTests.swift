// Emptying everything: at once, later, across restarts and kills.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct FlushTests {
    @Test func `everything is gone at once, wherever it was`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        try cache.set([1], forKey: "row")
        try cache.set([UInt8](repeating: 1, count: 30_000), forKey: "file")
        fixture.settle()
        fixture.dropMemory()
        try cache.set([1], forKey: "journal")
        fixture.dropMemory()
        try cache.set([1], forKey: "memory")
        cache.flushAll(now: fixture.clock.now())
        for key in ["row", "file", "journal", "memory"] {
            #expect(cache.value(forKey: key) == nil, "\(key)")
            #expect(!cache.contains(key), "\(key)")
        }
        #expect(cache.keys().isEmpty)
        #expect(cache.entryCount(in: .memory) == 0)
        #expect(cache.byteCount(in: .memory) == 0)
        fixture.settle()
        #expect(cache.entryCount(in: .disk) == 0)
        #expect(fixture.scratch.files(below: "cache/store/v").filter { $0.contains("/") }.isEmpty)
        try cache.checkDiskCounters()
    }

    @Test func `what is stored after a flush stays`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k")
        fixture.cache.removeAll()
        try fixture.cache.set([2], forKey: "k")
        fixture.settle()
        fixture.dropMemory()
        #expect(fixture.cache.value(forKey: "k") == [2])
        #expect(try fixture.cache.add([3], forKey: "new") != nil)
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k") == [2])
        #expect(fixture.cache.value(forKey: "new") == [3])
    }

    @Test func `a flush survives a kill, before and after its commit`() throws {
        let fixture = try EngineFixture()
        for number in 0..<50 { try fixture.cache.set([1], forKey: "k\(number)") }
        fixture.settle()
        fixture.cache.flushAll(now: fixture.clock.now())
        try fixture.cache.set([2], forKey: "after")
        for when in ["journalled", "committed"] {
            let copy = try fixture.reopenedCopy(when)
            for number in 0..<50 { #expect(copy.value(forKey: "k\(number)") == nil) }
            #expect(copy.value(forKey: "after") == [2])
            copy.settle()
            #expect(copy.entryCount(in: .disk) == 1)
            try copy.checkDiskCounters()
            copy.close()
            fixture.settle()
        }
    }

    @Test func `a delayed flush takes what there is at its time`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        try cache.set([1], forKey: "before")
        cache.flushAll(at: fixture.clock.now().advanced(byMilliseconds: 10_000), now: fixture.clock.now())
        fixture.clock.advance(milliseconds: 9_999)
        try cache.set([1], forKey: "meanwhile")
        #expect(cache.value(forKey: "before") == [1])
        #expect(cache.contains("meanwhile"))
        fixture.clock.advance(milliseconds: 1)
        #expect(!cache.contains("before"))
        #expect(cache.value(forKey: "meanwhile") == nil)
        try cache.set([2], forKey: "after")
        fixture.settle()
        fixture.dropMemory()
        #expect(cache.value(forKey: "after") == [2])
        #expect(cache.value(forKey: "before") == nil)
    }

    @Test func `a new flush takes the place of one that is to come`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        cache.flushAll(at: fixture.clock.now().advanced(byMilliseconds: 1_000), now: fixture.clock.now())
        cache.flushAll(at: fixture.clock.now().advanced(byMilliseconds: 50_000), now: fixture.clock.now())
        try cache.set([1], forKey: "k")
        fixture.clock.advance(milliseconds: 2_000)
        #expect(cache.value(forKey: "k") == [1])
        cache.flushAll(now: fixture.clock.now())
        try cache.set([2], forKey: "k")
        fixture.clock.advance(milliseconds: 60_000)
        #expect(cache.value(forKey: "k") == [2])
    }

    @Test(arguments: [true, false]) func `a delayed flush survives a restart`(isKilled: Bool) throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k")
        fixture.cache.flushAll(at: fixture.clock.now().advanced(byMilliseconds: 10_000), now: fixture.clock.now())
        var cache = fixture.cache
        if isKilled {
            cache = try fixture.reopenedCopy()
        } else {
            // The machine is booted anew on top of that: the due time is one of civil time.
            fixture.clock.advance(milliseconds: 100)
            fixture.close()
            fixture.clock.reboot()
            try fixture.reopen()
            cache = fixture.cache
        }
        fixture.clock.advance(milliseconds: 9_800)
        #expect(cache.value(forKey: "k") == [1])
        fixture.clock.advance(milliseconds: 200)
        #expect(cache.value(forKey: "k") == nil)
        if isKilled { cache.close() }
    }

    @Test func `a delayed flush that fell due while nobody ran is performed at the start`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([1], forKey: "k")
        fixture.cache.flushAll(at: fixture.clock.now().advanced(byMilliseconds: 10_000), now: fixture.clock.now())
        fixture.close()
        fixture.clock.advance(milliseconds: 20_000)
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k") == nil)
        try fixture.cache.set([2], forKey: "k")
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k") == [2])
    }

    /// Asked for before the store is given up, or while there is none.
    @Test(arguments: [true, false]) func `a delayed flush outlives its store`(isBefore: Bool) throws {
        let fixture = try EngineFixture()
        let disk = try #require(fixture.cache.disk)
        let due = fixture.clock.now().advanced(byMilliseconds: 1_000_000)
        if isBefore { fixture.cache.flushAll(at: due, now: fixture.clock.now()) }
        disk.discardStore("as the test wants it")
        until { disk.state == .degraded || fixture.cache.statistics().disk?.quarantines == 1 }
        if !isBefore { fixture.cache.flushAll(at: due, now: fixture.clock.now()) }
        until {
            fixture.clock.advance(milliseconds: 50)
            return disk.state == .ok && fixture.cache.statistics().disk?.quarantines == 1
        }
        try fixture.cache.set([1], forKey: "k")
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k") == [1])
        fixture.clock.advance(milliseconds: 1_000_000)
        #expect(fixture.cache.value(forKey: "k") == nil)
    }

    /// The draft's file was written before the flush, its entry is stored after it.
    @Test func `a store that a flush overtook while its file was written`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        let value = [UInt8](repeating: 7, count: 50_000)
        let box = Mailbox()
        var draft = try cache.filledDraft("k", value)
        var outcome = cache.store(&draft, .set, now: fixture.clock.now())
        #expect(outcome == .unresolved(.valueFile))
        cache.overcome(.valueFile, draft: &draft, waiter: box.waiter())
        _ = box.next()
        cache.flushAll(now: fixture.clock.now())
        outcome = cache.finish(&draft, .set, box)
        #expect(outcome.storedID != nil)
        fixture.settle()
        fixture.dropMemory()
        // Stored after the flush as its client sees it; in no case half of it.
        let found = cache.value(forKey: "k")
        #expect(found == value || found == nil)
        try fixture.reopen()
        #expect(fixture.cache.value(forKey: "k") == found)
        fixture.settle()
        try fixture.cache.checkDiskCounters()
    }

    @Test func `a large value that begins after a delayed flush fell due is kept`() throws {
        let fixture = try EngineFixture { $0.memory.bytesMax = 64 << 10 }
        let (cache, clock) = (fixture.cache, fixture.clock)
        cache.flushAll(at: clock.now().advanced(byMilliseconds: 1000), now: clock.now())
        clock.advance(milliseconds: 1001)
        let value = [UInt8](repeating: 7, count: 300_000)
        try cache.set(value, forKey: "k")
        #expect(cache.value(forKey: "k") == value)
    }

    /// The overtaken store counts as having come before the flush; the other one came after it.
    @Test func `a store that a flush overtook leaves alone what was stored after the flush`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        let box = Mailbox()
        var draft = try cache.filledDraft("k", [UInt8](repeating: 7, count: 50_000))
        #expect(cache.store(&draft, .set, now: fixture.clock.now()) == .unresolved(.valueFile))
        cache.overcome(.valueFile, draft: &draft, waiter: box.waiter())
        _ = box.next()
        cache.flushAll(now: fixture.clock.now())
        try cache.set([9], forKey: "k")
        #expect(cache.finish(&draft, .set, box).storedID != nil)
        #expect(cache.value(forKey: "k") == [9])
        fixture.settle()
        fixture.dropMemory()
        #expect(cache.value(forKey: "k") == [9])
        try cache.checkDiskCounters()
    }

    @Test func `readers keep what they hold, and memory is given back later`() throws {
        let fixture = try EngineFixture()
        try fixture.cache.set([UInt8](repeating: 5, count: 10_000), forKey: "k")
        let sum = fixture.cache.withValue(forKey: "k") { value -> Int in
            fixture.cache.removeAll()
            #expect(fixture.cache.value(forKey: "k") == nil)
            var sum = 0
            for index in value.indices { sum += Int(value[index]) }
            return sum
        }
        #expect(sum == 50_000)
    }

    @Test func `with progress until the space is given back`() throws {
        let fixture = try EngineFixture()
        for number in 0..<5000 { try fixture.cache.set([1], forKey: "k\(number)") }
        try fixture.cache.set([UInt8](repeating: 1, count: 30_000), forKey: "file")
        fixture.settle()
        var steps: [(removed: Int, total: Int)] = []
        fixture.cache.removeAll { steps.append(($0, $1)) }
        #expect(steps.count >= 2)
        #expect(steps.last?.removed == 5001)
        #expect(steps.last?.total == 5001)
        #expect(zip(steps, steps.dropFirst()).allSatisfy { $0.removed <= $1.removed })
        #expect(fixture.cache.entryCount(in: .disk) == 0)
        #expect(fixture.scratch.files(below: "cache/store/v").filter { $0.contains("/") }.isEmpty)
    }
}
