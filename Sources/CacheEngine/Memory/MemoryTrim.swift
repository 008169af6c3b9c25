// Trimming of memory: by time, by size, by what a caller asks. For the background thread and for programs.
//
// Works in steps that hold one shard's lock for at most a few hundred entries. Order is least recently used first where
// a trim is by recency; to the second across shards, exact within one.

import Primitives

/// Rules of trimming memory.
///
/// Thread-safe: any thread may trim.
enum Trim {
    /// Entries, or table positions, per hold of a shard's lock.
    static let stepEntries = 512

    /// Unlinks the expired entries of one table position.
    static func expired(
        at position: Int, _ shard: inout Shard, _ now: Instant, _ garbage: inout Garbage, _ log: EventLog
    ) {
        var dead: [EntryBlock] = []
        shard.table.visit(position: position) { if $0.deadline <= now { dead.append($0) } }
        sweep(dead, &shard, &garbage, log)
    }

    /// Unlinks the expired entries of a step.
    static func expired(
        in step: Step, _ shard: inout Shard, _ now: Instant, _ garbage: inout Garbage, _ log: EventLog
    ) {
        var dead: [EntryBlock] = []
        step.visit(shard.table) { if $0.deadline <= now { dead.append($0) } }
        sweep(dead, &shard, &garbage, log)
    }

    private static func sweep(
        _ dead: [EntryBlock], _ shard: inout Shard, _ garbage: inout Garbage, _ log: EventLog
    ) {
        for block in dead { shard.expire(block, garbage: &garbage, log: log) }
        shard.counters.sweptExpirations += dead.count
    }

    /// Evicts the entries that were last used, or stored, before `border`; returns how many.
    static func before(_ border: Instant, by base: AgeBase, in memory: MemoryTier) -> Int {
        let seconds = border.bootSeconds
        switch base {
        case .access: return memory.shards.reduce(0) { $0 + unused(since: seconds, in: $1, memory) }
        case .write: return matching(in: memory) { $0.written < seconds }
        }
    }

    /// By access the list is in order, so the first young entry ends the walk.
    private static func unused(since seconds: UInt32, in shard: Guarded<Shard>, _ memory: MemoryTier) -> Int {
        var removed = 0
        var isDone = false
        while !isDone {
            var garbage = Garbage()
            shard.withLock { shard in
                let now = memory.clock.now()
                var step = 0
                while step < stepEntries, let block = shard.oldest, block.accessed < seconds {
                    shard.evict(block, now: now, garbage: &garbage, log: memory.events)
                    step += 1
                }
                removed += step
                isDone = step < stepEntries
            }
            garbage.free()
        }
        return removed
    }

    /// Evicts all entries that match; returns how many.
    ///
    /// Visits every entry that is there all the while.
    static func matching(in memory: MemoryTier, _ matches: (EntryBlock) -> Bool) -> Int {
        var removed = 0
        forEachStep(in: memory) { shard, step in
            var victims: [EntryBlock] = []
            step.visit(shard.table) { if matches($0) { victims.append($0) } }
            var garbage = Garbage()
            let now = memory.clock.now()
            for block in victims { shard.evict(block, now: now, garbage: &garbage, log: memory.events) }
            removed += victims.count
            return garbage
        }
        return removed
    }

    /// A share of a table's positions.
    struct Step {
        var positions: Range<Int>
        /// How many positions the table had when the walk began: it may have grown since.
        var modulus: Int

        func visit(_ table: borrowing EntryTable, _ body: (EntryBlock) -> Void) {
            for position in positions { table.visit(residue: position, modulus: modulus, body) }
        }
    }

    /// Walks all shards in steps; frees what each step hands out.
    static func forEachStep(in memory: MemoryTier, _ body: (inout Shard, Step) -> Garbage) {
        for shard in memory.shards {
            let modulus = shard.withLock { $0.table.positions }
            for start in stride(from: 0, to: modulus, by: stepEntries) {
                let step = Step(positions: start..<min(start + stepEntries, modulus), modulus: modulus)
                let garbage = shard.withLock { body(&$0, step) }
                garbage.free()
            }
        }
    }

    /// Evicts the least recently used entries until the tier holds no more than this; returns how many.
    static func down(toEntries entriesMax: Int, bytes bytesMax: Int, in memory: MemoryTier) -> Int {
        var removed = 0
        while true {
            var entries = 0
            var bytes = 0
            var oldest: (shard: Guarded<Shard>, accessed: UInt32)?
            for shard in memory.shards {
                shard.withLock { state in
                    entries += state.entries
                    bytes += state.bytes
                    guard let block = state.oldest, block.accessed < oldest?.accessed ?? .max else { return }
                    oldest = (shard, block.accessed)
                }
            }
            guard entries > entriesMax || bytes > bytesMax, let oldest else { return removed }
            removed += evictSome(
                of: oldest.shard, upTo: oldest.accessed, entries: entries - entriesMax, bytes: bytes - bytesMax, memory)
        }
    }

    /// Evicts entries of one shard's oldest second, a few at most.
    private static func evictSome(
        of shard: Guarded<Shard>, upTo accessed: UInt32, entries: Int, bytes: Int, _ memory: MemoryTier
    ) -> Int {
        var garbage = Garbage()
        let count = shard.withLock { shard in
            let now = memory.clock.now()
            var freed = 0
            var count = 0
            while count < 32, count < entries || freed < bytes, let block = shard.oldest, block.accessed <= accessed {
                freed += block.accountedBytes
                count += 1
                shard.evict(block, now: now, garbage: &garbage, log: memory.events)
            }
            return count
        }
        garbage.free()
        return count
    }
}
