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
        var hasEvents = false
    }

    /// Guards the wish to stop and what is to be freed. The thread waits on it.
    private let state = Monitor(State(), rank: .diskQueue)
    private let thread: Guarded<OSThread?> = Guarded(nil, rank: .lifecycle)

    func start(_ cache: Cache) {
        state.withLock { $0.isRunning = true }
        cache.memory.events.setWake { [state] in state.update { $0.hasEvents = true } }
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
        var swept = Array(repeating: 0, count: memory.shards.count)
        var nextTrim = Self.milliseconds() + options.memoryTrimInterval
        while true {
            let (isStopping, detached) = wait(until: nextTrim)
            for flush in detached { release(flush, memory) }
            memory.events.deliver()
            if isStopping { return }
            guard Self.milliseconds() >= nextTrim else { continue }
            nextTrim = Self.milliseconds() + options.memoryTrimInterval
            sweepExpired(memory, &swept)
            let limits = memory.limits
            if let ageMax = limits.ageMax {
                let border = memory.clock.now().advanced(byMilliseconds: -ageMax)
                _ = Trim.before(border, by: limits.ageBase, in: memory)
            }
        }
    }

    /// Waits for something to do, or for the time to trim; takes what there is.
    private func wait(until time: Int64) -> (isStopping: Bool, detached: [[DetachedEntries]]) {
        state.wait(milliseconds: max(0, time - Self.milliseconds())) { state in
            guard state.isStopping || state.hasEvents || !state.detached.isEmpty else { return nil }
            let taken = (state.isStopping, state.detached)
            state.detached = []
            state.hasEvents = false
            return taken
        } ?? (false, [])
    }

    /// The thread's own time: the cache's clock may stand still in a test.
    private static func milliseconds() -> Int64 { SystemClock().now().milliseconds }

    private func release(_ flush: [DetachedEntries], _ memory: MemoryTier) {
        for (shard, detached) in zip(memory.shards, flush) {
            var detached = detached
            while detached.oldest != nil {
                var garbage = Garbage()
                shard.withLock { _ in detached.release(Trim.stepEntries, into: &garbage) }
                garbage.free()
            }
        }
    }

    /// Looks at a share of all table positions, so that every entry is looked at once in about a minute.
    ///
    /// `swept` says for each shard where the last look ended.
    private func sweepExpired(_ memory: MemoryTier, _ swept: inout [Int]) {
        let now = memory.clock.now()
        for (number, shard) in memory.shards.enumerated() {
            let positions = shard.withLock { $0.table.positions }
            let share = min(positions, max(Trim.stepEntries, positions / 60))
            for done in stride(from: 0, to: share, by: Trim.stepEntries) {
                let step = min(Trim.stepEntries, share - done)
                var garbage = Garbage()
                shard.withLock { shard in
                    for offset in 0..<step {
                        let position = (swept[number] + done + offset) % positions
                        Trim.expired(at: position, &shard, now, &garbage, memory.events)
                    }
                }
                garbage.free()
            }
            swept[number] = (swept[number] + share) % positions
        }
    }
}
