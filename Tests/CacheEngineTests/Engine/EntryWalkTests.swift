// Walks through both tiers: every entry that is there all the while once, whatever happens between the steps.

import Primitives
import TestSupport
import Testing

@testable import CacheEngine

@Suite struct EntryWalkTests {
    @Test("memory only: every live entry once, with its metadata")
    func memoryOnly() throws {
        let fixture = try EngineFixture { $0.disk = nil }
        for number in 0..<3000 { try fixture.store("key-\(number)") }
        try fixture.cache.set(Array("gone".utf8), forKey: "gone", timeToLive: .seconds(1))
        try fixture.cache.set(Array("later".utf8), forKey: "later", timeToLive: .seconds(100), flags: 9)
        _ = fixture.cache.value(forKey: "key-7")
        fixture.clock.advance(seconds: 2)
        let entries = fixture.walk()
        #expect(entries.keys.count == 3001)
        #expect(entries.values.allSatisfy { $0.count == 1 })
        let later = try #require(entries["later"]?.first)
        #expect(later.flags == 9 && later.valueBytes == 5 && !later.wasFetched && !later.hasBinaryKey)
        #expect(later.deadline.milliseconds - fixture.clock.wall().milliseconds == 98_000)
        #expect(later.accountedBytes >= EntryBlock.headerBytes + later.key.count + later.valueBytes)
        #expect(entries["key-7"]?.first?.wasFetched == true)
        #expect(entries["key-8"]?.first?.deadline == .never)
    }

    @Test("both tiers: each entry once, in memory, on disk, in the journal, in a file; not the dead")
    func bothTiers() throws {
        let fixture = try EngineFixture()
        for number in 0..<700 { try fixture.store("cold-\(number)") }
        try fixture.cache.set([UInt8](repeating: 1, count: 100_000), forKey: "file")
        try fixture.cache.set(Array("x".utf8), forKey: "dead", timeToLive: .seconds(1))
        try fixture.store("deleted")
        fixture.settle()
        fixture.dropMemory()
        for number in 0..<700 { try fixture.store("warm-\(number)") }
        _ = fixture.cache.remove("deleted")
        fixture.clock.advance(seconds: 2)
        let entries = fixture.walk()
        let expected = Set((0..<700).flatMap { ["cold-\($0)", "warm-\($0)"] } + ["file"])
        #expect(Set(entries.keys) == expected)
        #expect(entries.values.allSatisfy { $0.count == 1 })
        #expect(entries["file"]?.first?.valueBytes == 100_000)
    }

    @Test("an entry that memory alone has is found: its file could not be written, or the store is new")
    func memoryAlone() throws {
        let fixture = try EngineFixture()
        for number in 0..<300 { try fixture.store("old-\(number)") }
        fixture.settle()
        fixture.cache.disk?.discardStore("a test")
        until { fixture.cache.statistics().disk?.quarantines == 1 && fixture.cache.statistics().disk?.state == .ok }
        for number in 0..<300 { try fixture.store("new-\(number)") }
        let entries = fixture.walk()
        #expect(Set(entries.keys) == Set((0..<300).flatMap { ["old-\($0)", "new-\($0)"] }))
        #expect(entries.values.allSatisfy { $0.count == 1 })
    }

    @Test("what the row says is corrected: a touch and an overwrite that are still in the journal")
    func corrections() throws {
        let fixture = try EngineFixture()
        for key in ["touched", "overwritten", "removed"] { try fixture.store(key) }
        fixture.settle()
        let walk = EntryWalk(fixture.cache)
        var found = fixture.steps(walk, 1)
        // The index is settled. From here on the writer does nothing, and memory forgets: only the journal knows.
        fixture.holdWriter()
        _ = fixture.cache.touch("touched", timeToLive: .seconds(50))
        try fixture.cache.set(Array("longer".utf8), forKey: "overwritten")
        _ = fixture.cache.remove("removed")
        fixture.dropMemory()
        found += fixture.rest(of: walk)
        fixture.releaseWriter()
        let entries = Dictionary(grouping: found) { String(decoding: $0.key, as: UTF8.self) }
        #expect(Set(entries.keys) == ["touched", "overwritten"])
        #expect(entries["touched"]?.first?.deadline != .never)
        #expect(entries["overwritten"]?.first?.valueBytes == 6)
    }

