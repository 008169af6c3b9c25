// Results as a table for people, or as one JSON object for programs. All times in it are microseconds unless named.

import CacheClient
import Primitives

/// All that a run has to say.
struct BenchReport: Sendable {
    let settings: BenchSettings
    /// What the server calls itself.
    let serverVersion: String
    /// Nil if keys were not warmed.
    let warm: PhaseResult?
    let load: PhaseResult

    private static let quantiles: [(name: String, fraction: Double)] = [
        ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999),
    ]

    /// Replies that no correct server gives, warming included.
    var wrong: Int { load.tally.wrong + (warm?.tally.wrong ?? 0) }

    /// Connections that were down at the end.
    var unreachable: Int { load.unreachable + (warm?.unreachable ?? 0) }

    /// The text for people.
    var text: String {
        var text = "\(settings.address), version \(serverVersion)\n\(conditions)\n"
        if let warm {
            text += "warmed \(grouped(warm.tally.sets)) keys in \(fixed(warm.seconds, places: 2)) s,"
            text += " \(grouped(Int(warm.rate))) sets/s\n"
        }
        text += "\n" + header
        text += row("get", load.tally.gets, load.getLatency)
        text += row("set", load.tally.sets, load.setLatency)
        text += row("total", load.tally.operations, load.latency)
        return text + "\n" + counts
    }

    private var conditions: String {
        let shape = [
            "connections \(settings.connections)", "threads \(settings.threads)", "pipeline \(settings.pipeline)",
            "set:get \(settings.setShare):\(settings.getShare)",
            "\(grouped(settings.keys)) keys of \(settings.keyBytes) bytes", "values of \(settings.valueSizes) bytes",
            "\(settings.distribution)", "seed \(settings.seed)",
        ]
        let rate = settings.rate.map { ", \(grouped(Int($0))) operations/s wanted" } ?? ""
        return shape.joined(separator: ", ") + rate + (settings.verify ? "" : ", values not checked")
    }

    private var header: String {
        let names = ["operations", "per second"] + Self.quantiles.map(\.name) + ["max"]
        let widths = [15, 12] + Array(repeating: 10, count: names.count - 2)
        return "     " + zip(names, widths).map { $0.aligned(to: $1) }.joined() + "\n"
    }

    private func row(_ name: String, _ operations: Int, _ latency: Histogram) -> String {
        let rate = load.seconds > 0 ? Double(operations) / load.seconds : 0
        let times = Self.quantiles.map { latency.quantile($0.fraction) } + [latency.max]
        return name.padded(to: 5) + grouped(operations).aligned(to: 15) + grouped(Int(rate)).aligned(to: 12)
            + times.map { Self.time($0).aligned(to: 10) }.joined() + "\n"
    }

    private var counts: String {
        let tally = load.tally
        let ratio = tally.gets > 0 ? fixed(Double(tally.hits) * 100 / Double(tally.gets), places: 2) : "-"
        var text = "hits \(grouped(tally.hits)) (\(ratio) %), misses \(grouped(tally.misses))"
        text += ", refused \(grouped(tally.refused)), lost \(grouped(tally.lost))"
        text += ", disconnects \(grouped(tally.disconnects))\n"
        text += "sent \(ByteSize(bytes: tally.bytesSent).approximate)"
        text += ", received \(ByteSize(bytes: tally.bytesReceived).approximate)"
        text += " in \(fixed(load.seconds, places: 2)) s\n"
        let perOperation = tally.operations > 0 ? load.ownSeconds * 1e6 / Double(tally.operations) : 0
        let share = load.seconds > 0 ? load.ownSeconds * 100 / load.seconds : 0
        text += "own CPU \(fixed(perOperation, places: 2)) us per operation, \(fixed(share, places: 0)) % of one core\n"
        if tally.earlier > 0 { text += "\(grouped(tally.earlier)) hits were values of an earlier run, intact\n" }
        let warmTally = warm?.tally ?? Tally()
        if wrong > 0 {
            text += "WRONG: \(grouped(wrong)) replies: foreign \(tally.foreign), torn \(tally.torn)"
            text += ", stale \(tally.stale), malformed \(tally.malformed + warmTally.malformed)\n"
        }
        for remark in (warmTally.remarks + tally.remarks).prefix(5) { text += "  \(remark)\n" }
        return text
    }

    private static func time(_ nanoseconds: UInt64) -> String {
        switch nanoseconds {
        case ..<10_000: "\(fixed(Double(nanoseconds) / 1e3, places: 2)) us"
        case ..<10_000_000: "\(grouped(Int(nanoseconds / 1000))) us"
        default: "\(fixed(Double(nanoseconds) / 1e6, places: 1)) ms"
        }
    }

    /// One JSON object in one line.
    var json: String {
        var writer = JSONWriter()
        writer.beginObject()
        writer.key("program")
        writer.string("cache-bench \(productVersion)")
        writer.key("server")
        writer.string(serverVersion)
        writer.key("settings")
        write(settings, to: &writer)
        if let warm {
            writer.key("warm")
            write(warm, to: &writer)
        }
        writer.key("load")
        write(load, to: &writer)
        writer.key("wrong")
        writer.integer(wrong)
        writer.endObject()
        return writer.text
    }

    private func write(_ settings: BenchSettings, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("address", settings.address.description)
        writer.field("connections", settings.connections)
        writer.field("threads", settings.threads)
        writer.field("pipeline", settings.pipeline)
        writer.field("ratio", "\(settings.setShare):\(settings.getShare)")
        writer.field("keys", settings.keys)
        writer.field("key_prefix", settings.keyPrefix)
        writer.field("key_size", settings.keyBytes)
        writer.field("value_size", settings.valueSizes.description)
        writer.field("distribution", settings.distribution.description)
        switch settings.length {
        case .seconds(let seconds): writer.field("seconds", seconds)
        case .operations(let operations): writer.field("operations", operations)
        }
        if let rate = settings.rate { writer.field("rate", rate) }
        writer.field("ttl_seconds", settings.ttlSeconds)
        writer.field("seed", Int(clamping: settings.seed))
        writer.key("verify")
        writer.boolean(settings.verify)
        writer.endObject()
    }

    private func write(_ phase: PhaseResult, to writer: inout JSONWriter) {
        let tally = phase.tally
        writer.beginObject()
        writer.field("seconds", phase.seconds)
        writer.field("operations", tally.operations)
        writer.field("operations_per_second", phase.rate)
        let counts: [(String, Int)] = [
            ("gets", tally.gets), ("hits", tally.hits), ("misses", tally.misses), ("sets", tally.sets),
            ("refused", tally.refused), ("lost", tally.lost), ("disconnects", tally.disconnects),
            ("foreign", tally.foreign), ("torn", tally.torn), ("stale", tally.stale), ("malformed", tally.malformed),
            ("earlier_run", tally.earlier), ("bytes_sent", tally.bytesSent), ("bytes_received", tally.bytesReceived),
        ]
        for (name, count) in counts { writer.field(name, count) }
        writer.field("own_cpu_seconds", phase.ownSeconds)
        writer.key("latency_us")
        writer.beginObject()
        for (name, histogram) in [("all", phase.latency), ("get", phase.getLatency), ("set", phase.setLatency)] {
            writer.key(name)
            write(histogram, to: &writer)
        }
        writer.endObject()
        writer.key("remarks")
        writer.beginArray()
        for remark in tally.remarks { writer.string(remark) }
        writer.endArray()
        writer.endObject()
    }

    private func write(_ histogram: Histogram, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("count", Int(clamping: histogram.count))
        writer.field("mean", histogram.mean / 1e3)
        for (name, fraction) in Self.quantiles { writer.field(name, Double(histogram.quantile(fraction)) / 1e3) }
        writer.field("max", Double(histogram.max) / 1e3)
        writer.endObject()
    }
}

extension JSONWriter {
    fileprivate mutating func field(_ name: String, _ value: String) {
        key(name)
        string(value)
    }

    fileprivate mutating func field(_ name: String, _ value: Int) {
        key(name)
        integer(value)
    }

    fileprivate mutating func field(_ name: String, _ value: Double) {
        key(name)
        number(value)
    }
}
