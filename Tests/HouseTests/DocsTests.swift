// Documents against code in this repository, and each check on a tree that breaks it.

import Testing

struct DocsTests {
    @Test func documentsAgreeWithTheCode() throws {
        let violations = DocsRules.check(try SourceTree.repository())
        expectNone(violations)
    }

    @Test func cleanTreeBreaksNoRule() throws {
        let violations = DocsRules.check(try SeededTree().read())
        expectNone(violations)
    }

    /// One disagreement.
    struct Seed: CustomStringConvertible {
        let rule: String
        let path: String
        let text: String
        var description: String { "\(rule) \(path)" }
    }

    static let seeds: [Seed] = [
        Seed(
            rule: "option", path: "Sources/CacheDaemon/Options/OptionRows.swift",
            text: "// The rows.\nlet rows = [.option(\"memory.limit\"), .option(\"disk.limit\", flag: \"disk\")]\n"),
        Seed(rule: "option", path: "Sources/CacheDaemon/Options/OptionRows.swift", text: "// No rows.\n"),
        Seed(rule: "option", path: "config/cache-daemon.conf", text: "# Sample.\n[disk]\n#limit = 64MiB\n"),
        Seed(rule: "option", path: "docs/OPERATIONS.md", text: "# Operations\n\n`--memory`\n"),
        Seed(rule: "option", path: "docs/OPERATIONS.md", text: "# Operations\n\n`memory.limit`\n"),
        Seed(rule: "command", path: "Sources/Protocol/Command.swift", text: "// No table.\n"),
        Seed(
            rule: "command", path: "docs/PROTOCOL.md", text: "# Protocol\n\n`set` stores; get is not shown as code.\n"),
        Seed(rule: "command", path: "docs/PROTOCOL.md", text: "# Protocol\n\n`gets` reads; get is not code.\n"),
        Seed(
            rule: "command", path: "Sources/Protocol/Command.swift",
            text:
                "// Commands.\ncase .get: .init(\"get\")\ncase .set:\n    .quietable(\n\"set\")\n"),
        Seed(rule: "step", path: "docs/LIFE_OF_A_REQUEST.md", text: "# Life\n\nNo steps.\n"),
        Seed(rule: "step", path: "Sources/CacheDaemon/Server.swift", text: "// func step1() {}\n"),
        Seed(rule: "link", path: "docs/X.md", text: "# X\n\n[gone](GONE.md)\n"),
        Seed(rule: "link", path: "docs/X.md", text: "# X\n\n[out](../../OUT.md)\n"),
        Seed(rule: "link", path: "docs/X.md", text: "# X\n\n[no heading](OPERATIONS.md#nowhere)\n"),
    ]

    @Test(arguments: seeds)
    func ruleFindsItsSeed(_ seed: Seed) throws {
        let violations = DocsRules.check(try SeededTree([seed.path: seed.text]).read())
        #expect(!violations.isEmpty)
        #expect(violations.allSatisfy { $0.rule == seed.rule }, "\n\(violations.report)")
    }

    @Test func goodLinksPass() throws {
        let text = """
            # X

            [up](../README.md) [down](OPERATIONS.md#operations) [here](#two-words) [web](https://example.org/x)

            ## Two words

            """
        let violations = DocsRules.check(try SeededTree(["docs/X.md": text.trimmedToOneNewline]).read())
        expectNone(violations)
    }

    @Test(arguments: DocsRules.required)
    func finishedTreeMustHave(_ document: String) throws {
        let seeded = try SeededTree()
        try seeded.remove(document)
        let violations = DocsRules.check(try seeded.read())
        #expect(violations.contains { $0.path == document }, "\n\(violations.report)")
    }

    /// While a target is empty, absent tables and documents are work to come.
    @Test func unfinishedTreeMayLackDocuments() throws {
        let seeded = try SeededTree(["Sources/Libevent/Placeholder.swift": "// placeholder\n"])
        try seeded.remove("docs/LIFE_OF_A_REQUEST.md")
        #expect(DocsRules.check(try seeded.read()).isEmpty)
    }
}

extension String {
    fileprivate var trimmedToOneNewline: String {
        var text = self[...]
        while text.hasSuffix("\n\n") { text.removeLast() }
        return String(text)
    }
}
