// docs/SECURITY.md held to the tests: whatever it names as proof exists, and each cause that broke others has one.
//
// Tables are read as text. `run X` is a suite of Tests/Conformance/run, `XTests` a suite of `swift test`, `make fuzz`
// with a name in parentheses a target of Tests/Fuzz; the reports that `run cves` answers for are in its checks' names.

/// The checks between docs/SECURITY.md and the tests.
enum SecurityRules {
    static let document = "docs/SECURITY.md"
    static let causesHeading = "## What broke others"
    private static let runner = "Tests/Conformance/run"
    private static let reports = "Tests/Conformance/cves.py"

    /// Every proof that is named and missing, and every cause without one.
    static func check(_ tree: SourceTree) -> [Violation] {
        guard let file = tree.file(document) else { return [] }
        var found: [Violation] = []
        var heading = ""
        for (index, line) in file.lines.enumerated() {
            if line.hasPrefix("## ") { heading = String(line) }
            guard line.hasPrefix("|"), !line.hasPrefix("|---") else { continue }
            func report(_ advice: String) {
                found.append(Violation(path: document, line: index + 1, rule: "proof", advice: advice))
            }
            for name in missing(in: String(line), tree) { report("there is no \(name)") }
            guard heading == causesHeading, !line.hasPrefix("| Record") else { continue }
            let cells = line.split(separator: "|", omittingEmptySubsequences: false).map { $0.trimmed }
            guard cells.count == 6, !cells[3].isEmpty, !cells[4].isEmpty else {
                report("each cause has a check and a test")
                continue
            }
            if names(in: cells[4]).contains("run cves"), !isCovered(cells[1], tree) {
                report("no check of \(reports) names one of \(cells[1])")
            }
        }
        return found
    }

    /// What stands between backticks.
    private static func names(in text: String) -> [String] {
        text.matches(of: /`([^`]+)`/).flatMap { match -> [String] in
            let words = match.1.split(separator: " ").map(String.init)
            return words.first == "run" ? words.dropFirst().map { "run " + $0 } : [String(match.1)]
        }
    }

    private static func missing(in line: String, _ tree: SourceTree) -> [String] {
        let suites = tree.file(runner)?.text ?? ""
        var missing = names(in: line).filter { name in
            if name.hasPrefix("run ") { return !suites.contains("\"\(name.dropFirst(4))\": ") }
            guard name.hasSuffix("Tests"), !name.contains("/") else { return false }
            return !tree.files.contains { $0.isSwift && $0.text.contains("struct \(name)") }
        }
        for match in line.matches(of: /`make fuzz` \(`(\w+)`\)/)
        where tree.file("Tests/Fuzz/Targets/\(match.1).swift") == nil {
            missing.append("fuzz target \(match.1)")
        }
        return missing
    }

    /// Whether a check of the reports' suite names one of the numbers in `records`.
    private static func isCovered(_ records: String, _ tree: SourceTree) -> Bool {
        let checks = (tree.file(reports)?.text ?? "").matches(of: /\(\n? *"([^"]+: [^"]+)", \w+\)/).map { $0.1 }
        return records.matches(of: /\d{4}-\d{4,}/).contains { number in checks.contains { $0.contains(number.0) } }
    }
}

extension Substring {
    fileprivate var trimmed: String { String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()) }
}
