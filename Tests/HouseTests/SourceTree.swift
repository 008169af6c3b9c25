// The repository as the house tests see it: its text files, read once.
//
// Every rule works on a `SourceTree`, never on the file system, so that a test can hand it a small tree with one
// seeded violation and see the rule find it.

import Foundation

/// One text file.
struct SourceFile: Sendable {
    /// Path from the root, with slashes.
    let path: String
    /// The whole text.
    let text: String
    /// The lines, without their line breaks.
    let lines: [Substring]
    /// The same lines with comments and the contents of string literals blanked.
    ///
    /// Empty unless the file is Swift.
    let codeLines: [Substring]

    init(path: String, text: String) {
        self.path = path
        self.text = text
        lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        codeLines =
            path.hasSuffix(".swift")
            ? SwiftCode.withoutCommentsAndStrings(text).split(separator: "\n", omittingEmptySubsequences: false) : []
    }

    var isSwift: Bool { path.hasSuffix(".swift") }
    var isMarkdown: Bool { path.hasSuffix(".md") }
    var name: String { path.split(separator: "/").last.map(String.init) ?? path }

    /// Whether `word` occurs in the text, code or not.
    func has(_ word: String, ignoringCase: Bool = false) -> Bool {
        text.range(of: word, options: ignoringCase ? .caseInsensitive : .literal) != nil
    }

    /// Whether the file only keeps an empty target buildable.
    var isPlaceholder: Bool { ["// placeholder\n", "print(\"placeholder\")\n"].contains(text) }

    /// Whether the file lies in the folder `folder`, at any depth.
    func isUnder(_ folder: String) -> Bool { path.hasPrefix(folder + "/") }
}

/// All text files of one tree.
struct SourceTree: Sendable {
    let root: URL
    let files: [SourceFile]
    /// Every path in the tree, folders and files that are not text included.
    let paths: Set<String>

    /// Folders that hold no work of ours.
    private static let skipped: Set<String> = [".git", "__pycache__", "dist"]

    /// Reads the tree at `root`.
    ///
    /// Files that are not UTF-8 are known by path only.
    init(root: URL) throws {
        self.root = root
        var files: [SourceFile] = []
        var paths: Set<String> = []
        var pending = [""]
        while let folder = pending.popLast() {
            let url = folder.isEmpty ? root : root.appendingPathComponent(folder)
            for name in try FileManager.default.contentsOfDirectory(atPath: url.path).sorted() {
                if Self.skipped.contains(name) || name == ".build" || name.hasPrefix(".build-") { continue }
                let path = folder.isEmpty ? name : folder + "/" + name
                paths.insert(path)
                let values = try root.appendingPathComponent(path).resourceValues(forKeys: [
                    .isDirectoryKey, .isSymbolicLinkKey, .isRegularFileKey,
                ])
                if values.isSymbolicLink == true { continue }
                if values.isDirectory == true {
                    pending.append(path)
                } else if values.isRegularFile == true,
                    let text = String(data: try Data(contentsOf: root.appendingPathComponent(path)), encoding: .utf8)
                {
                    files.append(SourceFile(path: path, text: text))
                }
            }
        }
        self.files = files.sorted { $0.path < $1.path }
        self.paths = paths
    }

    /// The repository that this test was compiled from.
    static func repository() throws -> SourceTree {
        let here = URL(fileURLWithPath: #filePath)
        return try SourceTree(
            root: here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent())
    }

    /// The file at `path`, if the tree has it and it is text.
    func file(_ path: String) -> SourceFile? { files.first { $0.path == path } }

    /// Swift files of the product: `Sources` only, placeholders aside.
    var productFiles: [SourceFile] { files.filter { $0.isUnder("Sources") && $0.isSwift && !$0.isPlaceholder } }

    /// Whether targets are still empty.
    ///
    /// Rules about documents that describe the whole begin when none is.
    var isUnderConstruction: Bool { files.contains { $0.isUnder("Sources") && $0.isPlaceholder } }
}

/// One broken rule at one place.
struct Violation: CustomStringConvertible, Sendable {
    let path: String
    /// Counted from 1; 0 where the whole file is meant.
    let line: Int
    /// Short name of the rule, for the tests of the rules.
    let rule: String
    /// What to do instead.
    let advice: String

    var description: String { line > 0 ? "\(path):\(line): \(rule): \(advice)" : "\(path): \(rule): \(advice)" }
}

extension [Violation] {
    /// One violation per line, for a test's message.
    var report: String { map(\.description).joined(separator: "\n") }
}
