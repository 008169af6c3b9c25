// The house rules that a machine can check, each with its replacement. docs/STYLE.md says them in prose.

/// All tidy rules; each takes a tree and returns what breaks it.
enum TidyRules {
    static let columnsMax = 120
    static let fileLinesMax = 500
    static let functionLinesMax = 70

    /// Everything that is wrong with `tree`.
    static func check(_ tree: SourceTree) -> [Violation] {
        var found = membership(tree) + forgottenPlaceholders(tree)
        for file in tree.files {
            found += layout(file)
            found += words(file)
            if file.isMarkdown { found += titles(file) }
        }
        for file in tree.productFiles {
            found += header(file)
            found += sizes(file)
            found += bans(file)
            found += safety(file)
            found += names(file)
        }
        return found
    }

    // MARK: Layout

    /// Files whose layout is ours to decide.
    ///
    /// Scripts and prose are in; corpora and sample sessions are not.
    private static let laidOut = [
        ".swift", ".md", ".h", ".modulemap", ".py", ".sh", ".conf", ".service", ".socket", "/run", "Makefile",
    ]

    private static func layout(_ file: SourceFile) -> [Violation] {
        guard laidOut.contains(where: file.path.hasSuffix) || file.isUnder("Scripts") else { return [] }
        var found: [Violation] = []
        var isFenced = false
        for (index, line) in file.lines.enumerated() {
            func report(_ rule: String, _ advice: String) {
                found.append(Violation(path: file.path, line: index + 1, rule: rule, advice: advice))
            }
            if file.isMarkdown, line.hasPrefix("```") { isFenced.toggle() }
            let isFree = file.isMarkdown && (isFenced || line.hasPrefix("|") || line.contains("://"))
            if line.count > columnsMax, !isFree { report("columns", "\(line.count) columns; break at \(columnsMax)") }
            if line.contains("\t"), file.name != "Makefile" { report("tab", "indent with 4 spaces") }
            // Sample sessions are byte-exact.
            if !isFenced, line.last == " " || line.last == "\r" { report("trailing-space", "remove it") }
        }
        if !file.text.isEmpty, !file.text.hasSuffix("\n") || file.text.hasSuffix("\n\n") {
            found.append(
                Violation(path: file.path, line: file.lines.count, rule: "last-line", advice: "end with one newline"))
        }
        return found
    }

    private static func titles(_ file: SourceFile) -> [Violation] {
        var isFenced = false
        var count = 0
        for line in file.lines {
            if line.hasPrefix("```") { isFenced.toggle() }
            if !isFenced, line.hasPrefix("# ") { count += 1 }
        }
        if count == 1, file.lines.first?.hasPrefix("# ") == true { return [] }
        return [
            Violation(path: file.path, line: 1, rule: "title", advice: "begin with the only `# ` line, the title")
        ]
    }

    // MARK: Words

    /// Words that may stand nowhere.
    ///
    /// Spelled in two halves so that this file does not break its own rule.
    private static let markers = ["TO" + "DO", "FIX" + "ME", "XX" + "X:"]
    private static let machinePaths = ["/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/"]
    /// Words about how the text was made.
    ///
    /// A text here is about the product.
    private static let makers = [
        "session" + " of the", "sub" + "agent", "agent" + " ", "agent" + "s", "work" + "tree", "work" + "place",
        "the " + "lead ",
    ]

    private static func words(_ file: SourceFile) -> [Violation] {
        let suspects = markers + machinePaths + makers
        guard suspects.contains(where: { file.has($0, ignoringCase: true) }) else { return [] }
        var found: [Violation] = []
        for (index, line) in file.lines.enumerated() {
            func report(_ rule: String, _ advice: String) {
                found.append(Violation(path: file.path, line: index + 1, rule: rule, advice: advice))
            }
            if markers.contains(where: line.contains) { report("marker", "do it now, or file an issue") }
            if machinePaths.contains(where: { beginsPath($0, in: line) }) {
                report("machine-path", "name a path that every machine has")
            }
            let isProse = file.isMarkdown || line.drop { $0 == " " }.hasPrefix("//")
            if isProse, makers.contains(where: line.lowercased().contains) {
                report("maker", "write about the product, not about its making")
            }
        }
        return found
    }

