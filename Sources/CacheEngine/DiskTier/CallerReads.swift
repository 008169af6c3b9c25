// Disk jobs of a blocking caller on the caller's own thread: no hand-over, no sleep, four times the reads per second.
//
// The permits of `DiskTier` bound all jobs at a time, whoever does them: a reader thread takes one for each job, a
// caller only one that is free at once. A stop takes all of them before it lets the directory go, so no caller's read
// outlives it. Connections are kept for the next caller, but not over a change of the store: who degrades the tier
// closes the idle ones, and one in use is closed by its user. Any thread that may wait.

import Primitives

/// Readers that callers borrow.
final class CallerReads: Sendable {
    private struct State {
        // SAFETY: a reader is used by the one caller that took it out, or by whoever closes it.
        var idle: [Confined<DiskReader>] = []
        var isStopping = false
    }

    /// Guards the idle readers; held for a push or a pop.
    private let state = Guarded(State(), rank: .diskQueue)

    /// Does `job` here if that is possible at once; false: hand it to the reader threads.
    func perform(_ job: DiskJob, _ disk: DiskTier) -> Bool {
        guard disk.permits.take() else { return false }
        defer { disk.permits.signal() }
        let (reader, isStopping) = state.withLock { ($0.idle.popLast(), $0.isStopping) }
        if isStopping {
            reader?.value.close()
            return false
        }
        let used = reader ?? Confined(DiskReader(disk))
        used.value.perform(job)
        let isKept = state.withLock { state in
            // Seen under the lock that `closeIdle` takes after the change of state.
            guard !state.isStopping, disk.isServing, used.value.isCurrent else { return false }
            state.idle.append(used)
            return true
        }
        if !isKept { used.value.close() }
        return true
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
