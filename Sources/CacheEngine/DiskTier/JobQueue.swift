// The queue in front of the reader threads: first come, first served.
//
// A semaphore counts the jobs, so that a thread sleeps while there is none. Lookups are short and come in bursts, one
// for each request of a pipeline: a reader takes its share of those that wait with the first one, and does them in one
// snapshot of the index. Any thread.

import Primitives

/// Jobs that wait for a reader thread.
final class JobQueue: Sendable {
    private struct State {
        /// Taken jobs are nil: the queue must not be the last to let go of one, because that takes other locks.
        var jobs: [DiskJob?] = []
        var next = 0
        var isStopping = false

        var count: Int { jobs.count - next }

        /// The lookup that is the next job; nil if that is none.
        var lookup: Flight? {
            guard next < jobs.count, case .lookUp(let flight) = jobs[next] else { return nil }
            return flight
        }

        mutating func pop() -> DiskJob? {
            guard next < jobs.count else { return nil }
            let job = jobs[next].take()
            next += 1
            if next > 1024 || next == jobs.count {
                jobs.removeFirst(next)
                next = 0
            }
            return job
        }
    }

    /// Guards the jobs; held for a push or a few pops.
    private let state = Guarded(State(), rank: .diskQueue)
    /// Counts the jobs, and after `stop` one more for each reader, which finds none then.
    private let ready = Semaphore()

    /// Jobs that wait for a thread.
    var count: Int { state.withLock { $0.count } }

    /// Adds a job; false if the queue is stopping.
    func add(_ job: DiskJob) -> Bool {
        let isAccepted = state.withLock { state in
            guard !state.isStopping else { return false }
            state.jobs.append(job)
            return true
        }
        if isAccepted { ready.signal() }
        return isAccepted
    }

    /// The next job; waits for one.
    ///
    /// nil after `stop`, when no job is left.
    func next() -> DiskJob? {
        ready.wait()
        return state.withLock { $0.pop() }
    }

    /// The next job, if there is one.
    func nextAtHand() -> DiskJob? { ready.take() ? state.withLock { $0.pop() } : nil }

    /// Appends lookups that are next in the queue to `flights`, without waiting: one thread's share of what `readers`
    /// threads have before them, up to `most` in `flights`.
    func nextLookups(into flights: inout [Flight], most: Int, readers: Int) {
        state.withLock { state in
            let share = min(most, (state.count + readers) / readers)
            while flights.count < share, let flight = state.lookup, ready.take() {
                flights.append(flight)
                _ = state.pop()
            }
        }
    }

    /// Takes no more jobs.
    func refuse() { state.withLock { $0.isStopping = true } }

    /// Takes no more jobs; each of `readers` threads gets nil when those that are there are done.
    func stop(readers: Int) {
        refuse()
        for _ in 0..<readers { ready.signal() }
    }
}
