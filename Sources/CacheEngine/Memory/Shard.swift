// One shard of the memory tier: what a shard lock guards.
//
// Table, LRU list (newest first), byte and entry counts, the limits that they are held to, writes pending in the
// journal and disk lookups in flight. Nothing in here does I/O or waits; what malloc gave is handed out as `Garbage`,
// which the caller frees after it let go of the lock. How entries come into the shard's heap, and how room is made for
// them, is in `Shard+Room.swift`.

import Glibc
import Hashing
import Primitives
import Synchronization

/// Limits of one shard; nil is unlimited.
struct ShardLimits: Sendable, Equatable {
    var bytes: Int?
    var entries: Int?
}

/// How large the memory tier has become; shared by its shards.
final class TierWidth: Sendable {
    /// Entries of a shard from which on the tier is wide: half a million in all.
    static let entriesMin = 1 << 15
    let isWide = Atomic<Bool>(false)
}

/// The state of one shard.
///
/// Lives inside a `Guarded` of rank `.shard`.
struct Shard: ~Copyable {
    var heap: EntryHeap
    var table: EntryTable
    var newest: EntryBlock?
    var oldest: EntryBlock?
    /// What the entries cost.
    var bytes = 0
    /// What their values that lie apart take of it.
    var apartBytes = 0
    /// Entries of flushes that are not freed yet: the oldest of each, the others by `newer`.
    var flushedEntries: [EntryBlock] = []
    var limits: ShardLimits
    var pending = PendingTable()
    /// Disk lookups under way, and finished ones whose "absent" is still being used as proof.
    var flights: [UInt64: Flight] = [:]
    var counters = ShardCounters()
    /// Which keys may have a row on disk; nil while that is not known.
    private var filter: ResidencyFilter?
    /// Accesses of entries that left memory, for the index: (hash, boot second).
    ///
    /// Bounded and lossy.
    var recency: [(hash: UInt64, accessed: UInt32)] = []

    static let recencyMax = 4096
    /// Hashes of some entries that the last flush removed, so that misses of them can be told from others; by their low
    /// bits, 0: none.
    private var flushed: [64 of UInt64] = .init(repeating: 0)

    var entries: Int { table.count }

    /// Who brings evicted entries to disk; nil: they are there already, or have to go.
    var demoter: Demoter?
    /// Keys that were seen lately; nil if nobody asks.
    var seen: SeenKeys?

    let release: DeferredRelease
    /// Of the hash of keys.
    private let seed: UInt64

    private let width: TierWidth

    init(
        limits: ShardLimits, release: DeferredRelease, seed: UInt64 = 0, width: TierWidth = TierWidth(),
        addressBytes: Int = EntryHeap.addressBytes
    ) {
        heap = EntryHeap(addressBytes: addressBytes)
        self.width = width
        self.limits = limits
        self.release = release
        self.seed = seed
        table = unsafe EntryTable(base: heap.base)
    }

    deinit {
        // SAFETY: the heap's slots go with it; readers that have something pinned keep the shard.
        for first in flushedEntries + [oldest].compactMap(\.self) {
            var block = Optional(first)
            while let current = block {
                block = current.newer
                if let value = unsafe current.valueApart { unsafe ValueMemory.free(value) }
            }
        }
    }

    /// The whole hash of a block's key.
    func hash(_ block: EntryBlock) -> UInt64 { unsafe hash(of: block.key) }

    /// The hash of a key.
    func hash(of key: UnsafeRawBufferPointer) -> UInt64 { unsafe xxh3(key, seed: seed) }

    // MARK: LRU list and table

    /// Makes `block` the most recently used entry.
    @inline(__always)
    mutating func bump(_ block: EntryBlock, now: Instant) {
        block.accessed = now.bootSeconds
        block.marks.insert(.fetched)
        makeNewest(block)
    }

    /// Puts a linked block at the head of the list.
    @inline(__always)
    mutating func makeNewest(_ block: EntryBlock) {
        guard newest != block else { return }
        detach(block)
        pushNewest(block)
    }

    @inline(__always)
    mutating func noteWidth() {
        if table.count == TierWidth.entriesMin { width.isWide.store(true, ordering: .relaxed) }
    }

    @inline(__always)
    mutating func pushNewest(_ block: EntryBlock) {
        block.newer = nil
        block.older = newest
        newest?.newer = block
        newest = block
        if oldest == nil { oldest = block }
    }

    /// Makes `block` the least recently used entry.
    mutating func moveBehind(_ block: EntryBlock) {
        guard oldest != block else { return }
        detach(block)
        block.newer = oldest
        oldest?.older = block
        oldest = block
        if newest == nil { newest = block }
    }

    @inline(__always)
    mutating func detach(_ block: EntryBlock) {
        if let newer = block.newer { newer.older = block.older } else { newest = block.older }
        if let older = block.older { older.newer = block.newer } else { oldest = block.newer }
        block.newer = nil
        block.older = nil
    }

    // MARK: Lookup

    /// The live entry with this key.
    ///
    /// An expired one is unlinked on the way.
    @inline(__always)
    mutating func find(
        _ hash: UInt64, _ key: UnsafeRawBufferPointer, now: Instant, garbage: inout Garbage, log: EventLog
    ) -> EntryBlock? {
        // SAFETY: the caller keeps the key during the call, and the lookup keeps no pointer.
        guard let block = unsafe table.find(hash, key) else { return nil }
        if block.deadline > now { return block }
        expire(block, garbage: &garbage, log: log)
        return nil
    }

