// Making tiers smaller by hand, and limits that change while the cache runs.

import Foundation
import Primitives
import TestSupport
import Testing

@testable import CacheEngine

private func text(_ keys: [[UInt8]]) -> [String] { keys.map { String(decoding: $0, as: UTF8.self) } }

@Suite struct TrimTests {
    private func filled(_ adjust: (inout CacheOptions) -> Void = { _ in }) throws -> EngineFixture {
        let fixture = try EngineFixture(adjust)
        for number in 0..<1000 {
            try fixture.cache.set([UInt8](repeating: 1, count: number), forKey: "k\(number)")
            fixture.clock.advance(seconds: 1)
        }
        fixture.settle()
        return fixture
    }

    private func numbers(_ fixture: EngineFixture, in tier: Tier) -> [Int] {
        text(fixture.cache.keys(in: tier)).compactMap { Int($0.dropFirst()) }.sorted()
    }

    @Test(arguments: Tier.allCases, [1, 4]) func `to a number of entries`(tier: Tier, shards: Int) throws {
        let fixture = try filled { $0.memory.shards = shards }
        if tier == .disk { fixture.dropMemory() }
        #expect(fixture.cache.trim(tier, to: .entries(100)) == 900)
        #expect(numbers(fixture, in: tier) == Array(900..<1000))
        #expect(fixture.cache.entryCount(in: tier) == 100)
        // The other tier is left alone.
        #expect(fixture.cache.entryCount(in: tier == .disk ? .memory : .disk) == (tier == .disk ? 0 : 1000))
        #expect(fixture.cache.trim(tier, to: .entries(100)) == 0)
        #expect(fixture.cache.trim(tier, to: .entries(0)) == 100)
        try fixture.cache.checkDiskCounters()
        fixture.cache.checkMemoryCounters()
    }

    @Test func `to a number of bytes in memory`() throws {
        let fixture = try filled()
        let before = fixture.cache.byteCount(in: .memory)
        #expect(fixture.cache.trim(.memory, to: .bytes(before / 2)) > 0)
        #expect(fixture.cache.byteCount(in: .memory) <= before / 2)
        #expect(fixture.cache.byteCount(in: .memory) > before / 2 - 1200)
        #expect(numbers(fixture, in: .memory).last == 999)
    }

    @Test func `to a number of bytes on disk`() throws {
        let fixture = try EngineFixture()
        for number in 0..<60 { try fixture.cache.set([UInt8](repeating: 1, count: 100_000), forKey: "k\(number)") }
        fixture.settle()
        fixture.dropMemory()
        #expect(fixture.cache.trim(.disk, to: .bytes(3 << 20)) > 20)
        #expect((fixture.cache.statistics().disk?.fileBytes ?? .max) <= 3 << 20)
        #expect(fixture.cache.entryCount(in: .disk) > 20)
        #expect(
            fixture.scratch.files(below: "cache/store/v").filter { $0.contains("/") }.count
                == fixture.cache.entryCount(in: .disk))
    }

    @Test(arguments: Tier.allCases, [AgeBase.access, .write]) func `by age and by date`(tier: Tier, base: AgeBase)
        throws
    {
        let fixture = try filled()
        // Number 10 is used again, and the index may learn it.
        fixture.clock.advance(seconds: 600)
        #expect(fixture.cache.value(forKey: "k10")?.count == 10)
        if tier == .disk { fixture.dropMemory() }
        let border = fixture.clock.wall().seconds - 600 - 500
        #expect(fixture.cache.trim(tier, to: .date(secondsSince1970: border, base)) == (base == .access ? 499 : 500))
        #expect(numbers(fixture, in: tier) == (base == .access ? [10] : []) + Array(500..<1000))
        #expect(fixture.cache.trim(tier, to: .age(.seconds(600 + 100), base)) == 400)
        #expect(numbers(fixture, in: tier) == (base == .access ? [10] : []) + Array(900..<1000))
    }

    @Test(arguments: Tier.allCases) func `by size of values`(tier: Tier) throws {
        let fixture = try filled()
        #expect(fixture.cache.trim(tier, to: .valueBytes(300)) == 699)
        #expect(numbers(fixture, in: tier) == Array(0...300))
    }

    @Test(arguments: Tier.allCases) func `of what has expired`(tier: Tier) throws {
        let fixture = try filled()
        for number in 0..<400 { fixture.cache.touch("k\(number)", timeToLive: .seconds(5)) }
        fixture.settle()
        fixture.clock.advance(seconds: 5)
        if tier == .memory {
            #expect(fixture.cache.trim(.memory, to: .unexpired) == 400)
        } else {
            // The writer may have come first.
            fixture.cache.trim(.disk, to: .unexpired)
        }
        #expect(fixture.cache.entryCount(in: tier) == 600)
    }

    @Test func `with progress that may stop it`() throws {
        let fixture = try filled()
        fixture.dropMemory()
        var steps: [Int] = []
        let removed = fixture.cache.trim(.disk, to: .entries(0)) { removed, stop in
            steps.append(removed)
            stop = steps.count == 2
        }
        #expect(steps.count == 2)
        #expect(removed == steps.last)
        #expect(removed < 1000)
    }

    @Test func `async`() async throws {
        let fixture = try filled()
        fixture.dropMemory()
        #expect(await fixture.cache.trim(.disk, to: .entries(10)) == 990)
        await fixture.cache.removeAll()
        #expect(fixture.cache.entryCount(in: .memory) == 0)
    }

    @Test func `shrinks under pressure, step by step`() throws {
        let fixture = try filled()
        let before = fixture.cache.byteCount(in: .memory)
        let freed = fixture.cache.shrinkMemory(toFraction: 0.75)
        let after = fixture.cache.byteCount(in: .memory)
        #expect(freed == before - after)
        #expect(after <= before * 3 / 4)
        #expect(after > before * 3 / 4 - 1200)
        #expect(fixture.cache.shrinkMemory(toFraction: 1) == 0)
        #expect(fixture.cache.shrinkMemory(toFraction: .nan) == 0)
        #expect(fixture.cache.entryCount(in: .disk) == 1000)
        #expect(fixture.cache.memoryLimits.bytesMax == fixture.options.memory.bytesMax)
        fixture.cache.shrinkMemory(toFraction: -1)
        #expect(fixture.cache.entryCount(in: .memory) == 0)
    }
}

