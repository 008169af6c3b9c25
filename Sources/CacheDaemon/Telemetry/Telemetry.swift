// What the daemon knows about its own speed and about what clients do: latencies, hot keys, big entries, slow requests.
//
// Each worker has a recorder of its own (`WorkerTelemetry`), which its turn feeds (`TurnRecorder`): one reading of the
// clock and a few comparisons per turn, whatever the number of requests in it, and a sketch of keys in the turns that
// `KeySampling` draws. `Telemetry` is the sum of all. Thread-safe but for the recorder, which belongs to a turn.

import Primitives

/// What one worker has recorded.
final class WorkerTelemetry: Sendable {
    let latencies = LatencyBook()
    /// Guards the sketch; its worker takes the lock in sampled turns only.
    let hotKeys: Guarded<HotKeys>

    init(now: Int64) { hotKeys = Guarded(HotKeys(now: now), rank: .leaf) }
}

/// What the daemon has recorded.
final class Telemetry: Sendable {
    let slow: SlowLog
    let big = BigEntries()
    /// Guards the list of the workers' recorders, and the histograms at the last `stats reset`.
    private let state = Guarded(State(), rank: .leaf)

    private struct State {
        var workers: [WorkerTelemetry] = []
        var baseline: [LatencyHistogram] = []
    }

    init(slowThreshold: TimeSpan) { slow = SlowLog(threshold: slowThreshold) }

    /// A recorder for a thread; part of all sums from now on.
    func makeWorker(now: Instant) -> WorkerTelemetry {
        let worker = WorkerTelemetry(now: now.milliseconds)
        state.withLock { $0.workers.append(worker) }
        return worker
    }

    /// The histograms of all kinds since the start, in the order of the kinds.
    var histograms: [LatencyHistogram] {
        let books = state.withLock { $0.workers.map(\.latencies) }
        return LatencyKind.allCases.map { LatencyHistogram($0, books) }
    }

    /// The same since the last `stats reset`.
    var histogramsSinceReset: [LatencyHistogram] {
        let baseline = state.withLock { $0.baseline }
        let all = histograms
        return baseline.isEmpty ? all : zip(all, baseline).map { $0.since($1) }
    }

    /// Lets the histograms begin at zero.
    func reset() {
        let all = histograms
        state.withLock { $0.baseline = all }
    }

    /// Requests of a key per second in the last minute or so; nil: too few to stand out.
    func requestsPerSecond(of key: [UInt8], now: Instant) -> Double? {
        hotKeys(limit: .max, now: now).first { $0.key == key }?.count
    }

    /// The most requested keys of the last minute or so, in requests per second.
    func hotKeys(limit: Int, now: Instant) -> [HotKey] {
        let workers = state.withLock { $0.workers }
        let reports = workers.map { worker in worker.hotKeys.withLock { $0.report(now: now.milliseconds) } }
        return HotKeys.top(reports, limit: limit)
    }
}

/// What a turn does for the records; belongs to its worker.
struct TurnRecorder {
    let worker: WorkerTelemetry
    private var counted = Counted()
    /// Which turns have their keys noted.
    var sampling = KeySampling()

    /// The owner's counters as of the last recording.
    private struct Counted {
        var getHits: UInt64 = 0
        var getMisses: UInt64 = 0
        var sets: UInt64 = 0
        var deletions: UInt64 = 0
        var arithmetic: UInt64 = 0
        var touches: UInt64 = 0

        init() {}

        @inline(__always)
        init(_ counters: Counters) {
            getHits = counters.read(.getHits)
            getMisses = counters.read(.getMisses)
            sets = counters.read(.setCommands)
            deletions = counters.read(.deleteHits) &+ counters.read(.deleteMisses)
            arithmetic =
                counters.read(.incrementHits) &+ counters.read(.incrementMisses) &+ counters.read(.decrementHits)
                &+ counters.read(.decrementMisses)
            touches = counters.read(.touchHits) &+ counters.read(.touchMisses)
        }
    }

    init(_ worker: WorkerTelemetry) { self.worker = worker }

    /// Records the requests that the counters have counted since the last recording.
    @inline(__always)
    mutating func record(_ counters: Counters, nanoseconds: Int64) {
        let before = counted
        counted = Counted(counters)
        let bucket = LatencyScale.bucket(nanoseconds)
        let book = worker.latencies
        @inline(__always)
        func add(_ kind: LatencyKind, _ count: UInt64) {
            if count > 0 { book.add(kind, count, nanoseconds: nanoseconds, bucket: bucket) }
        }
        add(.getMemory, counted.getHits &- before.getHits)
        add(.getMiss, counted.getMisses &- before.getMisses)
        add(.set, counted.sets &- before.sets)
        add(.delete, counted.deletions &- before.deletions)
        add(.arithmetic, counted.arithmetic &- before.arithmetic)
        add(.touch, counted.touches &- before.touches)
    }

    /// Leaves out what was counted since the last recording: answers that are recorded one by one.
    mutating func skip(_ counters: Counters) { counted = Counted(counters) }

    /// Records a get that the disk has answered within the turn: it is none of those that the turn's time stands for.
    mutating func recordAtHand(isHit: Bool, nanoseconds: Int64) {
        record(isHit ? .getDisk : .getDiskMiss, nanoseconds: nanoseconds)
        if isHit { counted.getHits &+= 1 } else { counted.getMisses &+= 1 }
    }

    /// Records one request that has waited.
    func record(_ kind: LatencyKind, nanoseconds: Int64) {
        worker.latencies.add(kind, nanoseconds: nanoseconds, bucket: LatencyScale.bucket(nanoseconds))
    }
}
