// The layer rule on this repository, and on trees that break it.

import Testing

struct LayerTests {
    @Test func repositoryKeepsItsLayers() throws {
        let violations = LayerRules.check(try SourceTree.repository())
        expectNone(violations)
    }

    @Test func cleanTreeBreaksNoRule() throws {
        let violations = LayerRules.check(try SeededTree().read())
        expectNone(violations)
    }

    /// Each C module has exactly one importer: its wrapper.
    @Test func eachCModuleHasOneWrapper() throws {
        let manifest = PackageManifest(try SourceTree.repository())
        #expect(!manifest.systemLibraries.isEmpty)
        for library in manifest.systemLibraries {
            let wrappers = LayerRules.allowed.filter { $0.value.contains(library) }.keys
            #expect(wrappers.count == 1, "\(library): \(wrappers.sorted())")
        }
    }

    /// One forbidden line in one module.
    struct Seed: CustomStringConvertible {
        let module: String
        let code: String
        var rule = "layer"
        var description: String { "\(module): \(code)" }
    }

    static let seeds: [Seed] = [
        Seed(module: "CacheEngine", code: "import Protocol"),
        Seed(module: "CacheEngine", code: "import Libevent"),
        Seed(module: "CacheEngine", code: "internal import CSQLite"),
        Seed(module: "CacheDaemon", code: "import CLibevent"),
        Seed(module: "CacheDaemon", code: "import Foundation"),
        Seed(module: "CacheDaemon", code: "@testable import CacheEngine"),
        Seed(module: "Protocol", code: "public import CacheEngine"),
        Seed(module: "Protocol", code: "import struct Foundation.Data"),
        Seed(module: "Primitives", code: "import Foundation"),
        Seed(module: "SQLite", code: "@_exported import CSQLite"),
        Seed(module: "CacheStats", code: "import CacheEngine"),
        Seed(module: "Protocol", code: "let state = Guarded(0, rank: .leaf)", rule: "purity"),
        Seed(module: "Protocol", code: "let clock = SystemClock()", rule: "purity"),
        Seed(module: "Protocol", code: "let count = write(1, bytes, 5)", rule: "purity"),
    ]

    @Test(arguments: seeds)
    func ruleFindsItsSeed(_ seed: Seed) throws {
        let path = "Sources/\(seed.module)/Seed.swift"
        let violations = LayerRules.check(try SeededTree([path: "// Header.\n\(seed.code)\n"]).read())
        #expect(violations.map(\.rule) == [seed.rule], "\n\(violations.report)")
        #expect(violations.map(\.line) == [2])
    }

    @Test func allowedImportsPass() throws {
        let text =
            "// Header.\n// import Foundation\npublic import Primitives\nimport Glibc\nlet a = \"import SQLite\"\n"
        let violations = LayerRules.check(try SeededTree(["Sources/Protocol/Seed.swift": text]).read())
        expectNone(violations)
    }

    @Test func manifestMustEqualTheTable() throws {
        let manifest = try #require(SeededTree().read().file("Package.swift")).text
        let loosened = manifest.replacing("layer(\"Protocol\", [", with: "layer(\"Protocol\", [\"SQLite\", ")
        #expect(loosened != manifest)
        let violations = LayerRules.check(try SeededTree(["Package.swift": loosened]).read())
        #expect(violations.map(\.rule) == ["manifest"], "\n\(violations.report)")
        let extended = manifest + "layer(\"Extra\")\n"
        #expect(LayerRules.check(try SeededTree(["Package.swift": extended]).read()).map(\.rule) == ["manifest"])
    }

    @Test func cyclesAreFound() {
        #expect(LayerRules.cycles(LayerRules.allowed).isEmpty)
        #expect(LayerRules.cycles(["A": ["B"], "B": ["C"], "C": ["A"], "D": ["A"]]).count == 3)
    }
}
