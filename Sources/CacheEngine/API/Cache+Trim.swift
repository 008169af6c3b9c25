// Making a tier smaller by hand: to a number of entries or bytes, by age, by date, by size; and emptying both.
//
// A trim works in steps and holds up nobody. It changes no limit: what is stored meanwhile, and later, may fill the
// tier again. Trimming memory loses nothing that is on disk; trimming the disk leaves what is in memory.

import Primitives

/// What a trim is to bring a tier down to.
public enum TrimGoal: Sendable, Equatable {
    /// At most this many entries; the least recently used go first.
    case entries(Int)
    /// At most this many bytes; the least recently used go first. Memory counts as `CacheStatistics.memoryBytes`, the
    /// disk the used part of the index and the value files.
    case bytes(Int)
    /// No entry older than this, counted from its last use or from when it was stored.
    case age(Duration, AgeBase)
    /// No entry that was last used, or stored, before this time, in seconds since 1970-01-01T00:00:00Z.
    case date(secondsSince1970: Int64, AgeBase)
    /// No entry with a larger value.
    case valueBytes(Int)
    /// No entry whose time to live is over. Such entries are never served; this frees their space at once.
    case unexpired
}

extension Cache {
    /// Trims a tier; returns how many entries left it.
    ///
    /// The calling thread works, or waits for the disk.
    ///
    /// O(entries that leave) for goals by recency, O(entries) for the others. `progress` is called between steps on the
    /// calling thread, with the number of entries removed so far, holding no lock; it may stop the trim.
    @discardableResult
    public func trim(
        _ tier: Tier, to goal: TrimGoal, progress: (_ removed: Int, _ stop: inout Bool) -> Void = { _, _ in }
    ) -> Int {
        if tier == .memory { return trimMemory(to: goal, progress) }
        settleIndex()
        let run = Answer(DiskTrimRun(goal))
        var stop = false
        while !stop,
            let state = onWriter({
                run.value.step($0); return run.value
            }), !state.isDone
        {
            progress(state.removed, &stop)
        }
        return run.value.removed
    }

    /// Trims a tier; returns how many entries left it.
    ///
    /// Memory is trimmed without suspension.
    @discardableResult
    public func trim(_ tier: Tier, to goal: TrimGoal) async -> Int {
        if tier == .memory { return trimMemory(to: goal) { _, _ in } }
        await settleIndexSuspending()
        let run = Answer(DiskTrimRun(goal))
        while !Task.isCancelled,
            let state = await onWriterSuspending({
                run.value.step($0); return run.value
            }), !state.isDone
        {}
        return run.value.removed
    }

    private func trimMemory(to goal: TrimGoal, _ progress: (Int, inout Bool) -> Void) -> Int {
        let now = clock.now()
        let removed =
            switch goal {
            case .entries(let entries): Trim.down(toEntries: max(0, entries), bytes: .max, in: memory)
            case .bytes(let bytes): Trim.down(toEntries: .max, bytes: max(0, bytes), in: memory)
            case .age(let age, let base): Trim.before(now.advanced(bySubtracting: age), by: base, in: memory)
            case .date(let seconds, let base):
                Trim.before(memory.instant(civil: .seconds(seconds)), by: base, in: memory)
            case .valueBytes(let bytes): Trim.matching(in: memory) { $0.valueBytes > bytes }
            case .unexpired: Trim.matching(in: memory) { $0.deadline <= now }
            }
        var stop = false
        progress(removed, &stop)
        return removed
    }

    /// Begins to free the memory of expired entries, in the background.
    ///
    /// Such entries are never served; the background thread looks for them anyway, at each entry once in about a
    /// minute. `isSweepingMemory` says when it is done.
    public func sweepExpired() { background.requestSweep() }

    /// Whether a sweep that was asked for has not ended yet.
    public var isSweepingMemory: Bool { background.isSweeping }

    // MARK: Everything

    /// Empties both tiers at once.
    ///
    /// O(shards) for the caller: the entries are unreachable when the call returns, and their memory, rows and files
    /// are given back in the background.
    public func removeAll() {
        flushAll(now: clock.now())
        isCommitted()
    }

    /// Empties both tiers at once, then waits until the disk space is given back, too.
    ///
    /// `progress` is called between steps on the calling thread, with the number of rows removed and to be removed in
    /// all, holding no lock. The calling thread waits for the disk.
    public func removeAll(progress: (_ removed: Int, _ total: Int) -> Void) {
        removeAll()
        settleIndex()
        var total = 0
        while let sweep = onWriter({ $0.trimmer.sweepStep($0) }) {
            total = max(total, sweep.removed + sweep.left)
            progress(sweep.removed, sweep.left == 0 ? sweep.removed : total)
            if sweep.left == 0 { return }
        }
    }

    /// Empties both tiers at once.
    public func removeAll() async {
        flushAll(now: clock.now())
        await isCommittedSuspending()
    }
}

extension Instant {
    /// The instant `age` before this one; saturates.
    func advanced(bySubtracting age: Duration) -> Instant {
        let milliseconds = age.milliseconds
        return advanced(byMilliseconds: milliseconds == .min ? .max : -milliseconds)
    }
}

extension WallTime {
    /// Seconds since the epoch; saturates.
    static func seconds(_ seconds: Int64) -> WallTime {
        let (milliseconds, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        return WallTime(milliseconds: overflow ? (seconds > 0 ? .max : .min) : milliseconds)
    }
}
