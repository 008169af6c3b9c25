// `/stats.json`: everything that the dashboard shows, and programs may want, in one document.
//
// With `?since=MILLISECONDS` (the `time` of the last sample that the asker has) only newer samples of the history come.
// Keys are left out where dumps are switched off. Called on the admin thread.

import CacheEngine
import Primitives

/// Writes the document.
enum StatsDocument {
    private static let hotKeysMax = 20
    private static let slowMax = 20

    /// The document as one line.
    static func make(_ service: Service, since: Int64?) -> String {
        var json = JSONWriter()
        json.beginObject()
        appendServer(service, &json)
        appendTiers(service.cache.statistics(), &json)
        appendWindows(service, &json)
        appendLatencies(service, &json)
        if service.allowsDumps { appendKeys(service, &json) }
        appendHistory(service.history.samples, since: since, &json)
        json.endObject()
        return json.text
    }

    private static func appendServer(_ service: Service, _ json: inout JSONWriter) {
        json.key("version")
        json.string(ProductVersion.number)
        json.key("uptime_seconds")
        json.integer(max(0, service.cache.clock.now().milliseconds - service.startedAt.milliseconds) / 1000)
        json.key("state")
        json.string(service.control.stopRequests > 0 ? "stopping" : "serving")
        json.key("connections")
        json.integer(max(0, service.connectionCount))
        json.key("connections_max")
        json.integer(service.connectionsMax)
        let process = ProcessNumbers(service)
        json.key("resident_bytes")
        json.integer(process.residentBytes)
        json.key("cpu_seconds")
        json.number(process.cpuSeconds, places: 3)
    }

    private static func appendTiers(_ engine: CacheStatistics, _ json: inout JSONWriter) {
        json.key("memory")
        json.beginObject()
        append(["bytes": engine.memoryBytes, "entries": engine.memoryEntries, "evictions": engine.evictions], &json)
        if let limit = engine.memoryBytesMax { append(["limit_bytes": limit], &json) }
        json.endObject()
        json.key("disk")
        guard let disk = engine.disk else { return json.null() }
        json.beginObject()
        json.key("state")
        json.string("\(disk.state)")
        append(
            [
                "bytes": disk.allocatedBytes, "limit_bytes": disk.bytesMax, "entries": disk.entries,
                "files": disk.fileEntries, "journal_bytes": disk.journalBytes,
                "journal_used_bytes": disk.journalUsedBytes, "evictions": disk.evictions,
                "read_errors": disk.readErrors, "write_errors": disk.writeErrors, "quarantines": disk.quarantines,
            ], &json)
        if let error = disk.lastError {
            json.key("last_error")
            json.string(error)
        }
        json.endObject()
        json.key("work")
        json.beginArray()
        for words in Server.work(engine.warmUp, disk.chores) { json.string(words) }
        json.endArray()
    }

    private static func append(_ numbers: KeyValuePairs<String, Int>, _ json: inout JSONWriter) {
        for (name, value) in numbers {
            json.key(name)
            json.integer(value)
        }
    }

    private static func appendWindows(_ service: Service, _ json: inout JSONWriter) {
        json.key("windows")
        json.beginObject()
        for (name, seconds) in [("10s", 10), ("5m", 300)] {
            guard let window = service.history.window(seconds: seconds, service) else { continue }
            json.key(name)
            json.beginObject()
            for (field, counter) in fields {
                json.key("\(field)_per_second")
                json.number(window.rate(counter), places: 3)
            }
            for (field, counter) in shares {
                guard let share = window.share(counter) else { continue }
                json.key("\(field)_ratio")
                json.number(share, places: 6)
            }
            json.endObject()
        }
        json.endObject()
    }

