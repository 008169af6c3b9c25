// A whole run: warming, then the measured load. Starts the threads, tells how far they are, adds up what they report.

import CacheClient
import Glibc
import Primitives
import Synchronization

/// What a phase of a run brought, over all threads.
struct PhaseResult: Sendable {
    var tally = Tally()
    var getLatency = Histogram()
    var setLatency = Histogram()
    /// From the common start to the last reply.
    var seconds = 0.0
    /// CPU time of the load threads, in seconds.
    var ownSeconds = 0.0
    /// Connections that were down at the end.
    var unreachable = 0

    /// Operations per second.
    var rate: Double { seconds > 0 ? Double(tally.operations) / seconds : 0 }

    /// Latencies of all operations.
    var latency: Histogram {
        var all = getLatency
        all.add(setLatency)
        return all
    }
}

/// Operations done so far by all threads of a phase, for the progress line.
final class Progress: Sendable {
    private let count = Atomic<Int>(0)

    func add(_ operations: Int) { count.add(operations, ordering: .relaxed) }
    var operations: Int { count.load(ordering: .relaxed) }
}

/// One run with fixed settings.
struct BenchRun: Sendable {
    let settings: BenchSettings
    private let pattern: ValuePattern
    private let states: KeyStates?

    /// Prepares a run; `run` tells its values from those of other runs.
    init(_ settings: BenchSettings, run: UInt32) {
        self.settings = settings
        pattern = ValuePattern(sizes: settings.valueSizes, run: run)
        let writes = settings.setShare > 0 || settings.warm
        states = settings.verify && writes ? KeyStates(count: settings.keys) : nil
    }

    /// Sets every key once.
    ///
    /// - Throws: `ClientError` if a connection cannot be made.
    func warm(report: @escaping (String) -> Void) throws(ClientError) -> PhaseResult {
        try phase("warming", report) { thread in
            (RequestSource(warm: settings, thread: thread), .max)
        }
    }

    /// The measured load.
    ///
    /// - Throws: `ClientError` if a connection cannot be made.
    func load(report: @escaping (String) -> Void) throws(ClientError) -> PhaseResult {
        try phase("running", report) { thread in
            switch settings.length {
            case .seconds(let seconds):
                return (RequestSource(load: settings, thread: thread, remaining: .max), UInt64(seconds * 1e9))
            case .operations(let operations):
                let share = (operations - thread + settings.threads - 1) / settings.threads
                return (RequestSource(load: settings, thread: thread, remaining: max(share, 0)), .max)
            }
        }
    }

    private typealias Outcome = Result<(result: ThreadResult, start: UInt64, own: UInt64)?, ClientError>

    private func phase(
        _ name: String, _ report: (String) -> Void, plan: @escaping @Sendable (Int) -> (RequestSource, UInt64)
    ) throws(ClientError) -> PhaseResult {
        let gate = StartGate(count: settings.threads)
        let progress = Progress()
        let group = WorkerGroup<Outcome>(count: settings.threads) { thread in
            let (source, length) = plan(thread)
            return runThread(thread, source, length, gate, progress)
        }
        var seconds = 0
        var before = 0
        var outcomes: [Outcome]?
        while outcomes == nil {
            outcomes = group.wait(milliseconds: 1000)
            if outcomes == nil {
                seconds += 1
                let now = progress.operations
                report("\(name) \(seconds) s: \(grouped(now - before)) operations/s, \(grouped(now)) so far")
                before = now
            }
        }
        return try merge(outcomes ?? [])
    }

    private func runThread(
        _ thread: Int, _ source: RequestSource, _ length: UInt64, _ gate: StartGate, _ progress: Progress
    ) -> Outcome {
        do throws(ClientError) {
            let count = (settings.connections - thread + settings.threads - 1) / settings.threads
            var loop = try LoadThread(settings, count: count, source: source, pattern: pattern, states: states)
            guard let start = gate.pass() else { return .success(nil) }
            let (sum, overflow) = start.addingReportingOverflow(length)
            let ownBefore = threadNanoseconds()
            var told = 0
            let result = loop.run(start: start, deadline: overflow ? .max : sum) { operations in
                progress.add(operations - told)
                told = operations
            }
            return .success((result, start, threadNanoseconds() - ownBefore))
        } catch {
            gate.cancel()
            return .failure(error)
        }
    }

    private func merge(_ outcomes: [Outcome]) throws(ClientError) -> PhaseResult {
        var whole = PhaseResult()
        var own: UInt64 = 0
        for outcome in outcomes {
            if case .failure(let error) = outcome { throw error }
            guard case .success(let part?) = outcome else { continue }
            whole.tally.add(part.result.tally)
            whole.getLatency.add(part.result.getLatency)
            whole.setLatency.add(part.result.setLatency)
            whole.seconds = max(whole.seconds, Double(part.result.end - part.start) / 1e9)
            whole.unreachable += part.result.unreachable
            own += part.own
        }
        whole.ownSeconds = Double(own) / 1e9
        return whole
    }

    /// CPU time of the calling thread in nanoseconds.
    private func threadNanoseconds() -> UInt64 {
        var time = timespec()
        // SAFETY: clock_gettime(2) writes the local timespec during the call and keeps nothing.
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
