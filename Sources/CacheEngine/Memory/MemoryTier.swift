// The memory tier: the shards, the hash that chooses among them, and the clock relations that all of them share.
//
// Knows nothing of the disk. Limits are split evenly over the shards; because the hash is keyed and uniform, so is the
// load.

import Hashing
import Primitives
import Synchronization

/// All shards of one cache.
///
/// Thread-safe: each shard is behind its own lock.
@safe
final class MemoryTier: Sendable {
    let shards: [Guarded<Shard>]
    // SAFETY: the same objects, kept alive by `shards` for as long as this object lives; allocated once, freed in
    // deinit. The request path takes them from here without counting references.
    nonisolated(unsafe) private let references: UnsafeMutablePointer<Unmanaged<Guarded<Shard>>>
    private let shift: UInt64
    private let seed: UInt64
    let clock: any TimeSource
    let events: EventLog
    let release: DeferredRelease
    private let width: TierWidth
    /// Memory of large values that is kept for others to come: a 32nd of the limit.
    private let warmBytes: Int
    /// Store time minus boot time in ms, fixed when the cache was opened; see `StoreClock`.
    private let storeOffset: Int64
    private let valueMax: Atomic<Int>
    /// Guards the limits in force, as they were given.
    private let given: Guarded<MemoryOptions>

    init(_ options: MemoryOptions, seed: UInt64, clock: StoreClock, events: EventLog) {
        let count = options.shards ?? Self.shardCount(options)
        invariant(count > 0 && count & (count - 1) == 0 && count <= 1024, "shards: \(count)")
        let limits = Self.split(options, over: count)
        let (release, width) = (DeferredRelease(), TierWidth())
        self.release = release
        self.width = width
        let addressBytes = EntryHeap.addressBytes(shards: count)
        shards = (0..<count).map { _ in
            Guarded(
                Shard(limits: limits, release: release, seed: seed, width: width, addressBytes: addressBytes),
                rank: .shard)
        }
        unsafe references = .allocate(capacity: count)
        for (index, shard) in shards.enumerated() {
            unsafe (references + index).initialize(to: .passUnretained(shard))
        }
        shift = UInt64(64 - count.trailingZeroBitCount)
        self.seed = seed
        self.clock = clock.source
        self.events = events
        storeOffset = clock.offset
        valueMax = Atomic(Self.effectiveValueMax(options, limits))
        given = Guarded(options, rank: .leaf)
        warmBytes = max(1 << 20, min((options.bytesMax ?? .max) / 32, 64 << 20))
        ValueMemory.addWarmth(warmBytes)
    }

    /// Enough shards that threads rarely meet, few enough that a shard still holds several of the largest values.
    private static func shardCount(_ options: MemoryOptions) -> Int {
        var count = 16
        // A value may take half of its shard, see `effectiveValueMax`.
        let shardBytesMin = max(4 << 20, 2 * min(options.valueBytesMax, 1 << 40))
        // All of a shard's entries have to lie within the addresses of its heap.
        while count < 1024, let bytes = options.bytesMax, bytes / count > EntryHeap.addressBytes / 2 { count *= 2 }
        while count > 1,
            (options.bytesMax ?? .max) / count < shardBytesMin || (options.entriesMax ?? .max) / count < 256
        {
            count /= 2
        }
        return count
    }

    private static func split(_ options: MemoryOptions, over count: Int) -> ShardLimits {
        ShardLimits(
            bytes: options.bytesMax.map { max(1, $0 / count) },
            entries: options.entriesMax.map { max(1, $0 / count) })
    }

    private static func effectiveValueMax(_ options: MemoryOptions, _ limits: ShardLimits) -> Int {
        limits.bytes.map { min(options.valueBytesMax, $0 / 2) } ?? options.valueBytesMax
    }

    deinit {
        unsafe references.deallocate()
        ValueMemory.addWarmth(-warmBytes)
    }

    /// Larger values are not kept in memory.
    var valueBytesMax: Int { valueMax.load(ordering: .relaxed) }

    /// The limits in force, as they were given.
    var limits: MemoryOptions { given.withLock { $0 } }

    /// Sets new limits, which hold once `enforceLimits` has returned.
    ///
    /// The number of shards stays.
    func setLimits(_ options: MemoryOptions) {
        given.withLock { $0 = options }
        let limits = Self.split(options, over: shards.count)
        valueMax.store(Self.effectiveValueMax(options, limits), ordering: .relaxed)
    }