    private static let fields: [(String, any KeyPath<HistorySample, Int> & Sendable)] = [
        ("commands", \.commands), ("sets", \.sets), ("deletes", \.deletions), ("evictions", \.evictions),
        ("received_bytes", \.bytesRead), ("sent_bytes", \.bytesWritten), ("disk_written_bytes", \.diskWrittenBytes),
    ]
    private static let shares: [(String, any KeyPath<HistorySample, Int> & Sendable)] = [
        ("memory_hit", \.memoryHits), ("disk_hit", \.diskHits), ("miss", \.misses),
    ]

    private static func appendLatencies(_ service: Service, _ json: inout JSONWriter) {
        json.key("latency")
        json.beginArray()
        for (kind, histogram) in zip(LatencyKind.allCases, service.telemetry.histograms) where histogram.count > 0 {
            json.beginObject()
            json.key("command")
            json.string(kind.command)
            json.key("outcome")
            json.string(kind.outcome)
            json.key("count")
            json.integer(histogram.count)
            for (name, quantile) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
                json.key(name)
                json.number(histogram.microseconds(quantile) ?? 0, places: 1)
            }
            json.endObject()
        }
        json.endArray()
    }

    private static func appendKeys(_ service: Service, _ json: inout JSONWriter) {
        json.key("hot")
        json.beginArray()
        for entry in service.telemetry.hotKeys(limit: hotKeysMax, now: service.cache.clock.now()) {
            json.beginObject()
            json.key("key")
            json.string(String(decoding: entry.key, as: UTF8.self))
            json.key("per_second")
            json.number(entry.count, places: 2)
            json.endObject()
        }
        json.endArray()
        json.key("slow")
        json.beginArray()
        for request in service.telemetry.slow.all.requests.prefix(slowMax) {
            json.beginObject()
            json.key("time_ms")
            json.integer(request.time.milliseconds)
            json.key("took_us")
            json.integer(request.nanoseconds / 1000)
            json.key("place")
            json.string(request.place.rawValue)
            json.key("command")
            json.string(request.command)
            json.key("requests")
            json.integer(request.requests)
            json.key("key")
            json.string(String(decoding: request.key, as: UTF8.self))
            json.endObject()
        }
        json.endArray()
    }

    /// Samples as arrays of numbers, in the order of `columns`: a tenth of the bytes of objects.
    private static func appendHistory(_ samples: [HistorySample], since: Int64?, _ json: inout JSONWriter) {
        json.key("history_columns")
        json.beginArray()
        json.string("time_ms")
        for column in columns { json.string(column.0) }
        for column in times { json.string(column.0) }
        json.endArray()
        json.key("history")
        json.beginArray()
        for sample in samples where sample.wall.milliseconds > since ?? .min {
            json.beginArray()
            json.integer(sample.wall.milliseconds)
            for column in columns { json.integer(sample[keyPath: column.1]) }
            for column in times {
                if let time = sample[keyPath: column.1] { json.number(time, places: 1) } else { json.null() }
            }
            json.endArray()
        }
        json.endArray()
    }

    private static let columns: [(String, any KeyPath<HistorySample, Int> & Sendable)] = [
        ("memory_hits", \.memoryHits), ("disk_hits", \.diskHits), ("misses", \.misses), ("sets", \.sets),
        ("deletes", \.deletions), ("commands", \.commands), ("evictions", \.evictions),
        ("disk_evictions", \.diskEvictions), ("received_bytes", \.bytesRead), ("sent_bytes", \.bytesWritten),
        ("disk_written_bytes", \.diskWrittenBytes), ("disk_read_bytes", \.diskReadBytes),
        ("memory_bytes", \.memoryBytes), ("disk_bytes", \.diskBytes), ("journal_used_bytes", \.journalUsedBytes),
        ("connections", \.connections),
    ]
    private static let times: [(String, any KeyPath<HistorySample, Double?> & Sendable)] = [
        ("p50_us", \.medianMicroseconds), ("p99_us", \.p99Microseconds), ("p999_us", \.p999Microseconds),
    ]
}