    /// Whether `path` stands in `line` as the start of an absolute path.
    private static func beginsPath(_ path: String, in line: Substring) -> Bool {
        for range in line.ranges(of: path) {
            guard range.lowerBound > line.startIndex else { return true }
            let before = line[line.index(before: range.lowerBound)]
            if !before.isLetter, !before.isNumber, !"._-}*".contains(before) { return true }
        }
        return false
    }

    // MARK: Product sources

    private static func header(_ file: SourceFile) -> [Violation] {
        if file.lines.first?.hasPrefix("// ") == true { return [] }
        return [
            Violation(
                path: file.path, line: 1, rule: "header",
                advice: "begin with a comment: the file's job, what it does not do, its owner, its thread rule")
        ]
    }

    private static func sizes(_ file: SourceFile) -> [Violation] {
        var found: [Violation] = []
        let lineCount = file.lines.count - (file.text.hasSuffix("\n") ? 1 : 0)
        if lineCount > fileLinesMax {
            found.append(
                Violation(
                    path: file.path, line: 0, rule: "file-length",
                    advice: "\(lineCount) lines; split at \(fileLinesMax)"))
        }
        for function in SwiftCode.functions(file.codeLines) where function.lineCount > functionLinesMax {
            found.append(
                Violation(
                    path: file.path, line: function.line, rule: "function-length",
                    advice: "\(function.name) has \(function.lineCount) lines; split at \(functionLinesMax)"))
        }
        return found
    }

    /// One forbidden construct: what it looks like in code, where it is allowed, what to write instead.
    private struct Ban {
        let name: String
        /// Text without which `pattern` cannot match: most files are done after looking for it.
        let words: [String]
        let pattern: Regex<Substring>
        var allowedIn: [String] = []
        let instead: String
    }

