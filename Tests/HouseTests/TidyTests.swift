// The tidy rules on this repository, and each rule on a tree that breaks it.

import Testing

struct TidyTests {
    @Test func repositoryIsTidy() throws {
        let violations = TidyRules.check(try SourceTree.repository())
        expectNone(violations)
    }

    @Test func cleanTreeBreaksNoRule() throws {
        let violations = TidyRules.check(try SeededTree().read())
        expectNone(violations)
    }

    /// One violation: the rule that must find it, where, and the file's text.
    struct Seed: CustomStringConvertible {
        let rule: String
        var path = "Sources/CacheDaemon/Seed.swift"
        let text: String
        var description: String { "\(rule) \(path)" }
    }

    static let seeds: [Seed] = [
        Seed(rule: "columns", text: "// Header.\nlet wide = \"\(String(repeating: "x", count: 120))\"\n"),
        Seed(rule: "tab", text: "// Header.\n\tlet indented = 1\n"),
        Seed(rule: "trailing-space", text: "// Header. \n"),
        Seed(rule: "last-line", text: "// Header."),
        Seed(rule: "last-line", path: "docs/X.md", text: "# X\n\n"),
        Seed(rule: "title", path: "docs/X.md", text: "# One\n\n# Two\n"),
        Seed(rule: "title", path: "docs/X.md", text: "No title.\n"),
        Seed(rule: "marker", text: "// Header.\n// TO\("DO"): later\n"),
        Seed(rule: "marker", path: "docs/X.md", text: "# X\n\nFIX\("ME")\n"),
        Seed(rule: "machine-path", path: "docs/X.md", text: "# X\n\nSee /ro\("ot/")x.\n"),
        Seed(rule: "machine-path", path: "Makefile", text: "run:\n\tcd /wo\("rk/")main\n"),
        Seed(rule: "machine-path", text: "// Header.\nlet path = \"/ho\("me/")me\"\n"),
        Seed(rule: "maker", path: "docs/X.md", text: "# X\n\nBy the le\("ad") itself.\n"),
        Seed(rule: "header", text: "import Glibc\n"),
        Seed(rule: "file-length", text: "// Header.\n" + String(repeating: "let a = 1\n", count: 500)),
        Seed(rule: "function-length", text: "// Header.\nfunc long() {\n\(String(repeating: "a()\n", count: 69))}\n"),
        Seed(rule: "function-length", text: "// Header.\ninit() {\n\(String(repeating: "a()\n", count: 69))}\n"),
        Seed(rule: "try!", text: "// Header.\nlet a = try! b()\n"),
        Seed(rule: "try?", text: "// Header.\nlet a = try? b()\n"),
        Seed(rule: "as!", text: "// Header.\nlet a = b as! C\n"),
        Seed(rule: "empty-catch", text: "// Header.\ndo { try a() } catch {}\n"),
        Seed(rule: "fatalError", text: "// Header.\nfunc a() { fatalError() }\n"),
        Seed(rule: "DispatchQueue", text: "// Header.\nDispatchQueue.main.async {}\n"),
        Seed(rule: "Task", text: "// Header.\nTask { a() }\n"),
        Seed(rule: "Task", text: "// Header.\nTask.detached { a() }\n"),
        Seed(rule: "async", text: "// Header.\nfunc a() async {}\n"),
        Seed(rule: "actor", text: "// Header.\nactor A {}\n"),
        Seed(rule: "print", text: "// Header.\nprint(1)\n"),
        Seed(rule: "Date", text: "// Header.\nlet now = Date()\n"),
        Seed(rule: "sleep", text: "// Header.\nusleep(5)\n"),
        Seed(rule: "random", text: "// Header.\nlet a = Int.random(in: 0...5)\n"),
        Seed(rule: "Mutex", text: "// Header.\nlet a = Mutex(5)\n"),
        Seed(rule: "system-clock", text: "// Header.\nclock_gettime(CLOCK_REALTIME, &a)\n"),
        Seed(rule: "print", text: "// Header.\nlet a = \"\\(print(1))\"\n"),
        Seed(rule: "unsafe", text: "// Header.\nlet a = unsafe b\n"),
        Seed(rule: "unchecked", text: "// Header.\nlet x = 1\n\nfinal class A: @unchecked Sendable {}\n"),
        Seed(rule: "unchecked", text: "// SAFETY: header.\nlet x = 1\n\nnonisolated(unsafe) var y = 1\n"),
        Seed(rule: "name", path: "Sources/CacheDaemon/StringUtils.swift", text: "// Header.\n"),
        Seed(rule: "name", text: "// Header.\nstruct ConnectionManager {}\n"),
        Seed(rule: "member", path: "Sources/Stray/A.swift", text: "// Header.\n"),
        Seed(rule: "member", path: "Sources/CacheDaemon/notes.txt", text: "Notes.\n"),
        Seed(rule: "placeholder", path: "Sources/CacheDaemon/Placeholder.swift", text: "// placeholder\n"),
        Seed(rule: "placeholder", path: "Tests/HouseTests/Placeholder.swift", text: "import Testing\n"),
    ]

    @Test(arguments: seeds)
    func ruleFindsItsSeed(_ seed: Seed) throws {
        let violations = TidyRules.check(try SeededTree([seed.path: seed.text]).read())
        let stray = violations.filter { $0.rule != seed.rule }
        #expect(violations.contains { $0.rule == seed.rule && seed.path.hasPrefix($0.path) })
        expectNone(stray)
    }

    /// Text that looks like a violation and is none.
    static let innocents: [String: String] = [
        "line comment": "// try! print( fatalError unsafe Task {\n",
        "string": "let a = \"try! \\\"print( \\(b) Task {\"\n",
        "raw string": "let a = #\"fatalError \"quoted\" \\(x)\"#\n",
        "multi-line string": "let a = \"\"\"\n    try! \"fatalError\"\n    \"\"\"\nlet b = 1\n",
        "block comment": "/* try! /* nested */ print( */\nlet b = 1\n",
        "a method named print": "log.print(1)\n",
        "reasoned unchecked": "// SAFETY: of the next line.\nfinal class A: @unchecked Sendable {}\n",
        "group": "// SAFETY: both are guarded.\nlet x = 1\nnonisolated(unsafe) var y = 1\n",
        "requirements": "protocol P {\n    func a()\n    func b()\n}\n\(String(repeating: "let a = 1\n", count: 80))",
    ]

    @Test(arguments: innocents.keys.sorted())
    func innocentTextPasses(_ name: String) throws {
        let text = "// Header.\n" + (Self.innocents[name] ?? "")
        let violations = TidyRules.check(try SeededTree(["Sources/CacheDaemon/Seed.swift": text]).read())
        expectNone(violations)
    }

    @Test func functionsAreMeasured() {
        let text = """
            struct S {
                func a() -> Int {
                    [1, 2].map { $0 }.count
                }
                init(_ body: () -> Void = {}) where T: P
                {
                    self.init()
                }
                subscript(i: Int) -> Int { i }
            }
            """
        let lines = SwiftCode.withoutCommentsAndStrings(text).split(separator: "\n", omittingEmptySubsequences: false)
        #expect(
            SwiftCode.functions(lines) == [
                .init(name: "a", line: 2, lineCount: 3), .init(name: "init", line: 5, lineCount: 4),
                .init(name: "subscript", line: 9, lineCount: 1),
            ])
    }
}