    /// Brings the shards to the limits as they were set last.
    ///
    /// A limit is lowered a little at a time, so that neither this nor a store that comes between two steps holds a
    /// shard's lock while it evicts everything that became too much.
    func enforceLimits() {
        for shard in shards {
            var isDone = false
            while !isDone {
                let wanted = Self.split(limits, over: shards.count)
                var garbage = Garbage()
                isDone = shard.withLock { shard in
                    let now = clock.now()
                    shard.limits = shard.step(towards: wanted)
                    shard.evictToFit(sparing: nil, now: now, garbage: &garbage, log: events)
                    return !shard.reduceWaste(for: 0, now: now, garbage: &garbage, log: events)
                        && shard.limits == wanted
                }
                garbage.free()
            }
        }
    }

    /// Whether a shard has so many entries that table and entries are far larger than a processor's caches.
    ///
    /// Once true, it stays so.
    @inline(__always)
    var isWide: Bool { width.isWide.load(ordering: .relaxed) }

    // MARK: Hashing

    /// The keyed hash of a key: chooses shard, bucket and row.
    @inline(__always)
    func hash(_ key: UnsafeRawBufferPointer) -> UInt64 { unsafe xxh3(key, seed: seed) }

    @inline(__always)
    func shard(_ hash: UInt64) -> Guarded<Shard> { shards[shardIndex(hash)] }

    /// Runs `body` under the lock of the shard of `hash`.
    @inline(__always)
    func withShard<Result>(_ hash: UInt64, _ body: (inout Shard) -> Result) -> Result {
        unsafe reference(hash)._withUnsafeGuaranteedRef { $0.withLock(body) }
    }

    /// The shard of `hash`, not counted.
    ///
    /// For as long as this object lives.
    @inline(__always)
    func reference(_ hash: UInt64) -> Unmanaged<Guarded<Shard>> { unsafe references[shardIndex(hash)] }

    @inline(__always)
    func shardIndex(_ hash: UInt64) -> Int { Int(hash >> shift) }

    // MARK: Clocks

    /// A time for the disk, by the store's clock.
    func storeTime(_ instant: Instant) -> WallTime { Self.time(instant, storeOffset) }

    /// The same for times that are kept in whole seconds.
    func storeTime(bootSeconds: UInt32) -> WallTime { storeTime(Instant(bootSeconds: bootSeconds)) }

    /// A time from the disk.
    func instant(_ storeTime: WallTime) -> Instant { Self.instant(storeTime, storeOffset) }

    /// What the civil clock says, as it is set at present, of a time: for people.
    func civil(_ instant: Instant) -> WallTime { Self.time(instant, civilOffset) }

    /// The same of a time from the disk.
    func civil(_ storeTime: WallTime) -> WallTime { civil(instant(storeTime)) }

    /// When the civil clock, as it is set at present, says `civil`.
    func instant(civil: WallTime) -> Instant { Self.instant(civil, civilOffset) }

    private var civilOffset: Int64 { clock.wall().milliseconds - clock.now().milliseconds }

    private static func time(_ instant: Instant, _ offset: Int64) -> WallTime {
        instant == .never ? .never : WallTime(milliseconds: instant.milliseconds &+ offset)
    }

    private static func instant(_ time: WallTime, _ offset: Int64) -> Instant {
        if time == .never { return .never }
        let (milliseconds, overflow) = time.milliseconds.subtractingReportingOverflow(offset)
        return Instant(milliseconds: overflow ? .min : milliseconds)
    }

    // MARK: All shards at once

    /// Sets what becomes of evicted entries: nil, nothing.
    ///
    /// `seenSlots` is the size of each shard's memory of keys; nil: none is kept.
    func setDemoter(_ demoter: Demoter?, seenSlots: Int? = nil) {
        for shard in shards {
            shard.withLock { shard in
                shard.demoter = demoter
                shard.seen = seenSlots.map { SeenKeys(count: $0) }
            }
        }
    }

    /// Runs `inner` while holding every shard's lock, then `each` for every shard, still under its lock.
    ///
    /// The one place where a thread holds two locks of one rank: always all of them, always in index order.
    func withAllShards(inner: () -> Void, each: (inout Shard) -> Void) {
        withShards(from: 0, inner: inner, each: each)
    }

    private func withShards(from index: Int, inner: () -> Void, each: (inout Shard) -> Void) {
        guard index < shards.count else { return inner() }
        shards[index].withLockInIndexOrder(isFirst: index == 0) { shard in
            withShards(from: index + 1, inner: inner, each: each)
            each(&shard)
        }
    }
}