    /// The ban list.
    ///
    /// A function, because a `Regex` cannot be shared between threads.
    private static func banList() -> [Ban] {
        [
            Ban(name: "try!", words: ["try!"], pattern: /\btry!/, instead: "handle the error, or make it impossible"),
            Ban(
                name: "try?", words: ["try?"], pattern: /\btry\?/,
                instead: "do, catch, and say why the error may be ignored"),
            Ban(
                name: "as!", words: ["as!"], pattern: /\bas!/, instead: "as? with a guard, or a type that needs no cast"
            ),
            Ban(
                name: "empty-catch", words: ["catch"], pattern: /\bcatch\s*\{\s*\}/,
                instead: "handle or count the error"),
            Ban(
                name: "fatalError", words: ["fatalError"], pattern: /\bfatalError\b/,
                instead: "invariant(...), or a typed error"),
            Ban(
                name: "DispatchQueue", words: ["Dispatch"], pattern: /\bDispatch[A-Z]\w*/,
                instead: "an event loop, or a disk thread"),
            Ban(
                name: "Task", words: ["Task"], pattern: /\bTask(?:\.detached)?\s*[{(]/,
                instead: "an event loop, or a disk thread"
            ),
            // The embedded cache may offer asynchronous functions; nothing on the request path awaits.
            Ban(
                name: "async", words: ["async", "await"], pattern: /\basync\b|\bawait\b/,
                allowedIn: ["Sources/CacheEngine/"],
                instead: "a callback on the owner's loop"),
            Ban(
                name: "actor", words: ["actor"], pattern: /\bactor\b/,
                instead: "a thread that owns its state, or Guarded"),
            Ban(
                name: "print", words: ["print("], pattern: /(?:^|[^.\w])print\(/,
                instead: "the program's output function"),
            Ban(name: "Date", words: ["Date()"], pattern: /\bDate\(\)/, instead: "TimeSource, passed in"),
            Ban(
                name: "sleep", words: ["sleep("], pattern: /\bu?sleep\(|\bnanosleep\(/,
                allowedIn: ["Sources/CacheBench/", "Sources/CacheStats/"],
                instead: "wait for a condition or a timer"),
            // Where a store is made, a seed that nobody can guess is the point.
            Ban(
                name: "random", words: [".random("], pattern: /\.random\(in: [^,)]*\)/,
                allowedIn: ["Sources/CacheEngine/Disk/StoreStart.swift"],
                instead: "a seeded generator"),
            Ban(
                name: "Mutex", words: ["Mutex"], pattern: /\bMutex[<(]/,
                allowedIn: ["Sources/Primitives/Guarded.swift"],
                instead: "Guarded, which has a rank"),
            Ban(
                name: "system-clock", words: ["clock_gettime", "gettimeofday"],
                pattern: /\bclock_gettime\b|\bgettimeofday\b/,
                allowedIn: ["Sources/Primitives/", "Sources/CacheBench/", "Sources/EngineBench/"],
                instead: "TimeSource, passed in"),
        ]
    }

    private static func bans(_ file: SourceFile) -> [Violation] {
        let bans = banList().filter { ban in
            !ban.allowedIn.contains(where: file.path.hasPrefix) && ban.words.contains { file.has($0) }
        }
        if bans.isEmpty { return [] }
        return file.codeLines.enumerated().flatMap { index, line in
            bans.filter { line.contains($0.pattern) }.map {
                Violation(path: file.path, line: index + 1, rule: $0.name, advice: "instead: \($0.instead)")
            }
        }
    }

    private static func safety(_ file: SourceFile) -> [Violation] {
        var found: [Violation] = []
        guard file.has("unsafe") || file.has("@unchecked") else { return [] }
        if !file.has("// SAFETY:"), let first = file.codeLines.firstIndex(where: { $0.contains(/\bunsafe\b/) }) {
            found.append(
                Violation(
                    path: file.path, line: first + 1, rule: "unsafe",
                    advice: "say why it is sound: `// SAFETY:` above the group"))
        }
        for (index, line) in file.codeLines.enumerated()
        where line.contains(/@unchecked\b|\bnonisolated\(unsafe\)/) && !hasCommentAbove(file, index) {
            found.append(
                Violation(
                    path: file.path, line: index + 1, rule: "unchecked",
                    advice: "the line above gives the invariant and who checks it"))
        }
        return found
    }

    /// Whether a comment stands above line `index`, or above the group of declarations that it belongs to.
    private static func hasCommentAbove(_ file: SourceFile, _ index: Int) -> Bool {
        var above = index - 1
        while above >= 0 {
            let line = file.lines[above].drop { $0 == " " }
            if line.hasPrefix("//") { return true }
            let isOfTheGroup = line.contains("let ") || line.contains("var ")
            guard isOfTheGroup || line.hasPrefix("@") || line.hasPrefix("#if") else { return false }
            above -= 1
        }
        return false
    }

    private static func names(_ file: SourceFile) -> [Violation] {
        let vague = /(?:Util|Utils|Utility|Utilities|Helper|Helpers|Manager|Common|Misc)$/
        var found: [Violation] = []
        let stem = file.name.dropLast(".swift".count)
        if stem.contains(vague) {
            found.append(Violation(path: file.path, line: 0, rule: "name", advice: "name the file's one job"))
        }
        for (index, line) in file.codeLines.enumerated() {
            guard let match = line.firstMatch(of: /\b(?:struct|class|enum|protocol)\s+(\w+)/) else { continue }
            if match.1.contains(vague) {
                found.append(
                    Violation(path: file.path, line: index + 1, rule: "name", advice: "name the type's one job"))
            }
        }
        return found
    }

    /// Every file in Sources belongs to a target of Package.swift and is of a kind that the build uses.
    private static func membership(_ tree: SourceTree) -> [Violation] {
        let targets = PackageManifest(tree).targetNames
        return tree.paths.filter { $0.hasPrefix("Sources/") }.sorted().compactMap { path in
            let parts = path.split(separator: "/")
            if parts.count == 2, !targets.contains(String(parts[1])) {
                return Violation(path: path, line: 0, rule: "member", advice: "no target of this name in Package.swift")
            }
            let name = parts.last.map(String.init) ?? ""
            let isKnown = [".swift", ".h", ".c", ".modulemap"].contains(where: name.hasSuffix)
            if name.contains("."), !isKnown {
                return Violation(path: path, line: 0, rule: "member", advice: "no target uses a file of this kind")
            }
            return nil
        }
    }

    /// A placeholder keeps an empty target buildable; beside other files it is a leftover.
    private static func forgottenPlaceholders(_ tree: SourceTree) -> [Violation] {
        tree.files.filter { $0.name == "Placeholder.swift" }.compactMap { file in
            let folder = file.path.split(separator: "/").dropLast().joined(separator: "/")
            let isAlone = tree.files.filter { $0.isUnder(folder) && $0.isSwift }.count == 1
            if isAlone, tree.isUnderConstruction { return nil }
            return Violation(path: file.path, line: 0, rule: "placeholder", advice: "delete it, or fill its target")
        }
    }
}
