// One look at a server, and how fast its counters grew since another look. No text here; see Summary.swift.

import CacheClient
import Primitives

/// The statistics of one moment.
struct Sample: Sendable {
    /// When they were asked for.
    let time: Instant
    /// What the server said.
    let statistics: Statistics

    /// Operations by name in the order of the page, with the counters that add up to each.
    static let operations: [(name: String, counters: [String])] = [
        ("get", ["get_hits", "get_misses"]),
        ("set", ["cmd_set"]),
        ("delete", ["delete_hits", "delete_misses"]),
        ("incr, decr", ["incr_hits", "incr_misses", "decr_hits", "decr_misses"]),
        ("touch", ["cmd_touch"]),
        ("flush", ["cmd_flush"]),
    ]

    /// The sum of those of `counters` that the server sends; nil if it sends none.
    func total(_ counters: [String]) -> Int? {
        let values = counters.compactMap { statistics.integer($0) }
        if values.isEmpty { return nil }
        // Wrapping, since a server's numbers are not to be trusted with our life.
        return values.reduce(0, &+)
    }

    /// Growth of `counters` per second: since `previous`, or on average since the server's start.
    ///
    /// Nil if that is unknown, as after a restart or a reset between two samples.
    func rate(_ counters: [String], since previous: Sample?) -> Double? {
        guard let now = total(counters) else { return nil }
        guard let previous else {
            guard let uptime = statistics.integer("uptime"), uptime > 0 else { return nil }
            return Double(now) / Double(uptime)
        }
        let milliseconds = time.milliseconds - previous.time.milliseconds
        guard let before = previous.total(counters), before <= now, milliseconds > 0 else { return nil }
        return Double(now &- before) * 1000 / Double(milliseconds)
    }

    /// The share (0...1) of gets that `counters` answered: since `previous` if gets were made since, else of all.
    func share(_ counters: [String], since previous: Sample?) -> Double? {
        let gets = ["get_hits", "get_misses"]
        guard let allGets = total(gets), let all = total(counters), allGets > 0 else { return nil }
        if let previous, let oldGets = previous.total(gets), let old = previous.total(counters), allGets > oldGets,
            all >= old
        {
            return Double(all &- old) / Double(allGets &- oldGets)
        }
        return Double(all) / Double(allGets)
    }

    /// All values as one JSON object, numbers as numbers.
    var json: String {
        var writer = JSONWriter()
        writer.beginObject()
        var seen: Set<String> = []
        // JSON objects with a name twice mean different things to different readers: the last one counts, as in
        // `Statistics`.
        for entry in statistics.entries where seen.insert(entry.name).inserted {
            writer.key(entry.name)
            writer.numberOrString(statistics[entry.name] ?? entry.value)
        }
        writer.endObject()
        return writer.text
    }

    /// All values, one per line, in aligned columns.
    var list: String {
        let width = statistics.entries.map(\.name.count).max() ?? 0
        return statistics.entries.map { "\($0.name.padded(to: width))  \($0.value)\n" }.joined()
    }
}
