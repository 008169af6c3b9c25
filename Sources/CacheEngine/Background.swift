// The background thread of a cache: memory's trim timer, freeing of flushed entries, events.
//
// Works in steps that hold one shard's lock for at most a few hundred entries, so that no client waits for a sweep.

import Primitives
import Synchronization

/// Owns the thread.
///
/// Thread-safe.
final class Background: Sendable {
    struct State {
        var isStopping = false
        var isRunning = false
        /// Somebody asked for a look at all entries.
        var wantsSweep = false
        /// The memory tier's limits were changed.
        var wantsLimits = false
        /// Events wait to be delivered, or large values to be freed.
        var isAwake = false
        /// There are flushed entries to be freed.
        var wantsRelease = false
    }

    /// Guards the wish to stop and what is to be freed.
    ///
    /// The thread waits on it.
    private let state = Monitor(State(), rank: .diskQueue)
    private let sweeping = Atomic<Bool>(false)
    private let thread: Guarded<OSThread?> = Guarded(nil, rank: .lifecycle)

    func start(_ cache: Cache) {
        state.withLock { $0.isRunning = true }
        cache.memory.events.setWake { [state] in state.update { $0.isAwake = true } }
        cache.memory.release.setWake { [state] in state.update { $0.isAwake = true } }
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

    /// Begins to free the entries of a flush.
    func requestRelease() { state.update { $0.wantsRelease = true } }

    /// Begins to bring memory to its new limits.
    func requestLimits() { state.update { $0.wantsLimits = true } }

    /// Begins a look at all entries.
    func requestSweep() {
        sweeping.store(true, ordering: .relaxed)
        state.update { $0.wantsSweep = true }
    }

    /// Whether a requested look has not ended yet.
    var isSweeping: Bool { sweeping.load(ordering: .relaxed) }

    /// Waits for something to do, but not beyond `due`; takes the wishes.
    private func wait(until due: Instant) -> State {
        let milliseconds = max(0, due.milliseconds - SystemClock().now().milliseconds)
        return state.wait(milliseconds: milliseconds, until: Self.take) ?? State()
    }

    /// What is wished now.
    func wishes() -> State { state.withLock(Self.take) ?? State() }

    private static func take(_ state: inout State) -> State? {
        let isBusy = state.isStopping || state.wantsSweep || state.wantsLimits || state.wantsRelease
        if !isBusy && !state.isAwake { return nil }
        let taken = state
        state.wantsRelease = false
        state.wantsSweep = false
        state.wantsLimits = false
        state.isAwake = false
        return taken
    }

    private func run(_ memory: MemoryTier, _ options: CacheOptions) {
        var swept = Array(repeating: 0, count: memory.shards.count)
        // Real time, not the cache's clock: a test's clock may stand still.
        let clock = SystemClock()
        var due = clock.now().advanced(byMilliseconds: options.memoryTrimInterval)
        while true {
            guard fulfil(wait(until: due), memory) else { return }
            if clock.now() >= due {
                due = clock.now().advanced(byMilliseconds: options.memoryTrimInterval)
                trim(memory, &swept)
                giveBack(memory, options)
            }
        }
    }

    /// Gives back memory that is kept for no use.
    private func giveBack(_ memory: MemoryTier, _ options: CacheOptions) {
        ValueMemory.coolDown()
        guard options.ownsProcessMemory, let limit = memory.limits.bytesMax else { return }
        memory.release.giveBackHoles(limit: limit)
    }

    /// Does what is wished; false at the end.
    func fulfil(_ wishes: State, _ memory: MemoryTier) -> Bool {
        if wishes.wantsRelease { releaseFlushed(memory) }
        memory.release.freeAll()
        memory.events.deliver()
        if wishes.isStopping {
            memory.release.setWake(nil)
            memory.release.freeAll()
            return false
        }
        if wishes.wantsLimits { memory.enforceLimits() }
        if wishes.wantsSweep { sweepAll(memory) }
        return true
    }

    /// What the timer does.
    ///
    /// `swept` says for each shard where the last look ended.
    func trim(_ memory: MemoryTier, _ swept: inout [Int]) {
        sweepExpired(memory, &swept)
        let limits = memory.limits
        guard let ageMax = limits.ageMax else { return }
        let border = memory.clock.now().advanced(byMilliseconds: -ageMax)
        _ = Trim.before(border, by: limits.ageBase, in: memory)
    }

    private func sweepAll(_ memory: MemoryTier) {
        let now = memory.clock.now()
        Trim.forEachStep(in: memory) { shard, step in
            var garbage = Garbage()
            Trim.expired(in: step, &shard, now, &garbage, memory.events)
            return garbage
        }
        sweeping.store(false, ordering: .relaxed)
    }

    private func releaseFlushed(_ memory: MemoryTier) {
        for shard in memory.shards {
            var isDone = false
            while !isDone {
                var garbage = Garbage()
                isDone = shard.withLock { !$0.releaseFlushed(Trim.stepEntries, into: &garbage) }
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
                let start = swept[number] + done
                shard.withLock { shard in
                    for position in start..<start + step {
                        Trim.expired(at: position % positions, &shard, now, &garbage, memory.events)
                    }
                }
                garbage.free()
            }
            swept[number] = (swept[number] + share) % positions
        }
    }
}
