// docs/METRICS.md, made from the table of metrics: `cache-daemon --generate metrics`.

/// Writes the manual of the metrics.
enum MetricsManual {
    /// The document, in Markdown.
    static let text: String = {
        var text = """
            # Metrics

            What `/metrics` of the admin port says, in OpenMetrics. Made by `cache-daemon --generate metrics`. Counters
            have `_total` after their name, the one of kind `info` has `_info`; they count since the start, whatever
            `stats reset` did. Metrics of the disk tier are absent where there is none.

            | Name | Kind | Unit | Labels | Meaning |
            |---|---|---|---|---|

            """
        for metric in Metric.table {
            text += row(metric.name, metric.kind.rawValue, metric.unit, labels(metric), metric.help)
        }
        text += row(
            Metric.durationName, "histogram", "seconds", "`command`, `outcome`", Metric.durationHelp)
        text += "\nThe histogram's labels are:\n\n| `command` | `outcome` | Which requests |\n|---|---|---|\n"
        for kind in LatencyKind.allCases { text += "| `\(kind.command)` | `\(kind.outcome)` | \(kind.meaning) |\n" }
        return text
    }()

    private static func row(
        _ name: String, _ kind: String, _ unit: String, _ labels: String, _ help: String
    ) -> String {
        "| `\(name)` | \(kind) | \(unit) | \(labels) | \(help) |\n"
    }

    private static func labels(_ metric: Metric) -> String {
        let values = metric.values(MetricsSnapshot.sample)
        guard let name = values.first?.labels.first?.name else { return "" }
        if metric.kind == .info { return "`\(name)`" }
        return "`\(name)`: \(values.compactMap { $0.labels.first?.value }.joined(separator: ", "))"
    }
}

extension LatencyKind {
    /// Which requests are of this kind, in words.
    var meaning: String {
        switch self {
        case .getMemory: "keys that memory, or the journal, had"
        case .getDisk: "keys that had to be read from disk"
        case .getMiss: "keys that memory knew to be in neither tier"
        case .getDiskMiss: "keys that the disk was asked for in vain"
        case .set: "stores, conditional ones and `ms` included"
        case .delete: "deletions"
        case .arithmetic: "increments and decrements"
        case .touch: "touches, and `gat` of keys in memory"
        case .changeDisk: "waits of changes: for the entry on disk, for a value's file, for room in the journal"
        }
    }
}
