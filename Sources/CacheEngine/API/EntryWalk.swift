// A walk through the keys of both tiers for event loops: bounded steps, never a wait, memory of one step's entries.
//
//     settle the index -> rows in the order of their hashes -> entries in memory that have no row
//
// Rows come first, and by hash, because an entry keeps its hash: however often it is overwritten, evicted or promoted
// meanwhile, an entry that is there all the while is shown exactly once. What a row says is corrected by what memory or
// the journal knows. Without a disk tier, or while it is out of use, only memory is walked. Steps run on a disk reader
// thread if there is one, else on the thread that asks.

public import Primitives

/// An entry as a walk shows it.
///
/// Being shown does not count as a use.
public struct WalkedEntry: Sendable, Equatable {
    /// The key.
    public var key: [UInt8]
    /// Bytes of the value.
    public var valueBytes: Int
    /// The client's flags.
    public var flags: UInt32
    /// The id of this version of the value.
    public var cas: UInt64
    /// When it expires, by the civil clock as it is set; `.never` if it does not.
    public var deadline: WallTime
    /// When it was last read or stored; coarse for entries on disk.
    public var accessed: WallTime
    /// Whether it was read since it was stored.
    public var wasFetched: Bool
    /// Whether the key is shown in base64.
    public var hasBinaryKey: Bool
    /// Bytes that it takes in memory with everything, or would take there.
    public var accountedBytes: Int

    init(_ block: EntryBlock, _ memory: MemoryTier) {
        // SAFETY: called under the lock of the shard that the block is linked into, which keeps it; the key is copied.
        key = unsafe Array(block.key)
        valueBytes = block.valueBytes
        flags = block.flags
        cas = block.cas
        deadline = memory.civil(block.deadline)
        accessed = memory.civil(Instant(bootSeconds: block.accessed))
        wasFetched = block.marks.contains(.fetched)
        hasBinaryKey = block.marks.contains(.binaryKey)
        accountedBytes = block.accountedBytes
    }

    init(key: [UInt8], _ metadata: EntryMetadata, _ memory: MemoryTier) {
        self.key = key
        valueBytes = metadata.valueBytes
        flags = metadata.flags
        cas = metadata.cas
        deadline = memory.civil(metadata.deadline)
        accessed = memory.civil(max(metadata.accessed, metadata.written))
        wasFetched = metadata.marks.contains(.fetched) || metadata.accessed.seconds > metadata.written.seconds
        hasBinaryKey = metadata.marks.contains(.binaryKey)
        accountedBytes = EntryBlock.accountedBytes(keyBytes: key.count, valueBytes: metadata.valueBytes)
    }
}

/// A walk through all live entries of a cache, each once.
///
/// Entries that are stored, deleted or that change tiers while the walk is under way may be shown or not; an entry that
/// the disk tier gives up after it was shown is shown again if memory still has it. One step at a time: call
/// `requestNext`, wait for its completion, call `take`.
public final class EntryWalk: Sendable {
    private enum Stage {
        case settling
        case rows(from: Int64)
        case memory(shard: Int, position: Int, modulus: Int?)
        case over
    }

    private struct State {
        var stage = Stage.settling
        var found: [WalkedEntry] = []
    }

    /// Table positions, or rows, of one step: some hundred microseconds of work.
    private static let stepEntries = 256

    private let cache: Cache
    private var memory: MemoryTier { cache.memory }
    /// Guards how far the walk is and what the last step found; a step takes both out and puts them back.
    private let state = Guarded(State(), rank: .leaf)

    /// A walk that has not begun.
    public init(_ cache: Cache) { self.cache = cache }

    /// Whether nothing is left to be found.
    public var isComplete: Bool { state.withLock { if case .over = $0.stage { true } else { false } } }

    /// The entries that the last step found; maybe none.
    public func take() -> [WalkedEntry] {
        state.withLock { state in
            let found = state.found
            state.found = []
            return found
        }
    }

    /// Makes one step; `waiter` gets `.retry` when it is done, maybe at once.
    public func requestNext(_ waiter: Waiter) {
        let stage = state.withLock { $0.stage }
        guard let disk = cache.disk, disk.isServing else {
            advance(stage, nil)
            return waiter.complete(.retry)
        }
        if case .settling = stage { return settle(disk, waiter) }
        let isAccepted = disk.enqueue(
            .run { [self] reader in
                advance(stage, reader)
                waiter.complete(.retry)
            })
        if isAccepted { return }
        state.withLock { $0.stage = .over }
        waiter.complete(.retry)
    }