@Suite struct LimitTests {
    @Test func `memory limits change at run time, down and up`() throws {
        let fixture = try EngineFixture()
        let cache = fixture.cache
        for number in 0..<1000 { try cache.set([UInt8](repeating: 1, count: 1000), forKey: "k\(number)") }
        cache.changeMemoryLimits { $0.bytesMax = 200_000 }
        #expect(cache.byteCount(in: .memory) <= 200_000)
        #expect(cache.statistics().memoryBytesMax == 200_000)
        cache.changeMemoryLimits { $0.entriesMax = 50 }
        #expect(cache.entryCount(in: .memory) == 50)
        #expect(cache.keysOldestFirst().last == "k999")
        cache.changeMemoryLimits {
            $0.bytesMax = nil
            $0.entriesMax = nil
        }
        for number in 0..<1000 { #expect(cache.value(forKey: "k\(number)") != nil) }
        #expect(cache.entryCount(in: .memory) == 1000)
    }

    @Test func `disk limits change at run time`() throws {
        let fixture = try EngineFixture()
        for number in 0..<1000 { try fixture.cache.set([1], forKey: "k\(number)") }
        fixture.settle()
        fixture.dropMemory()
        fixture.cache.changeDiskLimits { $0.entriesMax = 300 }
        until { fixture.cache.entryCount(in: .disk) == 300 }
        #expect(fixture.cache.diskLimits?.entriesMax == 300)
    }

    @Test func `the memory age limit changes at run time`() throws {
        let fixture = try EngineFixture { $0.memoryTrimInterval = 1 }
        try fixture.cache.set([1], forKey: "k")
        fixture.clock.advance(seconds: 100)
        fixture.cache.changeMemoryLimits { $0.ageMax = 50_000 }
        until { fixture.cache.entryCount(in: .memory) == 0 }
        #expect(fixture.cache.value(forKey: "k") == [1])
    }

    @Test func `counts and bytes are those of a recount`() throws {
        let fixture = try EngineFixture()
        for number in 0..<200 {
            try fixture.cache.set([UInt8](repeating: 1, count: number * 200), forKey: "k\(number)")
        }
        for number in 0..<50 { fixture.cache.remove("k\(number)") }
        fixture.settle()
        #expect(fixture.cache.entryCount(in: .memory) == 150)
        #expect(fixture.cache.entryCount(in: .disk) == 150)
        fixture.cache.checkMemoryCounters()
        try fixture.cache.checkDiskCounters()
        try fixture.reopen()
        #expect(fixture.cache.entryCount(in: .disk) == 150)
        #expect(fixture.cache.byteCount(in: .disk) > 100 * 200 * 150)
    }
}
