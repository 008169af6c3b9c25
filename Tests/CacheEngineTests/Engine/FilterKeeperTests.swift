// The residency filters' growth: a filter that is too small says "maybe" to most misses.

import TestSupport
import Testing

@testable import CacheEngine

@Suite struct FilterKeeperTests {
    /// A keeper, and how often it was let go on.
    private static func finish(_ keeper: FilterKeeper, _ index: DiskIndex) throws {
        var steps = 0
        while keeper.hasMore, steps < 100 {
            try keeper.step(index)
            steps += 1
        }
        #expect(!keeper.hasMore)
    }

    @Test func `rows that come while a filter is built make it too small, and the next one is not`() throws {
        let fixture = try DiskFixture()
        let memory = MemoryTier(MemoryOptions(), seed: 1, clock: StoreClock(ManualClock()), events: EventLog())
        // More rows than one slice of the building reads.
        let first = 9000
        let many = 100_000
        func hash(_ number: Int) -> UInt64 { UInt64(number) &* 0x9e37_79b9_7f4a_7c15 }
        try fixture.transaction {
            for number in 0..<first { try fixture.put("k\(number)", [1], hash: hash(number)) }
        }
        let keeper = FilterKeeper(memory)
        try keeper.step(fixture.index)
        #expect(keeper.hasMore)
        var changes = RowChanges()
        try fixture.transaction {
            for number in first..<many {
                try fixture.put("k\(number)", [1], hash: hash(number))
                changes.added.append(hash(number))
            }
        }
        keeper.apply(changes)
        try Self.finish(keeper, fixture.index)
        for shard in memory.shards { #expect(shard.withLock { !$0.filterIsOverfull }) }
        let maybe = (many..<2 * many).count { number in
            memory.shard(hash(number)).withLock { $0.mayBeOnDisk(hash(number)) }
        }
        // 16 bits of fingerprint and up to 32 slots: one in 2,000, and few buckets that overflowed.
        #expect(maybe < many / 200)
        for number in 0..<many { #expect(memory.shard(hash(number)).withLock { $0.mayBeOnDisk(hash(number)) }) }
    }
}
