// The metrics as OpenMetrics 1.0 text, which Prometheus and its libraries read.
//
// Source: https://github.com/prometheus/OpenMetrics, specification of 2020-11. Pure: a snapshot in, text out.

import Primitives

/// Writes OpenMetrics.
enum MetricsText {
    static let type = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    /// Buckets of the histogram end at these powers of two, in ns: 1 us to 69 s.
    private static let powers = 10...36

    /// The whole page.
    static func make(_ snapshot: MetricsSnapshot) -> String {
        var text = ""
        for metric in Metric.table {
            let values = metric.values(snapshot)
            if values.isEmpty { continue }
            let family = metric.name
            text += "# TYPE \(family) \(metric.kind.rawValue)\n"
            if !metric.unit.isEmpty { text += "# UNIT \(family) \(metric.unit)\n" }
            text += "# HELP \(family) \(metric.help)\n"
            let suffix =
                switch metric.kind {
                case .counter: "_total"
                case .gauge: ""
                case .info: "_info"
                }
            for value in values { text += "\(family)\(suffix)\(labels(value.labels)) \(number(value.value))\n" }
        }
        appendDurations(snapshot, &text)
        return text + "# EOF\n"
    }

    private static func appendDurations(_ snapshot: MetricsSnapshot, _ text: inout String) {
        let family = Metric.durationName
        text += "# TYPE \(family) histogram\n# UNIT \(family) seconds\n# HELP \(family) \(Metric.durationHelp)\n"
        for (kind, histogram) in zip(LatencyKind.allCases, snapshot.histograms) {
            let names = [("command", kind.command), ("outcome", kind.outcome)]
            for power in powers {
                let bound = number(Double(Int64(1) << power) / 1e9)
                let count = histogram.count(below: power)
                text += "\(family)_bucket\(labels(names + [("le", bound)])) \(count)\n"
            }
            text += "\(family)_bucket\(labels(names + [("le", "+Inf")])) \(histogram.count)\n"
            text += "\(family)_count\(labels(names)) \(histogram.count)\n"
            text += "\(family)_sum\(labels(names)) \(number(Double(histogram.nanoseconds) / 1e9))\n"
        }
    }

    private static func labels(_ labels: [(name: String, value: String)]) -> String {
        if labels.isEmpty { return "" }
        let list = labels.map { "\($0.name)=\"\(escaped($0.value))\"" }.joined(separator: ",")
        return "{\(list)}"
    }

    private static func escaped(_ value: String) -> String {
        value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }

    /// Whole numbers without a point.
    private static func number(_ value: Double) -> String {
        value.magnitude < 9e15 && value == value.rounded() ? "\(Int64(value))" : "\(value)"
    }
}