    @Test(
        "changes between the steps: what is there all the while is shown exactly once",
        arguments: [UInt64(1), 2, 3, 4, 5, 6])
    func changesMeanwhile(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let fixture = try EngineFixture {
            if seed.isMultiple(of: 3) { $0.disk = nil }
            $0.memory.shards = 4
        }
        let stable = (0..<2000).map { "stable-\($0)" }
        for key in stable { try fixture.store(key) }
        fixture.settle()
        let walk = EntryWalk(fixture.cache)
        var found: [WalkedEntry] = []
        var number = 0
        while !walk.isComplete {
            found += fixture.steps(walk, 1)
            for _ in 0..<60 {
                let key = stable[Int.random(in: 0..<stable.count, using: &random)]
                switch Int.random(in: 0..<6, using: &random) {
                case 0: try fixture.store(key)
                case 1: _ = fixture.cache.value(forKey: key)
                case 2: _ = fixture.cache.touch(key, timeToLive: .seconds(1000))
                case 3 where fixture.options.disk != nil: fixture.dropMemory()
                default:
                    // Others come and go, and make the tables grow.
                    number += 1
                    try fixture.store("other-\(number)")
                    if number.isMultiple(of: 3) { _ = fixture.cache.remove("other-\(number - 1)") }
                }
            }
        }
        let counts = Dictionary(grouping: found) { String(decoding: $0.key, as: UTF8.self) }.mapValues(\.count)
        #expect(stable.filter { counts[$0] != 1 } == [], "seed \(seed)")
        #expect(counts.values.allSatisfy { $0 == 1 }, "seed \(seed)")
    }

    @Test("a flush in the middle: nothing that was flushed is shown after it")
    func flushMeanwhile() throws {
        let fixture = try EngineFixture()
        for number in 0..<2000 { try fixture.store("before-\(number)") }
        fixture.settle()
        let walk = EntryWalk(fixture.cache)
        _ = fixture.steps(walk, 2)
        fixture.cache.flushAll(now: fixture.clock.now())
        try fixture.store("after")
        let rest = fixture.rest(of: walk).map { String(decoding: $0.key, as: UTF8.self) }
        #expect(rest.allSatisfy { $0 == "after" })
    }

    @Test("a sweep that is asked for frees all expired entries, and says so")
    func sweep() throws {
        let fixture = try EngineFixture { $0.disk = nil }
        for number in 0..<500 {
            try fixture.cache.set(Array("x".utf8), forKey: "mortal-\(number)", timeToLive: .seconds(1))
        }
        try fixture.store("immortal")
        fixture.clock.advance(seconds: 2)
        fixture.cache.sweepExpired()
        until { !fixture.cache.isSweepingMemory }
        let statistics = fixture.cache.statistics()
        #expect(statistics.memoryEntries == 1)
        #expect(statistics.sweptExpirations == 500 && statistics.expirations == 500)
    }

    @Test("misses of expired and of flushed entries are counted, in memory and on disk", arguments: [false, true])
    func missesByReason(isOnDisk: Bool) throws {
        let fixture = try EngineFixture { if !isOnDisk { $0.disk = nil } }
        try fixture.cache.set(Array("x".utf8), forKey: "expired", timeToLive: .seconds(1))
        if isOnDisk {
            fixture.settle()
            fixture.dropMemory()
        }
        fixture.clock.advance(seconds: 2)
        #expect(fixture.cache.value(forKey: "expired") == nil)
        #expect(fixture.cache.value(forKey: "never was") == nil)
        #expect(fixture.cache.statistics().expiredLookups == 1)
        #expect(fixture.cache.statistics().flushedLookups == 0)
        try fixture.store("flushed")
        fixture.settle()
        fixture.cache.flushAll(now: fixture.clock.now())
        #expect(fixture.cache.value(forKey: "flushed") == nil)
        #expect(fixture.cache.value(forKey: "flushed") == nil)
        #expect(fixture.cache.value(forKey: "never was") == nil)
        let statistics = fixture.cache.statistics()
        #expect(statistics.flushedLookups == 1)
        #expect(statistics.misses == 5)
    }
}

extension EngineFixture {
    fileprivate func store(_ key: String) throws { try cache.set(Array("value".utf8), forKey: key) }

    /// The entries of a whole walk, by key.
    func walk() -> [String: [WalkedEntry]] {
        Dictionary(grouping: rest(of: EntryWalk(cache))) { String(decoding: $0.key, as: UTF8.self) }
    }

    fileprivate func rest(of walk: EntryWalk) -> [WalkedEntry] {
        var found: [WalkedEntry] = []
        while !walk.isComplete { found += steps(walk, 1) }
        return found
    }

    /// What so many steps find.
    fileprivate func steps(_ walk: EntryWalk, _ count: Int) -> [WalkedEntry] {
        let box = Mailbox()
        var found: [WalkedEntry] = []
        for _ in 0..<count where !walk.isComplete {
            walk.requestNext(box.waiter())
            _ = box.next()
            found += walk.take()
        }
        return found
    }
}
