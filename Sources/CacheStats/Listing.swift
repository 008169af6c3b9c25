// The views that are lists: histograms, hot keys, big entries, slow requests, one entry, options.
//
// The server sends `<rank or kind>:<field>` per line; here they become rows again. Keys are decoded for people, with
// what a terminal must not get escaped.

import CacheClient
import Primitives

/// One sample as a list.
struct Listing {
    private let view: StatsView
    private let sample: Sample

    init(_ view: StatsView, _ sample: Sample) {
        self.view = view
        self.sample = sample
    }

    /// Lines in columns.
    var text: String {
        switch view {
        case .hist: histograms
        case .hot: table([("key", "Key"), ("per_second", "Requests/s"), ("error", "Of them unsure")])
        case .big: table([("key", "Key"), ("bytes", "Bytes"), ("stored", "Stored (Unix time)")])
        case .slow:
            "\(sample.statistics["slow_total"] ?? "0") slow requests since the start, of at least "
                + "\(sample.statistics.number("slow_threshold_us").map(Summary.microseconds) ?? "?")\n"
                + table([
                    ("took_us", "Took"), ("place", "Where"), ("command", "Command"), ("requests", "Requests"),
                    ("conn", "Connection"), ("time_ms", "Time (Unix ms)"), ("key", "Key"),
                ])
        default: sample.list
        }
    }

    /// Lists as arrays of objects, everything else as one object.
    var json: String {
        guard [.hot, .big, .slow, .hist].contains(view) else { return sample.json }
        var writer = JSONWriter()
        writer.beginArray()
        for row in rows {
            writer.beginObject()
            if view == .hist {
                writer.key("kind")
                writer.string(row.name)
            }
            for (field, value) in row.fields {
                writer.key(field)
                // A key of digits is a key all the same.
                if field == "key" { writer.string(Self.decoded(value)) } else { writer.numberOrString(value) }
            }
            writer.endObject()
        }
        writer.endArray()
        return writer.text
    }

    // MARK: Rows

    private struct Row {
        let name: String
        var fields: [(name: String, value: String)] = []

        subscript(field: String) -> String? { fields.first { $0.name == field }?.value }
    }

    private var rows: [Row] {
        var rows: [Row] = []
        for entry in sample.statistics.entries {
            let parts = entry.name.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { continue }
            if rows.last.map({ $0.name != parts[0] }) ?? true { rows.append(Row(name: String(parts[0]))) }
            rows[rows.count - 1].fields.append((String(parts[1]), entry.value))
        }
        return rows
    }

    private func table(_ columns: [(field: String, title: String)]) -> String {
        let rows = rows
        if rows.isEmpty { return "none\n" }
        var lines = [columns.map(\.title)]
        for row in rows { lines.append(columns.map { cell($0.field, row) }) }
        let widths = columns.indices.map { column in lines.map { $0[column].count }.max() ?? 0 }
        return lines.map { line in
            let cells = line.enumerated().map { $1.padded(to: widths[$0]) }
            return String(cells.joined(separator: "  ").reversed().drop { $0 == " " }.reversed()) + "\n"
        }.joined()
    }

    private func cell(_ field: String, _ row: Row) -> String {
        guard let value = row[field] else { return "" }
        switch field {
        case "key": return Self.decoded(value).printable
        case "took_us": return Double(value).map(Summary.microseconds) ?? value
        case "bytes": return Int(value).map { grouped($0) } ?? value
        case "per_second", "error": return Double(value).map { fixed($0, places: 1) } ?? value
        default: return value
        }
    }

    // MARK: Histograms

    /// Per kind, a line for each power of two with a bar.
    private var histograms: String {
        let rows = rows
        if rows.isEmpty { return "no requests yet\n" }
        return rows.map { row in
            let times = ["p50", "p99", "p999"].compactMap { name in
                row["\(name)_us"].flatMap { Double($0) }.map { "\(name) \(Summary.microseconds($0))" }
            }
            let title = row.name.replacing("_", with: " ")
            let count = row["count"].flatMap { Int($0) } ?? 0
            return "\(title): \(grouped(count)) requests, \(times.joined(separator: ", "))\n" + bars(row)
        }.joined(separator: "\n")
    }

    private func bars(_ row: Row) -> String {
        var octaves: [(end: Int, count: Int)] = []
        for pair in (row["buckets_ns"] ?? "").split(separator: ",") {
            let parts = pair.split(separator: ":")
            guard parts.count == 2, let count = Int(parts[1]) else { continue }
            let end = Int(parts[0]) ?? Int.max
            // Quarters of a power of two are shown together.
            let octave = end == .max ? end : 1 << (Int.bitWidth - max(end - 1, 1).leadingZeroBitCount)
            if octaves.last?.end == octave {
                octaves[octaves.count - 1].count += count
            } else {
                octaves.append((octave, count))
            }
        }
        let most = octaves.map(\.count).max() ?? 1
        let total = max(1, octaves.map(\.count).reduce(0, +))
        return octaves.map { octave in
            let limit = octave.end == .max ? "more" : "< " + Summary.microseconds(Double(octave.end) / 1000)
            let full = max(1, octave.count * 50 / max(1, most))
            let share = Summary.percent(Double(octave.count) / Double(total))
            return "  \(limit.aligned(to: 10))  \(String(repeating: "#", count: full)) \(share)\n"
        }.joined()
    }

    // MARK: Keys

    /// A key as it was before URI encoding.
    static func decoded(_ text: String) -> String {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), rest.count >= 2,
                let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
            {
                bytes.append(value)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
