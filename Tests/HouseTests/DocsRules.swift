// Documents held to the code: what they must mention, and what they mention that must exist.
//
// Tables are read from the sources as text. Rules that need a module begin to check when it has content; in a tree
// without placeholders, an absent table or document is itself a violation.

/// The checks between documents and code.
enum DocsRules {
    static let optionFolder = "Sources/CacheDaemon/Options"
    static let commandTable = "Sources/Protocol/Command.swift"
    static let lifeStepsMin = 8

    /// Documents that the finished tree has.
    static let required = [
        "README.md", "CHANGELOG.md", "config/cache-daemon.conf", "systemd/cache-daemon.service",
        "docs/ADDING_A_COMMAND.md", "docs/ARCHITECTURE.md",
        "docs/CONTRIBUTING.md", "docs/DISK_FORMAT.md", "docs/LIFE_OF_A_REQUEST.md", "docs/OPERATIONS.md",
        "docs/PROTOCOL.md", "docs/STYLE.md",
    ]

    /// Every disagreement between documents and code in `tree`.
    static func check(_ tree: SourceTree) -> [Violation] {
        presence(tree) + options(tree) + commands(tree) + lifeOfARequest(tree)
            + tree.files.filter(\.isMarkdown).flatMap { links($0, tree) }
    }

    private static func presence(_ tree: SourceTree) -> [Violation] {
        if tree.isUnderConstruction { return [] }
        return required.filter { tree.file($0) == nil }.map {
            Violation(path: $0, line: 0, rule: "document", advice: "write it")
        }
    }

    // MARK: Options

    /// One row of the option table, as far as the documents must know it.
    private struct OptionRow {
        let name: String
        let flag: String?
    }

