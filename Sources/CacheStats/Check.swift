// `check`: one line and an exit code, as Nagios and its kin want them.
//
// CRITICAL: no answer, the disk tier is not ok, or the hit ratio is below its bound. WARNING: some requests are slow,
// connections are refused, or the disk tier has had errors. UNKNOWN: the server does not tell what is asked for.

import CacheClient
import Primitives

/// A check for monitoring.
struct Check {
    /// How bad it is; also the exit code.
    enum Verdict: Int32, Comparable {
        case ok = 0
        case warning = 1
        case critical = 2
        case unknown = 3

        /// What is known to be bad is worse than what is not known.
        private var badness: Int32 { self == .critical ? 4 : rawValue }

        static func < (left: Verdict, right: Verdict) -> Bool { left.badness < right.badness }
    }

    let settings: StatsSettings

    /// Asks once, prints the line, returns the exit code.
    func run(_ source: Source) -> Int32 {
        let verdict: Verdict
        let text: String
        do throws(ClientError) {
            let statistics = try source.connected().stats()
            (verdict, text) = judge(
                statistics, windows: try source.optional("windows"), latency: try source.optional("latency"))
        } catch {
            (verdict, text) = (.critical, "\(error)")
        }
        let word = "\(verdict)".uppercased()
        if settings.json {
            var writer = JSONWriter()
            writer.beginObject()
            writer.key("verdict")
            writer.string(word)
            writer.key("text")
            writer.string(text)
            writer.endObject()
            StandardStream.output.write(writer.text + "\n")
        } else {
            StandardStream.output.write("CACHE \(word) - \(text)\n")
        }
        return verdict.rawValue
    }

    /// The verdict with its reasons, and figures after a bar for those who draw them.
    func judge(_ statistics: Statistics, windows: Statistics?, latency: Statistics?) -> (Verdict, String) {
        var verdict = Verdict.ok
        var reasons: [String] = []
        func note(_ level: Verdict, _ reason: String) {
            verdict = max(verdict, level)
            reasons.append(reason)
        }
        if let state = statistics["disk_state"], state != "ok", state != "off" { note(.critical, "disk tier \(state)") }
        for (name, title) in [
            ("disk_read_errors", "disk read errors"), ("disk_write_errors", "disk write errors"),
            ("rejected_connections", "connections refused"),
        ] {
            if let count = statistics.integer(name), count > 0 { note(.warning, "\(count) \(title)") }
        }
        let ratio = windows?.number("5m:hit_ratio")
        if let wanted = settings.hitRatioMin {
            if let ratio, ratio < wanted {
                note(.critical, "hit ratio \(Summary.percent(ratio)) below \(Summary.percent(wanted))")
            } else if windows == nil {
                note(.unknown, "the server does not tell the hit ratio of the last minutes")
            }
        }
        let worst = slowest(latency)
        if let wanted = settings.latencyMax {
            if let worst, worst.microseconds > Double(wanted.milliseconds) * 1000 {
                note(.warning, "p99 of \(worst.kind) \(Summary.microseconds(worst.microseconds)) above \(wanted)")
            } else if latency == nil {
                note(.unknown, "the server does not tell request times")
            }
        }
        var figures: [String] = []
        if let ratio { figures.append("hit_ratio=\(fixed(ratio * 100, places: 2))%") }
        if let worst { figures.append("p99=\(fixed(worst.microseconds, places: 0))us") }
        let text = reasons.isEmpty ? "all is well" : reasons.joined(separator: ", ")
        return (verdict, figures.isEmpty ? text : "\(text) | \(figures.joined(separator: " "))")
    }

    /// The kind of request with the highest 99th percentile, reads from disk and waits for it left out where there are
    /// others: a disk is slow by nature.
    private func slowest(_ latency: Statistics?) -> (kind: String, microseconds: Double)? {
        guard let latency else { return nil }
        let kinds = ["get_memory_hit", "get_miss", "get_disk_hit", "set_done"]
        let times = kinds.compactMap { kind in latency.number("\(kind):p99_us").map { (kind, $0) } }
        return times.max { $0.1 < $1.1 }
    }
}
