// What docs/SECURITY.md names as proof exists, and the rule on trees that break it.

import Testing

struct SecurityTests {
    @Test func whatIsNamedAsProofExists() throws {
        expectNone(SecurityRules.check(try SourceTree.repository()))
    }

    /// A document with one row, beside the suite of reports and one test.
    private func check(_ row: String, under heading: String = SecurityRules.causesHeading) throws -> [String] {
        let files = [
            SecurityRules.document:
                "# Security\n\n\(heading)\n\n| Record | Cause | Check | Test |\n|---|---|---|---|\n\(row)\n",
            "Tests/Conformance/run": "SUITES = {\n    \"cves\": cves,\n}\n",
            "Tests/Conformance/cves.py": "CHECKS = (\n    (\"CVE-2011-4971: lengths\", lengths),\n)\n",
            "Tests/CacheDaemonTests/A.swift": "// A.\nstruct LoginTests {}\n",
            "Tests/Fuzz/Targets/auth.swift": "// Auth.\n",
        ]
        return SecurityRules.check(try SeededTree(files).read()).map(\.advice)
    }

    @Test(arguments: [
        "| CVE-2011-4971 | length | bounds | `run cves` |",
        "| CVE-2013-7239 | login | grants | `LoginTests`, `make fuzz` (`auth`) |",
    ])
    func soundRowsPass(row: String) throws {
        #expect(try check(row) == [])
    }

    @Test(arguments: [
        ("| CVE-2011-4971 | length | bounds | |", "each cause has a check and a test"),
        ("| CVE-2011-4971 | length | | `run cves` |", "each cause has a check and a test"),
        ("| CVE-2011-4971 | length | bounds | `run nothing` |", "there is no run nothing"),
        ("| CVE-2011-4971 | length | bounds | `run cves nothing` |", "there is no run nothing"),
        ("| CVE-2011-4971 | length | bounds | `NoTests` |", "there is no NoTests"),
        ("| CVE-2011-4971 | length | bounds | `make fuzz` (`none`) |", "there is no fuzz target none"),
        (
            "| CVE-2019-1000 | length | bounds | `run cves` |",
            "no check of Tests/Conformance/cves.py names one of CVE-2019-1000"
        ),
    ])
    func seedsAreFound(row: String, advice: String) throws {
        #expect(try check(row) == [advice])
    }

    @Test func otherTablesMayLackProofButNotNameWhatIsMissing() throws {
        #expect(try check("| N1 | slow | | |", under: "## Limits") == [])
        #expect(try check("| N1 | slow | | `GoneTests` |", under: "## Limits") == ["there is no GoneTests"])
    }
}
