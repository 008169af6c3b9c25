// Disk jobs of a blocking caller on the caller's own thread: no hand-over, no sleep, many times the reads per second.
//
// The permits of `DiskTier` bound all jobs at a time, whoever does them: a reader thread takes one for each job, a
// caller only one that is free at once. A stop takes all of them before it lets the directory go, so no caller's read
// outlives it. Connections are kept for the next caller, but not over a change of the store: who degrades the tier
// closes the idle ones, and one in use is closed by its user. A lookup leaves its snapshot of the index open for the
// next one, which takes it if there was no commit since; the writer ends those of idle connections before a checkpoint.
// Any thread that may wait.

import Primitives

/// Readers that callers borrow.
final class CallerReads: Sendable {
    private struct State {
        // SAFETY: a reader is used by the one caller that took it out, or by whoever closes it.
        var idle: [Confined<DiskReader>] = []
        var isStopping = false
        /// While the writer checkpoints.
        var endsSnapshots = false
    }

    /// Guards the idle readers; held for a push, a pop, or the end of their snapshots, which is no I/O.
    private let state = Guarded(State(), rank: .diskQueue)

    /// Does `job` here if that is possible at once; false: hand it to the reader threads.
    func perform(_ job: DiskJob, _ disk: DiskTier) -> Bool {
        let isDone: Bool? = withReader(disk) { reader in
            // Its lookups have snapshots of their own.
            reader.releaseSnapshot()
            reader.perform(job)
            return true
        }
        return isDone ?? false
    }

    /// Runs `body` with a reader, if a permit is free; nil: it is not, or there are no more reads.
    func withReader<Result>(_ disk: DiskTier, _ body: (DiskReader) -> Result) -> Result? {
        guard disk.permits.take() else { return nil }
        defer { disk.permits.signal() }
        let (reader, isStopping) = state.withLock { ($0.idle.popLast(), $0.isStopping) }
        if isStopping {
            reader?.value.close()
            return nil
        }
        let used = reader ?? Confined(DiskReader(disk, cacheBytes: disk.options.indexCacheBytes / 8))
        let result = body(used.value)
        let isKept = state.withLock { state in
            // Seen under the lock that `closeIdle` takes after the change of state.
            guard !state.isStopping, disk.isServing, used.value.isCurrent else { return false }
            if state.endsSnapshots { used.value.releaseSnapshot() }
            state.idle.append(used)
            return true
        }
        if !isKept { used.value.close() }
        return result
    }

    /// Runs `body` while no idle connection holds a snapshot: a checkpoint gets as far as it can.
    func withoutSnapshots<Result, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        state.withLock { state in
            state.endsSnapshots = true
            for reader in state.idle { reader.value.releaseSnapshot() }
        }
        defer { state.withLock { $0.endsSnapshots = false } }
        return try body()
    }

    /// Closes the connections that nobody uses; those in use are closed when their job is done.
    ///
    /// To be called after the tier's state or store has changed.
    func closeIdle() {
        let idle = state.withLock { state in
            let idle = state.idle
            state.idle = []
            return idle
        }
        for reader in idle { reader.value.close() }
    }

    /// Lets no further job begin here.
    func stop() {
        state.withLock { $0.isStopping = true }
        closeIdle()
    }
}
