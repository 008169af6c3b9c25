// The groups of `stats` that are ours: windows, latency, hot, big, slow, options.
//
// Names are `<what>:<number or kind>:<field>`, one value each, so that clients that take the third word get it whole.
// Keys are URI-encoded, as in key dumps.

import CacheEngine
import Primitives
import Protocol

extension StatsReport {
    private static let hotKeysMax = 50

    // MARK: windows

    /// Appends hit ratios and rates over the last 10 seconds, 5 minutes, and since the start.
    func appendWindows(_ service: Service, _ reply: inout ByteBuffer) {
        for (name, seconds) in [("10s", 10), ("5m", 300)] {
            guard let window = service.history.window(seconds: seconds, service) else { continue }
            append(window, name, &reply)
        }
        let now = HistorySample(service)
        var start = now
        start.time = service.startedAt
        for counter in Self.windowCounters.map(\.1) { start[keyPath: counter] = 0 }
        append(HistoryWindow(from: start, to: now), "start", &reply)
    }

    private static let windowCounters: [(String, any WritableKeyPath<HistorySample, Int> & Sendable)] = [
        ("memory_hits", \.memoryHits), ("disk_hits", \.diskHits), ("misses", \.misses), ("sets", \.sets),
        ("deletes", \.deletions), ("commands", \.commands), ("evictions", \.evictions),
        ("disk_evictions", \.diskEvictions), ("promotions", \.promotions), ("bytes_read", \.bytesRead),
        ("bytes_written", \.bytesWritten), ("disk_written_bytes", \.diskWrittenBytes),
    ]

    private func append(_ window: HistoryWindow, _ name: String, _ reply: inout ByteBuffer) {
        reply.appendStatistic("\(name):seconds", fixed(window.seconds, places: 3))
        for (field, counter) in Self.windowCounters {
            reply.appendStatistic("\(name):\(field)", "\(window.growth(counter))")
        }
        guard let memory = window.share(\.memoryHits), let disk = window.share(\.diskHits) else { return }
        reply.appendStatistic("\(name):hit_ratio", fixed(memory + disk, places: 6))
        reply.appendStatistic("\(name):memory_hit_ratio", fixed(memory, places: 6))
        reply.appendStatistic("\(name):disk_hit_ratio", fixed(disk, places: 6))
    }

    // MARK: latency

    /// Appends times by command and outcome since the last reset; kinds that never happened are left out.
    func appendLatencies(_ service: Service, _ reply: inout ByteBuffer) {
        for (kind, histogram) in zip(LatencyKind.allCases, service.telemetry.histogramsSinceReset) {
            let count = histogram.count
            guard count > 0 else { continue }
            reply.appendStatistic("\(kind.name):count", "\(count)")
            let mean = Double(histogram.nanoseconds) / Double(count) / 1000
            reply.appendStatistic("\(kind.name):mean_us", fixed(mean, places: 3))
            for (field, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1)] {
                guard let microseconds = histogram.microseconds(quantile) else { continue }
                reply.appendStatistic("\(kind.name):\(field)_us", fixed(microseconds, places: 3))
            }
            reply.appendStatistic("\(kind.name):buckets_ns", Self.text(histogram))
        }
    }

    /// Buckets that are not empty, each as its end and its count.
    private static func text(_ histogram: LatencyHistogram) -> String {
        histogram.buckets.enumerated().filter { $0.element > 0 }.map { bucket, count in
            "\(LatencyScale.end(of: bucket).map { "\($0)" } ?? "inf"):\(count)"
        }.joined(separator: ",")
    }

    // MARK: hot, big and slow

    /// Appends the most requested keys of the last minute or so.
    func appendHotKeys(_ service: Service, _ reply: inout ByteBuffer) {
        let keys = service.telemetry.hotKeys(limit: Self.hotKeysMax, now: service.cache.clock.now())
        for (index, entry) in keys.enumerated() {
            reply.appendKey("\(index + 1):key", entry.key)
            reply.appendStatistic("\(index + 1):per_second", fixed(entry.count, places: 3))
            reply.appendStatistic("\(index + 1):error", fixed(entry.doubt, places: 3))
        }
    }

    /// Appends the largest values stored lately, without those that memory knows to be gone.
    func appendBigEntries(_ service: Service, _ reply: inout ByteBuffer) {
        for (index, entry) in service.bigEntries.enumerated() {
            reply.appendKey("\(index + 1):key", entry.key)
            reply.appendStatistic("\(index + 1):bytes", "\(entry.valueBytes)")
            reply.appendStatistic("\(index + 1):stored", "\(entry.stored.seconds)")
        }
    }

    /// Appends the slow log, newest first.
    func appendSlowRequests(_ service: Service, _ reply: inout ByteBuffer) {
        let (requests, total) = service.telemetry.slow.all
        reply.appendStatistic("slow_total", total)
        reply.appendStatistic("slow_threshold_us", UInt64(service.telemetry.slow.threshold / 1000))
        for (index, request) in requests.enumerated() {
            reply.appendStatistic("\(index + 1):time_ms", "\(request.time.milliseconds)")
            reply.appendStatistic("\(index + 1):took_us", "\(request.nanoseconds / 1000)")
            reply.appendStatistic("\(index + 1):place", request.place.rawValue)
            reply.appendStatistic("\(index + 1):command", request.command)
            reply.appendStatistic("\(index + 1):requests", "\(request.requests)")
            reply.appendStatistic("\(index + 1):conn", "\(request.descriptor)")
            if !request.key.isEmpty { reply.appendKey("\(index + 1):key", request.key) }
        }
    }

    // MARK: options

    /// Appends every option of ours as it is in force.
    func appendOptions(_ service: Service, _ reply: inout ByteBuffer) {
        let settings = service.settings
        for spec in OptionSpec.table {
            let value = spec.form.show(settings).joined(separator: ",")
            reply.appendStatistic(spec.name, value.isEmpty ? "-" : value.replacing(" ", with: "%20"))
        }
    }
}

extension Service {
    /// The largest values stored lately, with the sizes that memory knows, without those that are gone.
    var bigEntries: [BigEntry] {
        let now = cache.clock.now()
        var gone: Set<[UInt8]> = []
        let entries = telemetry.big.all.compactMap { entry -> BigEntry? in
            var found: BigEntry? = entry
            let outcome = cache.edit(entry.key.span, now: now) { edit in
                edit.isRead = false
                found = nil
                guard edit.isPresent else { return }
                found = entry
                found?.valueBytes = edit.valueBytes
            }
            // Only the disk knows: it was stored, and nobody has replaced it since as far as memory can tell.
            if outcome != .done { return entry }
            if found == nil { gone.insert(entry.key) }
            return found
        }
        telemetry.big.forget(gone)
        return entries.sorted { $0.valueBytes > $1.valueBytes }
    }
}

extension ByteBuffer {
    /// Appends `STAT <name> <key>`, URI-encoded.
    fileprivate mutating func appendKey(_ name: String, _ key: [UInt8]) {
        append("STAT \(name) ")
        // SAFETY: the key outlives the call.
        unsafe key.withUnsafeBytes { unsafe append(uriEncoded: $0) }
        append("\r\n")
    }
}