    /// Unlinks an entry whose time is over.
    mutating func expire(_ block: EntryBlock, garbage: inout Garbage, log: EventLog) {
        counters.expirations += 1
        if !block.marks.contains(.fetched) { counters.expiredUnfetched += 1 }
        log.record(.expired, block)
        unlink(block, into: &garbage)
    }

    // MARK: The residency filter

    /// False only if there is certainly no row with this hash.
    @inline(__always)
    func mayBeOnDisk(_ hash: UInt64) -> Bool { filter?.mayContain(hash) ?? true }

    /// Whether the key was seen before, or may be on disk; notes it.
    mutating func isKnown(_ hash: UInt64) -> Bool {
        let isSeen = seen?.insert(hash) ?? true
        return isSeen || filter?.mayContain(hash) ?? false || pending.find(hash)?.kind == .entry
    }

    mutating func installFilter(_ filter: consuming ResidencyFilter?) { self.filter = filter }

    mutating func changeFilter(_ body: (inout ResidencyFilter) -> Void) {
        guard var filter = filter.take() else { return }
        body(&filter)
        self.filter = consume filter
    }

    var filterIsOverfull: Bool {
        switch filter {
        case .some(let filter): filter.count > filter.comfortableCount
        case nil: false
        }
    }

    // MARK: Leaving

    /// Limits between what is there now and `wanted`: at most some hundred entries have to go.
    func step(towards wanted: ShardLimits) -> ShardLimits {
        ShardLimits(
            bytes: wanted.bytes.map { max($0, bytes - Self.bytesPerStep) },
            entries: wanted.entries.map { max($0, entries - Trim.stepEntries) })
    }

    /// Some hundred small entries.
    private static let bytesPerStep = 64 << 10

    /// Unlinks `victim` for room, or as expired if its time is over, and remembers its last access for the index.
    mutating func evict(_ victim: EntryBlock, now: Instant, garbage: inout Garbage, log: EventLog) {
        if victim.deadline <= now { return expire(victim, garbage: &garbage, log: log) }
        counters.evictions += 1
        if !victim.marks.contains(.fetched) { counters.evictedUnfetched += 1 }
        if victim.deadline != .never { counters.mortalEvictions += 1 }
        counters.lastEvictionAt = now.bootSeconds
        counters.lastEvictionIdle = Int(now.bootSeconds) - Int(victim.accessed)
        noteAccess(victim)
        log.record(.evicted, victim)
        if let demoter, demoter.takes(victim, &self, now: now) { return }
        unlink(victim, into: &garbage)
    }

    /// Remembers when an entry that leaves memory was last used, if the index does not know that closely enough.
    ///
    /// The first read of an entry is always told, as at least one second after its write: on disk, that is the read
    /// mark.
    mutating func noteAccess(_ block: EntryBlock) {
        guard block.marks.contains(.fetched), recency.count < Self.recencyMax else { return }
        let age = RecencyRule.minutes(block.accessed) &- block.knownAccess
        guard age >= RecencyRule.granularityMinutes || !block.marks.contains(.readMarkOnDisk) else { return }
        recency.append((hash(block), max(block.accessed, block.written &+ 1)))
    }

    /// Remembers the last accesses of the most recently used entries, as many as there is room for.
    ///
    /// For a stop: what is hottest in memory must not look coldest on disk.
    mutating func noteAccessesOfNewest() {
        var block = newest
        while let current = block, recency.count < Self.recencyMax {
            noteAccess(current)
            block = current.older
        }
    }

    /// Takes out the accesses that the index can be told of: those of entries that it has, being at `committed`.
    mutating func takeRecency(committed: UInt64) -> [(hash: UInt64, accessed: UInt32)] {
        var early: [(hash: UInt64, accessed: UInt32)] = []
        var ready: [(hash: UInt64, accessed: UInt32)] = []
        for access in recency {
            let write = pending.find(access.hash)
            let isEarly = write?.kind == .entry && (write?.sequence ?? 0) > committed
            if isEarly { early.append(access) } else { ready.append(access) }
        }
        recency = early
        return ready
    }

    /// Visits entries from the least recently used on, until `body` returns false.
    func forEachOldestFirst(_ body: (EntryBlock) -> Bool) {
        var block = oldest
        while let current = block {
            block = current.newer
            if !body(current) { return }
        }
    }

    mutating func rememberFlushed() {
        flushed = .init(repeating: 0)
        var block = newest
        var left = flushed.count
        while left > 0, let current = block {
            let hash = hash(current)
            flushed[Int(hash & 63)] = hash
            block = current.older
            left -= 1
        }
    }

    /// Counts a miss of a key, if it is known to be one that the last flush removed; once for each key.
    @inline(__always)
    mutating func noteMiss(_ hash: UInt64) {
        guard flushed[Int(hash & 63)] == hash, hash != 0 else { return }
        flushed[Int(hash & 63)] = 0
        counters.flushedLookups += 1
    }
}

/// How coarse access times on disk are.
enum RecencyRule {
    /// A later access is told to the index only if it is this many minutes newer than what the index knows.
    static let granularityMinutes: UInt16 = 5

    /// Seconds by which the access time of an entry that is overwritten may stay behind: the index over access times
    /// is left alone then, which is half of the cost of an overwrite.
    static func rewriteSlack(_ limits: DiskLimits) -> Int64 {
        guard limits.ageBase == .access, let ageMax = limits.ageMax else { return 60 }
        return min(60, ageMax / 16_000)
    }

    /// Minutes of the boot clock, truncated to what a block keeps.
    static func minutes(_ bootSeconds: UInt32) -> UInt16 { UInt16(truncatingIfNeeded: bootSeconds / 60) }
}
