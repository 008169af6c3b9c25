// One shard of the memory tier: what a shard lock guards.
//
// Table, LRU list (newest first), byte and entry counts, the limits that they are held to, writes pending in the
// journal and disk lookups in flight. Nothing in here does I/O, waits or frees memory: unlinked blocks are handed out
// in a `Garbage` chain, which the caller frees after it let go of the lock.

import Primitives

/// Blocks that were unlinked under a shard lock, to be freed outside it.
///
/// Chained through `EntryBlock.chain`.
struct Garbage: ~Copyable, Sendable {
    private var first: EntryBlock?
    /// Who frees instead of the caller, if something large was collected.
    private var release: DeferredRelease?
    /// Bytes of what is large.
    private var largeBytes = 0

    init() { first = nil }

    mutating func add(_ block: EntryBlock) {
        block.chain = first
        first = block
    }

    /// Adds a large block: all that was collected is freed in the background, if that has room.
    mutating func add(_ block: EntryBlock, bytes: Int, to release: DeferredRelease) {
        add(block)
        self.release = release
        largeBytes += bytes
    }

    /// Frees all collected blocks.
    consuming func free() {
        guard let first else { return }
        if let release, release.take(first, bytes: largeBytes) { return }
        Self.free(first)
    }

    /// Frees a chain of blocks.
    static func free(_ chain: EntryBlock) {
        var block = Optional(chain)
        while let current = block {
            block = current.chain
            current.free()
        }
    }
}

/// Limits of one shard; nil is unlimited.
struct ShardLimits: Sendable, Equatable {
    var bytes: Int?
    var entries: Int?
}

/// The state of one shard.
///
/// Lives inside a `Guarded` of rank `.shard`.
struct Shard: ~Copyable {
    var table = EntryTable()
    private var newest: EntryBlock?
    private(set) var oldest: EntryBlock?
    private(set) var bytes = 0
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

    private let release: DeferredRelease

    init(limits: ShardLimits, release: DeferredRelease) {
        self.limits = limits
        self.release = release
    }

    // MARK: LRU list and table

    /// Links `block` as the most recently used entry.
    ///
    /// Its key must not be present.
    mutating func link(_ block: EntryBlock) {
        table.insert(block)
        pushNewest(block)
        bytes &+= block.accountedBytes
    }

    /// Unlinks `block`; frees it through `garbage` unless a reader has it pinned (the last reader frees it then).
    mutating func unlink(_ block: EntryBlock, into garbage: inout Garbage) {
        table.remove(block)
        detach(block)
        let accounted = block.accountedBytes
        bytes &-= accounted
        if block.pins > 0 {
            block.marks.insert(.unlinked)
        } else if accounted >= DeferredRelease.blockBytesMin {
            garbage.add(block, bytes: accounted, to: release)
        } else {
            garbage.add(block)
        }
    }

    /// Takes an evicted block out, without pins, for its new owner.
    mutating func detach(evicted block: EntryBlock) {
        table.remove(block)
        detach(block)
        bytes &-= block.accountedBytes
    }

    /// Makes `block` the most recently used entry.
    @inline(__always)
    mutating func bump(_ block: EntryBlock, now: Instant) {
        block.accessed = now.bootSeconds
        block.marks.insert(.fetched)
        guard newest != block else { return }
        detach(block)
        pushNewest(block)
    }

    @inline(__always)
    private mutating func pushNewest(_ block: EntryBlock) {
        block.newer = nil
        block.older = newest
        newest?.newer = block
        newest = block
        if oldest == nil { oldest = block }
    }

    @inline(__always)
    private mutating func detach(_ block: EntryBlock) {
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

    // MARK: Room

    /// Evicts least recently used entries until the limits hold, sparing `spared` (the entry just written).
    mutating func evictToFit(
        sparing spared: EntryBlock?, now: Instant, garbage: inout Garbage, log: EventLog
    ) {
        while isOverLimit, let victim = oldest, victim != spared {
            evict(victim, now: now, garbage: &garbage, log: log)
        }
    }

    /// Limits between what is there now and `wanted`: at most some hundred entries have to go.
    func step(towards wanted: ShardLimits) -> ShardLimits {
        ShardLimits(
            bytes: wanted.bytes.map { max($0, bytes - Self.bytesPerStep) },
            entries: wanted.entries.map { max($0, entries - Trim.stepEntries) })
    }

    /// Some hundred small entries.
    private static let bytesPerStep = 64 << 10

    private var isOverLimit: Bool {
        if let limit = limits.bytes, bytes > limit { return true }
        if let limit = limits.entries, entries > limit { return true }
        return false
    }

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
        recency.append((block.hash, max(block.accessed, block.written &+ 1)))
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

    /// Visits entries from the least recently used on, until `body` returns false.
    func forEachOldestFirst(_ body: (EntryBlock) -> Bool) {
        var block = oldest
        while let current = block {
            block = current.newer
            if !body(current) { return }
        }
    }

    private mutating func rememberFlushed() {
        flushed = .init(repeating: 0)
        var block = newest
        var left = flushed.count
        while left > 0, let current = block {
            flushed[Int(current.hash & 63)] = current.hash
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

    /// Takes all entries out in O(1); the caller frees them in the background with `DetachedEntries`.
    mutating func detachAll() -> DetachedEntries {
        rememberFlushed()
        let detached = DetachedEntries(oldest: oldest, count: entries)
        table = EntryTable()
        newest = nil
        oldest = nil
        bytes = 0
        return detached
    }
}

/// How coarse access times on disk are.
enum RecencyRule {
    /// A later access is told to the index only if it is this many minutes newer than what the index knows.
    static let granularityMinutes: UInt16 = 5

    /// Minutes of the boot clock, truncated to what a block keeps.
    static func minutes(_ bootSeconds: UInt32) -> UInt16 { UInt16(truncatingIfNeeded: bootSeconds / 60) }
}

/// The entries of a flushed shard, on their way to be freed.
///
/// They are out of reach of new lookups; pins keep single blocks alive, so each block is given up under the shard's
/// lock.
struct DetachedEntries: Sendable {
    var oldest: EntryBlock?
    var count: Int

    /// Moves up to `limit` blocks into `garbage`.
    ///
    /// Call under the lock of the shard that they came from.
    mutating func release(_ limit: Int, into garbage: inout Garbage) {
        var left = limit
        while left > 0, let block = oldest {
            oldest = block.newer
            block.newer = nil
            block.older = nil
            block.chain = nil
            if block.pins == 0 { garbage.add(block) } else { block.marks.insert(.unlinked) }
            count -= 1
            left -= 1
        }
    }
}
