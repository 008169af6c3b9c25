// The layer rule: who may import whom. Package.swift alone does not enforce it, because after an earlier build the
// compiler also finds modules that a target does not declare; so the imports are read here.

/// The table of allowed imports, and the checks against it.
enum LayerRules {
    /// Module of ours -> modules of ours, and C modules, that it may import.
    ///
    /// Lower floors first.
    static let allowed: [String: Set<String>] = [
        "Primitives": [],
        "Hashing": ["CXXHash"],
        "SQLite": ["CSQLite"],
        "Libevent": ["CLibevent", "Primitives"],
        "TLS": ["COpenSSL"],
        "ConfigFile": ["CInih"],
        "Arguments": ["CGetopt", "Primitives"],
        "Crypt": ["CCrypt"],
        "Protocol": ["Primitives"],
        "CacheEngine": ["SQLite", "Hashing", "CMalloc", "CPrefetch", "Primitives"],
        "CacheClient": ["TLS", "Arguments", "Primitives"],
        "CacheDaemon": [
            "CacheEngine", "CacheClient", "Protocol", "Libevent", "TLS", "ConfigFile", "Arguments", "Crypt",
            "Primitives",
        ],
        "CacheStats": ["CacheClient", "Arguments", "Primitives"],
        "EngineBench": ["CacheEngine", "Primitives"],
        "CacheBench": ["CacheClient", "Arguments", "CEpoll", "Primitives"],
    ]

    /// Modules of the platform that every module may import.
    static let platform: Set<String> = ["Glibc", "Synchronization"]

    /// Modules that may also import Foundation: programs that no request waits for.
    static let mayImportFoundation: Set<String> = ["CacheStats", "CacheBench", "EngineBench"]

    /// What the protocol module must not touch: it is pure.
    ///
    /// Bytes in, values out; no I/O, no clock, no lock.
    private static func impurities() -> [(Regex<Substring>, String)] {
        [
            (/\b(?:Guarded|Monitor|PthreadMutex|Mutex|Atomic)\b/, "a lock"),
            (/\b(?:SystemClock|TimeSource|clock_gettime)\b/, "a clock"),
            (/(?:^|[^.\w])(?:open|read|write|send|recv|socket|fopen)\(/, "I/O"),
        ]
    }

    /// Everything in `tree` that breaks the layer rule.
    static func check(_ tree: SourceTree) -> [Violation] {
        tree.productFiles.flatMap { imports($0) + purity($0) } + manifest(tree) + cycles(allowed)
    }

    /// One import of a file.
    private struct Import {
        let line: Int
        let attributes: Substring
        let module: String
    }

    private static func importsOf(_ file: SourceFile) -> [Import] {
        let pattern =
            /^\s*((?:@\w+\s+)*)(?:\w+\s+)?import\s+(?:(?:struct|class|enum|protocol|func|var|let)\s+)?(\w+)/
        return file.codeLines.enumerated().compactMap { index, line in
            guard let match = line.firstMatch(of: pattern) else { return nil }
            return Import(line: index + 1, attributes: match.1, module: String(match.2))
        }
    }

    private static func imports(_ file: SourceFile) -> [Violation] {
        let module = file.path.split(separator: "/").dropFirst().first.map(String.init) ?? ""
        guard let allowedHere = allowed[module] else {
            return [Violation(path: file.path, line: 0, rule: "layer", advice: "add \(module) to LayerRules.allowed")]
        }
        return importsOf(file).compactMap { found in
            func violation(_ advice: String) -> Violation {
                Violation(path: file.path, line: found.line, rule: "layer", advice: advice)
            }
            if found.attributes.contains(/@_exported|@testable|@_implementationOnly/) {
                return violation("a plain import; only tests are @testable, nothing is re-exported")
            }
            if allowedHere.contains(found.module) || platform.contains(found.module) { return nil }
            if found.module == "Foundation" {
                return mayImportFoundation.contains(module) ? nil : violation("Glibc, or a few lines of our own")
            }
            let reachable = allowedHere.union(platform).sorted().joined(separator: ", ")
            return violation("\(module) may import only \(reachable); not \(found.module)")
        }
    }

    private static func purity(_ file: SourceFile) -> [Violation] {
        guard file.isUnder("Sources/Protocol") else { return [] }
        return file.codeLines.enumerated().flatMap { index, line in
            impurities().filter { line.contains($0.0) && !line.contains("func ") }.map {
                Violation(
                    path: file.path, line: index + 1, rule: "purity",
                    advice: "Protocol is pure; it must not use \($0.1): pass values in")
            }
        }
    }

    /// Package.swift and the table say the same.
    private static func manifest(_ tree: SourceTree) -> [Violation] {
        let declared = PackageManifest(tree)
        return Set(allowed.keys).union(declared.dependencies.keys).sorted().compactMap { module in
            if declared.dependencies[module] == allowed[module] { return nil }
            let table = allowed[module].map { "\($0.sorted())" } ?? "nothing"
            let package = declared.dependencies[module].map { "\($0.sorted())" } ?? "nothing"
            return Violation(
                path: "Package.swift", line: 0, rule: "manifest",
                advice: "\(module) depends on \(package) there, on \(table) in LayerRules.allowed: make them equal")
        }
    }

    /// Modules that reach themselves through `table`.
    static func cycles(_ table: [String: Set<String>]) -> [Violation] {
        table.keys.sorted().compactMap { start in
            var reached: Set<String> = []
            var pending = Array(table[start] ?? [])
            while let next = pending.popLast() {
                if reached.insert(next).inserted { pending += table[next] ?? [] }
            }
            guard reached.contains(start) else { return nil }
            return Violation(path: "Package.swift", line: 0, rule: "cycle", advice: "\(start) reaches itself")
        }
    }
}