    /// Lets the writer bring what was acknowledged before into the index, if it can.
    ///
    /// The second request is performed after the batch that follows the first.
    private func settle(_ disk: DiskTier, _ waiter: Waiter) {
        state.withLock { $0.stage = .rows(from: .min) }
        let isAccepted = disk.ask { _ in
            if !disk.ask({ _ in waiter.complete(.retry) }) { waiter.complete(.retry) }
        }
        if !isAccepted { waiter.complete(.retry) }
    }

    private func advance(_ stage: Stage, _ reader: DiskReader?) {
        cache.performDueFlush(memory.clock.now())
        var found: [WalkedEntry] = []
        let next: Stage
        switch stage {
        case .settling: next = .memory(shard: 0, position: 0, modulus: nil)
        case .rows(let start): next = readRows(from: start, reader, &found)
        case .memory(let shard, let position, let modulus):
            next = visit(shard: shard, position: position, modulus: modulus, reader, &found)
        case .over: next = .over
        }
        state.withLock { $0 = State(stage: next, found: found) }
    }

    // MARK: Rows

    private func readRows(from start: Int64, _ reader: DiskReader?, _ found: inout [WalkedEntry]) -> Stage {
        let memoryNext = Stage.memory(shard: 0, position: 0, modulus: nil)
        guard let reader, let disk = cache.disk, let index = reader.currentIndex() else { return memoryNext }
        do throws(DiskError) {
            let page = try index.scan(fromHash: start, limit: Self.stepEntries)
            let now = memory.clock.now()
            for row in page.entries {
                let entry = memory.shard(row.hash).withLock { correct(row, &$0, disk, now: now) }
                if let entry { found.append(entry) }
            }
            return page.next.map { .rows(from: $0) } ?? memoryNext
        } catch {
            disk.counters.add(to: .readErrors)
            if error.kind == .corrupt { disk.reportCorruption(error, of: reader.store.number) }
            return memoryNext
        }
    }

    /// What is true of the row's key now; nil if it holds nothing.
    private func correct(
        _ row: ScannedEntry, _ shard: inout Shard, _ disk: DiskTier, now: Instant
    ) -> WalkedEntry? {
        // SAFETY: the row owns its key, and the lookup keeps no pointer. The record stays in the journal for as long as
        // its write is pending, and the shard is locked here.
        let resident = unsafe row.key.withUnsafeBytes { unsafe shard.table.find(row.hash, $0) }
        if let resident { return resident.deadline > now ? WalkedEntry(resident, memory) : nil }
        var metadata = row.metadata
        if let write = shard.pending.find(row.hash) {
            if write.kind == .deletion || write.kind == .barred { return nil }
            guard let record = disk.journal.wholeRecord(at: write.position) else { return nil }
            guard unsafe record.key.elementsEqual(row.key) else { return nil }
            let header = record.header
            if write.kind == .entry { metadata = EntryMetadata(header) }
            metadata.deadline = WallTime(milliseconds: header.deadline)
            metadata.cas = header.cas
            metadata.marks = EntryMarks(rawValue: header.marks)
        }
        guard metadata.generation > disk.flushGeneration, memory.instant(metadata.deadline) > now else { return nil }
        return WalkedEntry(key: row.key, metadata, memory)
    }

    // MARK: Memory

    private func visit(
        shard number: Int, position: Int, modulus known: Int?, _ reader: DiskReader?, _ found: inout [WalkedEntry]
    ) -> Stage {
        guard number < memory.shards.count else { return .over }
        let shard = memory.shards[number]
        let modulus = known ?? shard.withLock { $0.table.positions }
        let end = min(position + Self.stepEntries, modulus)
        let step = Trim.Step(positions: position..<end, modulus: modulus)
        let now = memory.clock.now()
        var doubtful: [(UInt64, WalkedEntry)] = []
        shard.withLock { shard in
            step.visit(shard.table) { block in
                guard block.deadline > now else { return }
                let entry = WalkedEntry(block, memory)
                if reader != nil && shard.mayBeOnDisk(memory.hash(block)) {
                    doubtful.append((memory.hash(block), entry))
                } else {
                    found.append(entry)
                }
            }
        }
        for (hash, entry) in doubtful where !isOnDisk(hash, reader) { found.append(entry) }
        return end < modulus
            ? .memory(shard: number, position: end, modulus: modulus)
            : .memory(shard: number + 1, position: 0, modulus: nil)
    }

    /// Whether the key's row was walked before, as far as the index can tell.
    private func isOnDisk(_ hash: UInt64, _ reader: DiskReader?) -> Bool {
        guard let index = reader?.currentIndex() else { return false }
        do throws(DiskError) {
            return try index.hasRow(hash: hash)
        } catch {
            return false
        }
    }
}