    private static func optionRows(_ tree: SourceTree) -> [OptionRow] {
        let row = /\.option\(\s*"([a-z_.]+)"(?:,\s*flag:\s*(?:"([a-z-]+)"|nil))?/
        return tree.files.filter { $0.isUnder(optionFolder) && $0.isSwift }.flatMap { file in
            file.text.matches(of: row).map { OptionRow(name: String($0.1), flag: $0.2.map(String.init)) }
        }
    }

    /// Every option stands in the sample configuration under its section, and in the operations manual.
    private static func options(_ tree: SourceTree) -> [Violation] {
        let rows = optionRows(tree)
        if rows.isEmpty {
            if tree.isUnderConstruction { return [] }
            return [Violation(path: optionFolder, line: 0, rule: "option", advice: "no option table found here")]
        }
        let known = configuredNames(tree)
        let manual = (tree.file("docs/OPERATIONS.md")?.text ?? "") + (tree.file("README.md")?.text ?? "")
        let flags = Set(manual.matches(of: /--([a-z-]+)/).map { String($0.1) })
        return rows.flatMap { row -> [Violation] in
            var found: [Violation] = []
            if !known.contains(row.name) {
                found.append(
                    Violation(
                        path: "config/cache-daemon.conf", line: 0, rule: "option",
                        advice: "\(row.name) is missing: regenerate with cache-daemon --print-config"))
            }
            if !manual.contains("`\(row.name)`") {
                found.append(
                    Violation(
                        path: "docs/OPERATIONS.md", line: 0, rule: "option", advice: "explain `\(row.name)`"))
            }
            if let flag = row.flag, !flags.contains(flag) {
                found.append(
                    Violation(path: "docs/OPERATIONS.md", line: 0, rule: "option", advice: "mention --\(flag)"))
            }
            return found
        }
    }

    /// `section.key` of every line of the sample configuration, commented out or not.
    private static func configuredNames(_ tree: SourceTree) -> Set<String> {
        var section = ""
        var names: Set<String> = []
        for line in tree.file("config/cache-daemon.conf")?.lines ?? [] {
            if let header = line.firstMatch(of: /^\[(\w+)\]/) { section = header.1 + "." }
            if let key = line.firstMatch(of: /^[#;]?(\w+) =/) { names.insert(section + key.1) }
        }
        return names
    }

    // MARK: Commands

    /// Every command of the command table is shown in the protocol document: in code or in a sample session.
    private static func commands(_ tree: SourceTree) -> [Violation] {
        let table = tree.file(commandTable)?.text ?? ""
        let row = /case \.\w+:\s*\.(?:init|quietable)\(\s*"([a-z_]+)"/
        let names = table.matches(of: row).map { String($0.1) }
        if names.isEmpty {
            if tree.isUnderConstruction { return [] }
            return [Violation(path: commandTable, line: 0, rule: "command", advice: "no command table found here")]
        }
        guard let document = tree.file("docs/PROTOCOL.md") else {
            return [Violation(path: "docs/PROTOCOL.md", line: 0, rule: "command", advice: "write it")]
        }
        let shown = Set(document.text.matches(of: /(?:`|> )([a-z_]+)(?:`|\s)/).map { String($0.1) })
        return names.filter { !shown.contains($0) }.map {
            Violation(path: document.path, line: 0, rule: "command", advice: "document `\($0)`")
        }
    }

    // MARK: The life of a request

    /// Each `File.swift:function` of the document exists in Sources.
    private static func lifeOfARequest(_ tree: SourceTree) -> [Violation] {
        guard let document = tree.file("docs/LIFE_OF_A_REQUEST.md") else { return [] }
        var found: [Violation] = []
        var stepCount = 0
        for (index, line) in document.lines.enumerated() {
            for step in line.matches(of: /`([\w\/+]+\.swift):(\w+)`/) {
                stepCount += 1
                let files = tree.productFiles.filter { $0.path.hasSuffix("/" + step.1) }
                let declares = files.contains { file in
                    SwiftCode.functions(file.codeLines).contains { $0.name == step.2 }
                }
                if declares { continue }
                let problem = files.isEmpty ? "no file \(step.1) in Sources" : "\(step.1) has no function \(step.2)"
                found.append(Violation(path: document.path, line: index + 1, rule: "step", advice: problem))
            }
        }
        if stepCount < lifeStepsMin {
            found.append(
                Violation(
                    path: document.path, line: 0, rule: "step",
                    advice: "\(stepCount) steps of the form `File.swift:function`; expected \(lifeStepsMin) or more"))
        }
        return found
    }

    // MARK: Links

    /// Every relative link of a document leads to a file of the tree, and to a heading of it where it names one.
    private static func links(_ file: SourceFile, _ tree: SourceTree) -> [Violation] {
        var found: [Violation] = []
        var isFenced = false
        for (index, line) in file.lines.enumerated() {
            if line.hasPrefix("```") { isFenced.toggle() }
            if isFenced { continue }
            for link in line.matches(of: /\]\(([^)\s]+)\)/) {
                let target = String(link.1)
                if target.contains("://") || target.hasPrefix("mailto:") { continue }
                if let problem = problem(of: target, in: file, tree) {
                    found.append(Violation(path: file.path, line: index + 1, rule: "link", advice: problem))
                }
            }
        }
        return found
    }

    private static func problem(of target: String, in file: SourceFile, _ tree: SourceTree) -> String? {
        let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        var path = file.path
        if let first = parts.first, !first.isEmpty {
            guard let resolved = resolve(first, from: file.path) else { return "\(target) leaves the tree" }
            if !tree.paths.contains(resolved) {
                return tree.isUnderConstruction && required.contains(resolved) ? nil : "\(target) does not exist"
            }
            path = resolved
        }
        guard parts.count == 2, path.hasSuffix(".md") else { return nil }
        return anchors(tree.file(path)).contains(String(parts[1])) ? nil : "\(path) has no heading #\(parts[1])"
    }

    /// `target` as a path from the root; nil if it leaves the tree.
    private static func resolve(_ target: Substring, from path: String) -> String? {
        var parts = path.split(separator: "/").dropLast().map(String.init)
        for part in target.split(separator: "/") {
            if part == ".." {
                if parts.popLast() == nil { return nil }
            } else if part != "." {
                parts.append(String(part))
            }
        }
        return parts.joined(separator: "/")
    }

    /// Heading anchors as code forges make them: lower case, punctuation dropped, spaces to hyphens.
    private static func anchors(_ file: SourceFile?) -> Set<String> {
        Set(
            (file?.lines ?? []).compactMap { line in
                guard let heading = line.firstMatch(of: /^#+ (.+)$/) else { return nil }
                return String(
                    heading.1.lowercased().compactMap { character in
                        if character == " " { return "-" }
                        return character.isLetter || character.isNumber || "-_".contains(character) ? character : nil
                    })
            })
    }
}
