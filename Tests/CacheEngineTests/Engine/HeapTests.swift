// The memory of entries: units, slots, and a shard whose values change their sizes.

import TestSupport
import Testing

@testable import CacheEngine
@testable import Primitives

@Suite struct SlotClassTests {
    @Test func `every size gets the smallest slot that holds it`() {
        var last = 0
        for index in 0..<SlotClass.count {
            let slot = SlotClass.slotBytes(index)
            #expect(slot > last && slot % 8 == 0)
            #expect(SlotClass.index(holding: last + 1) == index)
            #expect(SlotClass.index(holding: slot) == index)
            #expect(slot - last <= max(8, slot / 8))
            last = slot
        }
        #expect(last == 32 << 10)
        #expect(last >= EntryBlock.headerBytes + 250 + 2 + 4096 + EntryBlock.inlineValueBytesMax)
    }

    @Test func `slabs hold several slots and waste little`() {
        for index in 0..<SlotClass.count {
            let slab = UnitAllocator.unitBytes << SlotClass.order(index)
            let slot = SlotClass.slotBytes(index)
            #expect(slab / slot >= (slot <= 2048 ? 8 : 2))
            #expect(slab % slot * (slot <= 2048 ? 24 : 3) <= slab, "slots of \(slot)")
            #expect(slab / 8 < UInt16.max)
        }
    }
}

@Suite struct UnitAllocatorTests {
    @Test(arguments: [1, 2, 3] as [UInt64]) func `runs do not overlap and are merged again`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var units = UnitAllocator(addressBytes: 64 << 20)
        var runs: [(unit: UInt32, order: Int)] = []
        var used: Set<UInt32> = []
        var usedBytes = 0
        for step in 0..<20_000 {
            if random.isOne(in: 2) || runs.isEmpty {
                let order = random.below(UnitAllocator.orderMax + 1)
                guard usedBytes < 16 << 20, let unit = units.allocate(order: order) else { continue }
                for inner in unit..<unit + (1 << UInt32(order)) {
                    let run = units.run(of: units.address(inner) + 4095)
                    #expect(used.insert(inner).inserted && run == unit, "seed \(seed), step \(step)")
                }
                units.address(unit).storeBytes(of: 1, as: UInt8.self)
                runs.append((unit, order))
                usedBytes += UnitAllocator.unitBytes << order
            } else {
                let (unit, order) = runs.remove(at: random.below(runs.count))
                for inner in unit..<unit + (1 << UInt32(order)) { used.remove(inner) }
                units.free(unit)
                usedBytes -= UnitAllocator.unitBytes << order
            }
            if random.isOne(in: 50) { units.purge(random.below(1 << 20)) }
            let free = units.heldBytes - units.dirtyBytes
            #expect(free == usedBytes)
        }
        for (unit, _) in runs { units.free(unit) }
        units.purge(.max)
        let held = units.heldBytes
        #expect(held == 0)
        // Everything is in longest runs again: the range is used from its front.
        let first = units.allocate(order: UnitAllocator.orderMax)
        #expect(first.map { $0 % 64 } == 0)
    }

    @Test func `ends where its addresses end`() {
        var units = UnitAllocator(addressBytes: 16 << 20)
        var count = 0
        while units.allocate(order: UnitAllocator.orderMax) != nil { count += 1 }
        let unit = units.allocate(order: 0)
        #expect(count == 64 && unit == nil)
    }
}

/// One shard, filled with entries whose every byte is known.
private struct FilledShard: ~Copyable {
    var shard: Shard
    let log = EventLog()
    let now = Instant(milliseconds: 1_000_000)
    static let seed: UInt64 = 77

    init(bytesMax: Int) {
        shard = Shard(limits: ShardLimits(bytes: bytesMax), release: DeferredRelease(), seed: Self.seed)
    }

    static func key(_ number: Int) -> [UInt8] { Array("key-\(number)".utf8) }

    static func fill(_ number: Int) -> UInt8 { UInt8(truncatingIfNeeded: number &* 31 &+ 7) }

    mutating func find(_ number: Int) -> EntryBlock? {
        Self.key(number).withUnsafeBytes { shard.table.find(shard.hash(of: $0), $0) }
    }

    mutating func set(_ number: Int, valueBytes: Int) throws {
        let key = Self.key(number)
        let hash = key.withUnsafeBytes { shard.hash(of: $0) }
        let made = EntryBlock.make(key: key.span, extended: Span(), storedValueBytes: valueBytes, hash: hash)
        let loose = try #require(made)
        loose.stored.initializeMemory(as: UInt8.self, repeating: Self.fill(number))
        loose.cas = UInt64(number)
        var garbage = Garbage()
        if let old = find(number) { shard.unlink(old, into: &garbage) }
        let block = shard.link(loose, now: now, garbage: &garbage, log: log)
        #expect(block.valueBytes == valueBytes)
        garbage.free()
    }

    /// Whether list, table and bytes of all entries are as they were set.
    mutating func check() {
        var entries = 0
        var bytes = 0
        var intact = 0
        var last: EntryBlock?
        shard.forEachOldestFirst { block in
            entries += 1
            bytes += block.accountedBytes
            let number = Int(block.cas)
            let isKnown = shard.table.find(shard.hash(block), block.key) == block && block.older == last
            if isKnown, block.key.elementsEqual(Self.key(number)), block.value.allSatisfy({ $0 == Self.fill(number) }) {
                intact += 1
            }
            last = block
            return true
        }
        let (counted, accounted, newest) = (shard.entries, shard.bytes, shard.newest)
        #expect(entries == counted && intact == entries)
        #expect(bytes == accounted)
        #expect(newest == last)
    }
}

