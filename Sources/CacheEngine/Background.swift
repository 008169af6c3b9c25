// The background thread of a cache: memory's trim timer, freeing of flushed entries, events.
//
// Works in steps that hold one shard's lock for at most a few hundred entries, so that no client waits for a sweep.

import Primitives

/// Owns the thread. Thread-safe.
final class Background: Sendable {
    private struct State {
        var isStopping = false
        var isRunning = false
        /// Flushed entries to free, by shard.
        var detached: [[DetachedEntries]] = []
    }

    private static let stepEntries = 512

    /// Guards the wish to stop and what is to be freed. The thread waits on it.
    private let state = Monitor(State(), rank: .diskQueue)
    private let thread: Guarded<OSThread?> = Guarded(nil, rank: .lifecycle)

    func start(_ cache: Cache) {
        state.withLock { $0.isRunning = true }
        let thread = OSThread(name: "cache-trim") { [self, memory = cache.memory, options = cache.options] in
            run(memory, options)
        }
        self.thread.withLock { $0 = thread }
    }

    func stop() {
        state.update { $0.isStopping = true }
        let thread = thread.withLock { thread in
            let running = thread
            thread = nil
            return running
        }
        thread?.join()
    }

    /// Frees the entries of a flush, one element per shard in index order.
    func free(_ detached: [DetachedEntries]) { state.update { $0.detached.append(detached) } }

    private func run(_ memory: MemoryTier, _ options: CacheOptions) {
        var position = 0
        while true {
            let (isStopping, detached): (Bool, [[DetachedEntries]]) =
                state.wait(milliseconds: options.memoryTrimInterval) { state in
                    guard state.isStopping || !state.detached.isEmpty else { return nil }
                    let taken = (state.isStopping, state.detached)
                    state.detached = []
                    return taken
                } ?? (false, [])
            for flush in detached { release(flush, memory) }
            if isStopping { return }
            sweepExpired(memory, &position)
            if let ageMax = options.memory.ageMax {
                Trim.older(than: ageMax, by: options.memory.ageBase, in: memory, stepEntries: Self.stepEntries)
            }
            memory.events.deliver()
        }
    }

    private func release(_ flush: [DetachedEntries], _ memory: MemoryTier) {
        for (shard, detached) in zip(memory.shards, flush) {
            var detached = detached
            while detached.oldest != nil {
                var garbage = Garbage()
                shard.withLock { _ in detached.release(Self.stepEntries, into: &garbage) }
                garbage.free()
            }
        }
    }

    /// Looks at a share of all table positions, so that every entry is looked at once in about a minute.
    private func sweepExpired(_ memory: MemoryTier, _ position: inout Int) {
        let now = memory.clock.now()
        for shard in memory.shards {
            let positions = shard.withLock { $0.table.positions }
            let share = max(Self.stepEntries, positions / 60)
            var done = 0
            while done < share {
                let step = min(Self.stepEntries, share - done)
                let start = position + done
                var garbage = Garbage()
                shard.withLock { shard in
                    for offset in 0..<step {
                        Trim.expired(at: (start + offset) % positions, &shard, now, &garbage, memory.events)
                    }
                }
                garbage.free()
                done += step
            }
        }
        position = (position + Self.stepEntries) & Int.max
    }
}

/// Rules of trimming memory, for the background thread and for callers who ask.
enum Trim {
    /// Unlinks the expired entries of one table position.
    static func expired(
        at position: Int, _ shard: inout Shard, _ now: Instant, _ garbage: inout Garbage, _ log: EventLog
    ) {
        var dead: [EntryBlock] = []
        shard.table.visit(position: position) { if $0.deadline <= now { dead.append($0) } }
        for block in dead { shard.expire(block, garbage: &garbage, log: log) }
    }

    /// Evicts entries whose age is over `milliseconds`.
    static func older(than milliseconds: Int64, by base: AgeBase, in memory: MemoryTier, stepEntries: Int) {
        let now = memory.clock.now()
        let border = now.advanced(byMilliseconds: -milliseconds).bootSeconds
        for shard in memory.shards {
            var isDone = false
            while !isDone {
                var garbage = Garbage()
                shard.withLock { shard in
                    var victims: [EntryBlock] = []
                    var examined = 0
                    shard.forEachOldestFirst { block in
                        examined += 1
                        let time = base == .access ? block.accessed : block.written
                        if time < border { victims.append(block) }
                        // By access the list is in order: the first young entry ends the walk.
                        return victims.count < stepEntries && (base == .write || time < border)
                    }
                    for block in victims { shard.evict(block, now: now, garbage: &garbage, log: memory.events) }
                    isDone = victims.count < stepEntries
                }
                garbage.free()
            }
        }
    }
}
