// The page for people: what a server is, what it does, how full it is, and what is wrong with it, from top to bottom.
//
// Works with every memcached-compatible server: what a server does not tell is left out. The parts about tiers, disk
// and journal come from names that only ours sends.

import CacheClient
import Primitives

/// Draws the page of one sample.
struct Summary {
    let sample: Sample
    /// The sample before, which rates are measured from; nil gives averages since the server's start.
    let previous: Sample?
    let address: ServerAddress
    let usesColor: Bool
    /// `stats windows` and `stats latency`, from servers that have them.
    var windows: Statistics?
    var latency: Statistics?

    static let labelWidth = 13
    static let barWidth = 24

    /// The page, ending in a newline.
    var text: String {
        var lines = [title]
        lines += connections
        lines.append("")
        lines += operations
        lines.append("")
        lines += windows.map(windowRatios) ?? hitRatio
        lines += latency.map { [line("p99", Self.latencies($0))] } ?? []
        lines += memory
        lines += disk
        lines += journal
        lines += removals
        lines += troubles
        return lines.joined(separator: "\n") + "\n"
    }

    private var statistics: Statistics { sample.statistics }

    private var title: String {
        var parts = ["\(address)"]
        if let version = statistics["version"] { parts.append("version \(version)") }
        if let uptime = statistics.integer("uptime"), uptime >= 0, uptime < Int.max / 1000 {
            parts.append("up \(TimeSpan.seconds(Int64(uptime)).approximate)")
        }
        if let pid = statistics["pid"] { parts.append("pid \(pid)") }
        let text = parts.joined(separator: ", ")
        return usesColor ? "\u{1B}[1m\(text)\u{1B}[0m" : text
    }

    private var connections: [String] {
        guard let current = statistics.integer("curr_connections") else { return [] }
        var text = grouped(current)
        if let limit = statistics.integer("max_connections") { text += " of \(grouped(limit))" }
        if let total = statistics.integer("total_connections") { text += ", \(grouped(total)) since the start" }
        if let rejected = statistics.integer("rejected_connections"), rejected > 0 {
            text += ", \(grouped(rejected)) rejected"
        }
        if let threads = statistics.integer("threads") { text += "; \(threads) \(threads == 1 ? "thread" : "threads")" }
        return [line("Connections", text)]
    }

    private var operations: [String] {
        let heading = previous == nil ? "per second (mean)" : "per second"
        var lines = ["".padded(to: Self.labelWidth) + "total".aligned(to: 18) + heading.aligned(to: 20)]
        for (name, counters) in Sample.operations {
            // What nobody uses is left out, except for the two that every cache is about.
            guard let total = sample.total(counters), total > 0 || name == "get" || name == "set" else { continue }
            let rate = sample.rate(counters, since: previous).map { Self.rate($0) } ?? "-"
            lines.append(name.padded(to: Self.labelWidth) + grouped(total).aligned(to: 18) + rate.aligned(to: 20))
        }
        for (name, counter) in [("bytes in", "bytes_read"), ("bytes out", "bytes_written")] {
            guard let total = size(counter) else { continue }
            let rate = sample.rate([counter], since: previous).map { "\(Self.bytes($0))/s" } ?? "-"
            lines.append(name.padded(to: Self.labelWidth) + total.aligned(to: 18) + rate.aligned(to: 20))
        }
        return lines
    }

    private var hitRatio: [String] {
        guard let hits = sample.share(["get_hits"], since: previous) else { return [] }
        var text = Self.percent(hits)
        if let memory = sample.share(["memory_hits"], since: previous),
            let disk = sample.share(["disk_hits"], since: previous)
        {
            text += " (memory \(Self.percent(memory)), disk \(Self.percent(disk)))"
        }
        return [line("Hit ratio", bar(hits) + text)]
    }

    /// Hit ratios of the last seconds, of the last minutes, and since the start.
    private func windowRatios(_ windows: Statistics) -> [String] {
        var lines: [String] = []
        for (window, title) in [("10s", "last 10 s"), ("5m", "last 5 min"), ("start", "since start")] {
            guard let hits = windows.number("\(window):hit_ratio"),
                let memory = windows.number("\(window):memory_hit_ratio"),
                let disk = windows.number("\(window):disk_hit_ratio")
            else { continue }
            let parts = " (memory \(Self.percent(memory)), disk \(Self.percent(disk)))  \(title)"
            lines.append(line(lines.isEmpty ? "Hit ratio" : "", Self.bar(hits) + Self.percent(hits) + parts))
        }
        return lines.isEmpty ? hitRatio : lines
    }

    /// The 99th percentile of each kind of request, in one line.
    static func latencies(_ latency: Statistics) -> String {
        let kinds = [
            ("memory hit", "get_memory_hit"), ("disk hit", "get_disk_hit"), ("miss", "get_miss"), ("set", "set_done"),
        ]
        let parts = kinds.compactMap { title, kind in
            latency.number("\(kind):p99_us").map { "\(title) \(microseconds($0))" }
        }
        return parts.isEmpty ? "no requests yet" : parts.joined(separator: ", ")
    }