@Suite struct SizeShiftTests {
    private static let limit = 4 << 20
    /// What a shard may take: a few slabs come on top of the waste that it begins to reduce.
    private static let heldMax = limit + 1 << 20 + 256 << 10

    @Test(arguments: [1, 2] as [UInt64]) func `memory stays within its limit whatever sizes come`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var filled = FilledShard(bytesMax: Self.limit)
        let phases: [(keys: Int, sizes: ClosedRange<Int>)] = [
            (30_000, 80...120), (600, 9_000...11_000), (4_000, 900...1_100), (600, 10...20_000), (30_000, 10...300),
            (60, 15_000...200_000), (30_000, 50...60),
        ]
        for (phase, (keys, sizes)) in phases.enumerated() {
            for _ in 0..<keys * 2 {
                // Unequal use, so that what is evicted lies scattered.
                let number = phase << 20 + random.below(1 + random.below(keys))
                try filled.set(number, valueBytes: sizes.lowerBound + random.below(sizes.count))
                let held = filled.shard.heldBytes
                #expect(held <= Self.heldMax, "seed \(seed), phase \(phase)")
            }
            filled.check()
            // Most of the memory is of use, once there was enough for it.
            let bytes = filled.shard.bytes
            #expect(phase == 0 || bytes > Self.limit * 9 / 10, "seed \(seed), phase \(phase)")
        }
    }

    @Test func `a pinned entry stays where it is`() throws {
        var filled = FilledShard(bytesMax: Self.limit)
        for number in 0..<30_000 { try filled.set(number, valueBytes: 100) }
        let found = filled.find(29_000)
        let pinned = try #require(found)
        pinned.pins += 1
        for number in 0..<1_000 { try filled.set(1 << 20 + number, valueBytes: 10_000) }
        #expect(pinned.marks.contains(.unlinked))
        #expect(pinned.key.elementsEqual(FilledShard.key(29_000)))
        #expect(pinned.value.allSatisfy { $0 == FilledShard.fill(29_000) })
        let held = filled.shard.heldBytes
        #expect(held <= Self.heldMax)
        filled.check()
    }

    @Test func `flushed entries make room before others do`() throws {
        var filled = FilledShard(bytesMax: Self.limit)
        for number in 0..<30_000 { try filled.set(number, valueBytes: 100) }
        filled.shard.detachAll()
        let none = filled.shard.entries
        #expect(none == 0)
        for number in 0..<300 { try filled.set(1 << 20 + number, valueBytes: 10_000) }
        let entries = filled.shard.entries
        #expect(entries == 300)
        let held = filled.shard.heldBytes
        #expect(held <= Self.heldMax)
        filled.check()
    }
}

@Suite struct EntryBlockTests {
    private static let first: Int64 = -1 << 46
    private static let last: Int64 = 1 << 48 - 2 + first
    private static let instants: [Int64] = [.min, first, -1, 0, 1, last - 1, last, .max - 1, .max]

    @Test(arguments: instants) func `deadlines keep every millisecond within bounds`(milliseconds: Int64) throws {
        let made = EntryBlock.make(key: [65].span, extended: Span(), storedValueBytes: 0, hash: 1)
        let block = try #require(made)
        defer { block.free() }
        #expect(block.deadline == .never)
        block.deadline = Instant(milliseconds: milliseconds)
        let expected = milliseconds == .max ? .max : min(max(milliseconds, Self.first), Self.last)
        #expect(block.deadline == Instant(milliseconds: expected))
    }

    @Test(arguments: [0, 1, 4096], [0, 1, 16_384, 16_385, 1 << 20])
    func `parts are found again`(extendedBytes: Int, valueBytes: Int) throws {
        let key = Array("a key".utf8)
        let extended = (0..<extendedBytes).map { UInt8(truncatingIfNeeded: $0) }
        let made = EntryBlock.make(
            key: key.span, extended: extended.span, storedValueBytes: valueBytes, hash: 1 << 40 | 5)
        let block = try #require(made)
        defer { block.free() }
        block.stored.initializeMemory(as: UInt8.self, repeating: 9)
        block.marks = [.fetched]
        #expect(block.marks == [.fetched])
        #expect(block.hash == 5)
        #expect(block.key.elementsEqual(key))
        #expect(block.extended.elementsEqual(extended))
        #expect(block.value.count == valueBytes && block.value.allSatisfy { $0 == 9 })
        let copy = try #require(block.copyWithValue())
        defer { copy.free() }
        #expect(copy.extended.elementsEqual(extended))
        #expect(copy.value.elementsEqual(block.value))
        let isApart = valueBytes > EntryBlock.inlineValueBytesMax
        #expect((block.valueApart != nil) == isApart)
        if extendedBytes == 0 {
            let accounted = EntryBlock.accountedBytes(keyBytes: key.count, valueBytes: valueBytes)
            #expect(block.accountedBytes == accounted)
        }
    }
}
