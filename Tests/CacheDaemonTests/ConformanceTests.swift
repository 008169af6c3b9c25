// Runs the outside proof (`Tests/Conformance/run`), and the short forms of `Tests/Torture/run`, as part of the Swift
// tests, one test per suite.
//
// The suites are Python programs that start the built daemon as a process and talk to it over the wire, next to
// Debian's memcached and unmodified client libraries; what they check is described in Tests/Conformance/README.md. This
// file only starts them, shows what they print when they fail, and hands over the path of the daemon that this build
// made. Each run is bounded in time by its own `--limit`.

import Foundation
import Testing

@Suite("conformance over the wire", .serialized)
struct ConformanceTests {
    @Test(
        "suite against cache-daemon",
        arguments: [
            ["authentication"],
            ["clients"],
            ["clients-more"],
            ["proxy"],
            ["documents"],
            ["wire"],
            ["tls"],
            ["cves"],
            ["process"],
            ["hostile"],
            ["soak", "--seconds", "20"],
            ["operator"],
            ["operator-tools"],
            ["admin"],
            ["stats"],
            ["guides"],
            ["service"],
            ["reload"],
            ["badinput"],
            ["differential", "--commands", "20000"],
            ["maintenance"],
            ["tiers"],
            ["restart", "--entries", "200000"],
            ["warm-start"],
            ["restart", "--entries", "1000", "--warm-up"],
            ["crash", "--kills", "25"],
            ["crash", "--kills", "10", "--warm-up"],
            ["crash-checked"],
            ["churn"],
            ["resident"],
        ])
    func suite(arguments: [String]) throws {
        try expectPassing(arguments)
    }

    @Test("the wire scripts agree with Debian's memcached")
    func scriptsAgainstMemcached() throws {
        try expectPassing(["wire", "badinput", "clients", "--against", "memcached"])
    }

    @Test(
        "short form of make torture",
        arguments: [
            "clock", "damage", "drills", "history", "io-faults", "kill-points", "mutants", "policies",
            "power-cut", "surroundings",
        ])
    func torture(part: String) throws {
        try expectPassing([part, "--short"], runner: "Tests/Torture/run")
    }

    private func expectPassing(_ arguments: [String], runner: String = "Tests/Conformance/run") throws {
        let runner = packageRoot.appendingPathComponent(runner)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        process.arguments = [runner.path] + arguments + ["--limit", "600"]
        var environment = ProcessInfo.processInfo.environment
        environment["CACHE_DAEMON"] = environment["CACHE_DAEMON"] ?? builtDaemon.path
        process.environment = environment
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        let lines = text.split(separator: "\n")
        // Skipped checks and figures stay visible in the log of a passing run.
        let shown = lines.filter { $0.hasPrefix("skip ") || $0.hasPrefix("note ") || $0.hasSuffix(" skipped") }
        FileHandle.standardError.write(Data((shown.joined(separator: "\n") + "\n").utf8))
        #expect(process.terminationStatus == 0, "\(arguments.joined(separator: " ")):\n\(text)")
        #expect(lines.last?.hasSuffix(" skipped") == true, "the run did not get to its total:\n\(text)")
    }

    private var packageRoot: URL {
        URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    }

    /// The daemon that lies beside the test program, so that any build folder and configuration works.
    private var builtDaemon: URL {
        URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appendingPathComponent("cache-daemon")
    }
}