    /// A time given in us.
    static func microseconds(_ value: Double) -> String {
        if value < 1000 { return "\(fixed(value, places: value < 100 ? 1 : 0)) us" }
        if value < 1_000_000 { return "\(fixed(value / 1000, places: value < 100_000 ? 1 : 0)) ms" }
        return "\(fixed(value / 1_000_000, places: 2)) s"
    }

    private var memory: [String] {
        let used = statistics.integer("memory_bytes") ?? statistics.integer("bytes")
        let limit = statistics.integer("memory_limit_bytes") ?? statistics.integer("limit_maxbytes")
        let entries = statistics.integer("memory_entries") ?? statistics.integer("curr_items")
        return [line("Memory", fill(used, limit) + count(entries, "entries"))]
    }

    private var disk: [String] {
        guard let state = statistics["disk_state"] else { return [] }
        var lines = [line("Disk", "state \(state)")]
        guard let used = statistics.integer("disk_bytes") else { return lines }
        lines.append(line("", fill(used, statistics.integer("disk_limit_bytes")) + count("disk_entries", "entries")))
        var parts: [String] = []
        for (name, counter) in [
            ("values", "disk_value_bytes"), ("index", "disk_index_bytes"), ("log", "disk_wal_bytes"),
        ] {
            if let size = size(counter) { parts.append("\(name) \(size)") }
        }
        if let files = size("disk_file_bytes") { parts.append("files \(files)\(count("disk_file_entries", "files"))") }
        if !parts.isEmpty { lines.append(line("", parts.joined(separator: "; "))) }
        return lines
    }

    private var journal: [String] {
        guard let used = statistics.integer("journal_used_bytes") else { return [] }
        return [line("Journal", fill(used, statistics.integer("journal_bytes")) + " waiting")]
    }

    private var removals: [String] {
        let counters = [
            ("evicted", "evictions"), ("expired", "expirations"), ("promoted", "promotions"),
            ("evicted from disk", "disk_evictions"), ("expired on disk", "disk_expirations"),
        ]
        var parts: [String] = []
        for (name, counter) in counters {
            guard let total = statistics.integer(counter) else { continue }
            let rate = previous == nil ? nil : sample.rate([counter], since: previous)
            parts.append("\(name) \(grouped(total))" + (rate.map { " (\(Self.rate($0))/s)" } ?? ""))
        }
        if parts.isEmpty { return [] }
        return [line("Removals", parts.joined(separator: ", "))]
    }

    /// Counters that ought to be zero, if they are not.
    private var troubles: [String] {
        let counters = [
            ("disk write errors", "disk_write_errors"), ("disk read errors", "disk_read_errors"),
            ("stores quarantined", "disk_quarantines"),
            ("refused, value too large", "store_too_large"), ("refused, no memory", "store_no_memory"),
            ("accepting paused", "listen_disabled_num"), ("out of memory", "malloc_fails"),
        ]
        var parts = counters.compactMap { name, counter in
            statistics.integer(counter).flatMap { $0 > 0 ? "\(name): \(grouped($0))" : nil }
        }
        if let error = statistics["disk_last_error"], !error.isEmpty { parts.append("last disk error: \(error)") }
        if let options = statistics["needs_restart"], options != "none" { parts.append("needs a restart: \(options)") }
        if parts.isEmpty { return [] }
        let text = line("Troubles", parts.joined(separator: ", "))
        return [usesColor ? "\u{1B}[31m\(text)\u{1B}[0m" : text]
    }

    private func line(_ label: String, _ text: String) -> String { label.padded(to: Self.labelWidth) + text }

    private func count(_ counter: String, _ noun: String) -> String { count(statistics.integer(counter), noun) }

    private func count(_ number: Int?, _ noun: String) -> String { number.map { ", \(grouped($0)) \(noun)" } ?? "" }

    private func size(_ counter: String) -> String? { statistics.integer(counter).map { Self.size($0) } }

    /// A bar and `USED of LIMIT`; without a limit just the used part.
    private func fill(_ used: Int?, _ limit: Int?) -> String {
        guard let used else { return "unknown" }
        guard let limit, limit > 0 else { return "\(Self.size(used)), no limit" }
        let share = Double(used) / Double(limit)
        return bar(share) + "\(Self.size(used)) of \(Self.size(limit)) (\(Self.percent(share)))"
    }

    private func bar(_ share: Double) -> String { Self.bar(share) }

    /// A share as a bar.
    static func bar(_ share: Double, width: Int = barWidth) -> String {
        let full = Int((min(max(share, 0), 1) * Double(width)).rounded())
        return "[" + String(repeating: "#", count: full) + String(repeating: ".", count: width - full) + "] "
    }

    static func size(_ bytes: Int) -> String { bytes < 0 ? "\(bytes) B" : ByteSize(bytes: bytes).approximate }

    static func bytes(_ rate: Double) -> String { size(Int(min(max(rate, 0), 9e18))) }

    static func percent(_ share: Double) -> String { "\(fixed(share * 100, places: 2)) %" }

    /// Small rates keep their decimals: one operation per minute is not none.
    static func rate(_ value: Double) -> String {
        value < 100 ? fixed(value, places: 2) : grouped(Int(min(value, 9e18)))
    }
}
