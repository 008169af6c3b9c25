// A small clean repository in a temporary folder, into which a test puts one violation.

import Foundation
import Testing

/// A throwaway tree.
///
/// It removes itself.
final class SeededTree {
    let root: URL

    /// Makes a tree that breaks no rule, with `files` added or replaced.
    init(_ files: [String: String] = [:]) throws {
        root = FileManager.default.temporaryDirectory.appendingPathComponent("house-\(UUID().uuidString)")
        for (path, text) in Self.clean.merging(files, uniquingKeysWith: { $1 }) {
            let url = root.appendingPathComponent(path)
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try text.write(to: url, atomically: false, encoding: .utf8)
        }
    }

    deinit { try? FileManager.default.removeItem(at: root) }

    func read() throws -> SourceTree { try SourceTree(root: root) }

    func remove(_ path: String) throws { try FileManager.default.removeItem(at: root.appendingPathComponent(path)) }

    /// A manifest that agrees with `LayerRules.allowed`, one option, one command, and every required document.
    private static let clean: [String: String] = {
        var manifest = "// swift-tools-version: 6.2\n"
        for (module, imports) in LayerRules.allowed.sorted(by: { $0.key < $1.key }) {
            let list = imports.sorted().map { "    \"\($0)\",\n" }.joined()
            manifest += "layer(\"\(module)\", [\n\(list)])\n"
        }
        var files = [
            "Package.swift": manifest,
            "Sources/CacheDaemon/Options/OptionRows.swift":
                "// The rows.\nlet rows = [.option(\"memory.limit\", flag: \"memory\", short: \"m\")]\n",
            "Sources/CacheDaemon/Server.swift":
                "// Steps.\n" + (1...DocsRules.lifeStepsMin).map { "func step\($0)() {}\n" }.joined(),
            "Sources/Protocol/Command.swift": "// Commands.\nswitch command {\ncase .get: .init(\"get\")\n}\n",
        ]
        for path in DocsRules.required { files[path] = "# Title\n" }
        files["config/cache-daemon.conf"] = "# Sample.\n[memory]\n#limit = 64MiB\n"
        files["docs/OPERATIONS.md"] = "# Operations\n\n`memory.limit`, `--memory`: bytes.\n"
        files["docs/PROTOCOL.md"] = "# Protocol\n\n`get <key>` reads.\n"
        files["docs/LIFE_OF_A_REQUEST.md"] =
            "# Life\n\n" + (1...DocsRules.lifeStepsMin).map { "- `Server.swift:step\($0)`\n" }.joined()
        return files
    }()
}

/// Records each violation as an issue of its own.
func expectNone(_ violations: [Violation]) {
    for violation in violations { Issue.record("\(violation)") }
}
