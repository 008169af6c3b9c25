// The last ten minutes, one sample per second: what the daemon had counted, and how full it was.
//
// The main thread adds a sample each second; reports take rates over any window from it, and the dashboard its charts.
// Counters here are since the start, whatever `stats reset` did. Thread-safe.

import CacheEngine
import Primitives

/// What was counted, and how full the tiers were, at one moment.
struct HistorySample: Sendable {
    var time: Instant
    var wall: WallTime
    var memoryHits = 0
    var diskHits = 0
    var misses = 0
    var sets = 0
    var deletions = 0
    /// Commands of every kind.
    var commands = 0
    var evictions = 0
    var diskEvictions = 0
    var promotions = 0
    var bytesRead = 0
    var bytesWritten = 0
    var diskWrittenBytes = 0
    var diskReadBytes = 0
    var memoryBytes = 0
    var memoryEntries = 0
    var diskBytes = 0
    var diskEntries = 0
    var journalUsedBytes = 0
    var connections = 0
    /// Times of the requests of the last second, in us; nil if there were none.
    var medianMicroseconds: Double?
    var p99Microseconds: Double?
    var p999Microseconds: Double?

    /// What the counters say now.
    init(_ service: Service) {
        time = service.cache.clock.now()
        wall = service.cache.clock.wall()
        take(service.totals)
        take(service.cache.statistics())
        connections = max(0, service.connectionCount)
    }

    private mutating func take(_ counters: CounterTotals) {
        func sum(_ names: Counter...) -> Int {
            names.reduce(0) { $0 &+ Int(truncatingIfNeeded: counters[$1]) }
        }
        sets = sum(.setCommands)
        deletions = sum(.deleteHits, .deleteMisses)
        commands =
            sum(.getCommands, .setCommands, .touchCommands, .flushCommands, .metaCommands, .deleteHits, .deleteMisses)
            &+ sum(.incrementHits, .incrementMisses, .decrementHits, .decrementMisses)
        bytesRead = sum(.bytesRead)
        bytesWritten = sum(.bytesWritten)
    }

    private mutating func take(_ engine: CacheStatistics) {
        memoryHits = engine.memoryHits
        diskHits = engine.diskHits
        misses = engine.misses
        evictions = engine.evictions
        promotions = engine.promotions
        memoryBytes = engine.memoryBytes
        memoryEntries = engine.memoryEntries
        guard let disk = engine.disk else { return }
        diskEvictions = disk.evictions
        diskWrittenBytes = disk.writtenBytes
        diskReadBytes = disk.readBytes
        diskBytes = disk.allocatedBytes
        diskEntries = disk.entries
        journalUsedBytes = disk.journalUsedBytes
    }
}

/// What happened between two samples.
struct HistoryWindow: Sendable {
    let from: HistorySample
    let to: HistorySample

    /// Length in seconds, at least a thousandth.
    var seconds: Double { max(0.001, Double(to.time.milliseconds - from.time.milliseconds) / 1000) }

    /// How much a counter grew.
    func growth(_ counter: KeyPath<HistorySample, Int>) -> Int { max(0, to[keyPath: counter] - from[keyPath: counter]) }

    /// How much a counter grew per second.
    func rate(_ counter: KeyPath<HistorySample, Int>) -> Double { Double(growth(counter)) / seconds }

    /// The share of the lookups that a counter of them has; nil if there were none.
    func share(_ counter: KeyPath<HistorySample, Int>) -> Double? {
        let lookups = growth(\.memoryHits) + growth(\.diskHits) + growth(\.misses)
        return lookups > 0 ? Double(growth(counter)) / Double(lookups) : nil
    }
}

/// The samples of the last ten minutes.
final class History: Sendable {
    static let capacity = 600
    static let intervalMilliseconds: Int64 = 1000

    private struct State {
        var samples: [HistorySample] = []
        var next = 0
        var histogram = LatencyHistogram()
    }

    /// Guards the samples.
    private let state = Guarded(State(), rank: .leaf)

    /// Adds what is true now.
    func addSample(_ service: Service) {
        var sample = HistorySample(service)
        var histogram = LatencyHistogram()
        for kind in service.telemetry.histograms { histogram.add(kind) }
        state.withLock { state in
            let last = histogram.since(state.histogram)
            state.histogram = histogram
            sample.medianMicroseconds = last.microseconds(0.5)
            sample.p99Microseconds = last.microseconds(0.99)
            sample.p999Microseconds = last.microseconds(0.999)
            if state.samples.count < Self.capacity {
                state.samples.append(sample)
            } else {
                state.samples[state.next] = sample
                state.next = (state.next + 1) % Self.capacity
            }
        }
    }

    /// All samples, oldest first.
    var samples: [HistorySample] {
        state.withLock { Array($0.samples[$0.next...] + $0.samples[..<$0.next]) }
    }

    /// From the oldest sample of the last `seconds` until now.
    func window(seconds: Int, _ service: Service) -> HistoryWindow? {
        let now = HistorySample(service)
        // Half a second of grace, so that a timer that was late does not shorten the window by a sample.
        let start = now.time.milliseconds - Int64(seconds) * 1000 - 500
        return samples.first { $0.time.milliseconds >= start }.map { HistoryWindow(from: $0, to: now) }
    }
}

extension LatencyHistogram {
    /// A quantile in us.
    func microseconds(_ quantile: Double) -> Double? { self.quantile(quantile).map { Double($0) / 1000 } }
}
