// What `top` shows: a page of lines for a terminal of any size. Pure: samples in, lines out.

import CacheClient
import Primitives

/// The page, and what it remembers from one drawing to the next.
struct TopPage {
    private static let remembered = 500
    private static let blocks = Array(" ▁▂▃▄▅▆▇█")

    private let address: ServerAddress
    private let usesColor: Bool
    private var sample: Sample?
    private var previous: Sample?
    private var windows: Statistics?
    private var latency: Statistics?
    private var hot: Statistics?
    private var operations: [Double] = []
    private var ratios: [Double] = []
    private var trouble: String?

    init(address: ServerAddress, usesColor: Bool) {
        self.address = address
        self.usesColor = usesColor
    }

    /// Takes what the server says now.
    mutating func take(_ sample: Sample, windows: Statistics?, latency: Statistics?, hot: Statistics?) {
        previous = self.sample
        self.sample = sample
        self.windows = windows
        self.latency = latency
        self.hot = hot
        trouble = nil
        guard let previous else { return }
        let counters = Sample.operations.flatMap(\.counters)
        operations.append(sample.rate(counters, since: previous) ?? 0)
        ratios.append(sample.share(["get_hits"], since: previous) ?? 0)
        operations = operations.suffix(Self.remembered)
        ratios = ratios.suffix(Self.remembered)
    }

    /// The server did not answer.
    mutating func fail(_ reason: String) {
        trouble = reason
        previous = nil
    }

    /// The page for a terminal; no line is wider, and there are not more.
    func lines(width: Int, height: Int) -> [String] {
        guard let sample else { return ["no answer yet"] }
        var lines = [heading(sample), ""]
        lines += ratioLines
        lines += tierLines(sample)
        lines += rateLines(sample)
        lines += curves(width)
        lines += latencyLines
        let left = height - lines.count - 2
        if left > 2 { lines += hotLines(min(left, 20)) }
        return lines.prefix(max(1, height)).enumerated().map { index, line in
            let cut = String(line.prefix(width))
            return index == 0 && usesColor ? "\u{1B}[1;7m\(cut.padded(to: width))\u{1B}[0m" : cut
        }
    }

    private func heading(_ sample: Sample) -> String {
        if let trouble { return " \(address): \(trouble)" }
        let statistics = sample.statistics
        let uptime = statistics.integer("uptime").map { TimeSpan.seconds(Int64(clamping: $0 % 1_000_000_000)) }
        var text = " cache \(address)"
        if let uptime { text += "  up \(uptime.approximate)" }
        if let clients = statistics.integer("curr_connections") { text += "  \(grouped(clients)) clients" }
        if let disk = statistics["disk_state"] { text += "  disk \(disk)" }
        return text + "  q leaves"
    }

    private var ratioLines: [String] {
        guard let windows else { return [] }
        var lines: [String] = []
        for (window, title) in [("10s", "10 s"), ("5m", "5 min"), ("start", "start")] {
            guard let hits = windows.number("\(window):hit_ratio"),
                let memory = windows.number("\(window):memory_hit_ratio"),
                let disk = windows.number("\(window):disk_hit_ratio")
            else { continue }
            let label = lines.isEmpty ? "Hit ratio" : ""
            lines.append(
                label.padded(to: 11) + title.padded(to: 7) + Summary.bar(hits) + Summary.percent(hits).aligned(to: 8)
                    + "  memory " + Summary.percent(memory) + "  disk " + Summary.percent(disk))
        }
        return lines
    }

    private func tierLines(_ sample: Sample) -> [String] {
        let statistics = sample.statistics
        func line(_ label: String, _ used: String, _ limit: String, _ entries: String) -> String? {
            guard let bytes = statistics.integer(used), let most = statistics.integer(limit), most > 0 else {
                return nil
            }
            let share = Double(bytes) / Double(most)
            let count = statistics.integer(entries).map { "  \(grouped($0)) entries" } ?? ""
            return label.padded(to: 18) + Summary.bar(share) + Summary.percent(share).aligned(to: 8)
                + "  \(Summary.size(bytes)) of \(Summary.size(most))" + count
        }
        return [
            line("Memory", "memory_bytes", "memory_limit_bytes", "memory_entries")
                ?? line("Memory", "bytes", "limit_maxbytes", "curr_items"),
            line("Disk", "disk_bytes", "disk_limit_bytes", "disk_entries"),
            line("Journal", "journal_used_bytes", "journal_bytes", ""),
        ].compactMap { $0 }
    }

    private func rateLines(_ sample: Sample) -> [String] {
        func rate(_ counters: [String]) -> String {
            sample.rate(counters, since: previous).map { Summary.rate($0) } ?? "-"
        }
        func bytes(_ counter: String) -> String {
            sample.rate([counter], since: previous).map { Summary.bytes($0) + "/s" } ?? "-"
        }
        let operations = Sample.operations.prefix(3).map { "\($0.name) \(rate($0.counters))" }.joined(separator: "  ")
        return [
            "", "Per second".padded(to: 18) + operations,
            "Evictions".padded(to: 18) + "memory \(rate(["evictions"]))  disk \(rate(["disk_evictions"]))  "
                + "promotions \(rate(["promotions"]))",
            "Network".padded(to: 18) + "in \(bytes("bytes_read"))  out \(bytes("bytes_written"))",
        ]
    }

    private func curves(_ width: Int) -> [String] {
        let room = max(10, width - 30)
        let most = operations.suffix(room).max() ?? 0
        return [
            "Operations".padded(to: 18) + Self.curve(operations.suffix(room), most: most)
                + " \(Summary.rate(most)) max",
            "Hit ratio".padded(to: 18) + Self.curve(ratios.suffix(room), most: 1),
        ]
    }

    /// One character per value.
    static func curve(_ values: some Collection<Double>, most: Double) -> String {
        String(
            values.map { value in
                let share = most > 0 ? min(max(value / most, 0), 1) : 0
                return blocks[Int((share * Double(blocks.count - 1)).rounded())]
            })
    }

    private var latencyLines: [String] {
        guard let latency else { return [] }
        let kinds = [
            ("get memory hit", "get_memory_hit"), ("get disk hit", "get_disk_hit"), ("get miss", "get_miss"),
            ("set", "set_done"), ("change waited", "change_waited"),
        ]
        let rows = kinds.compactMap { title, kind -> String? in
            guard let count = latency.integer("\(kind):count") else { return nil }
            let times = ["p50", "p99", "p999"].map { name in
                (latency.number("\(kind):\(name)_us").map { Summary.microseconds($0) } ?? "-").aligned(to: 10)
            }
            return title.padded(to: 18) + grouped(count).aligned(to: 14) + times.joined()
        }
        if rows.isEmpty { return [] }
        let titles = ["count".aligned(to: 14), "p50".aligned(to: 10), "p99".aligned(to: 10), "p99.9".aligned(to: 10)]
        return ["", "Latency".padded(to: 18) + titles.joined()] + rows
    }

    private func hotLines(_ count: Int) -> [String] {
        guard let hot else { return [] }
        let keys = (1...max(1, count - 2)).compactMap { rank -> String? in
            guard let key = hot["\(rank):key"], let rate = hot.number("\(rank):per_second") else { return nil }
            return Summary.rate(rate).aligned(to: 16) + "  " + Listing.decoded(key).printable
        }
        return keys.isEmpty ? [] : ["", "Hot keys, requests per second"] + keys
    }
}
