// Manual pages, completions and the list of metrics: complete, current, and accepted by the programs that read them.

import Foundation
import Testing

@testable import CacheDaemon

@Suite("generated texts")
struct GeneratedTextTests {
    private func text(_ name: String) throws -> String {
        guard case .show(let text) = Launch.read(["--generate", name], environment: [:], coreCount: 2) else {
            throw CocoaError(.featureUnsupported)
        }
        return text
    }

    @Test(
        "manual pages name every option, with groff's blessing where it is installed", arguments: ["man", "man-config"])
    func manual(name: String) throws {
        let page = try text(name)
        for spec in OptionSpec.table {
            let wanted =
                name == "man" ? "\\fB\\-\\-\(spec.flag.replacing("-", with: "\\-"))\\fR" : "\\fB\(spec.key)\\fR = "
            #expect(page.contains(wanted), "\(spec.name)")
        }
        #expect(page.hasPrefix(".TH CACHE\\-DAEMON"))
        if let complaints = try run("groff", ["-man", "-Tutf8", "-ww", "-z"], page) { #expect(complaints == "") }
    }

    @Test("completions name every flag and are what each shell can parse", arguments: ["bash", "zsh", "fish"])
    func completion(shell: String) throws {
        let script = try text(shell)
        for spec in OptionSpec.table { #expect(script.contains(spec.flag), "\(spec.flag)") }
        #expect(script.contains("none process always"))
        if let complaints = try run(shell, ["-n", "/dev/stdin"], script) { #expect(complaints == "") }
    }

    @Test("bash completes flags, words and files")
    func bash() throws {
        let loader = "/usr/share/bash-completion/bash_completion"
        guard FileManager.default.fileExists(atPath: loader) else { return }
        let script = """
            source \(loader)
            \(try text("bash"))
            answer() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
                COMPREPLY=(); _cache_daemon 2>/dev/null; echo "${COMPREPLY[*]}"; }
            answer cache-daemon --log-s
            answer cache-daemon --durability al
            answer cache-daemon --config /etc/pass
            """
        #expect(try run("bash", ["--norc", "/dev/stdin"], script)?.contains("--log-slow\nalways\n") == true)
    }

    @Test("docs/METRICS.md is the printed one; an unknown text is refused")
    func committed() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let document = try String(contentsOf: root.appendingPathComponent("docs/METRICS.md"), encoding: .utf8)
        #expect(document == (try text("metrics")), "run cache-daemon --generate metrics > docs/METRICS.md")
        for metric in Metric.table { #expect(document.contains("| `\(metric.name)` |")) }
        #expect(
            Launch.read(["--generate", "poem"], environment: [:], coreCount: 2)
                == .refuse(["--generate: 'poem' is not man, man-config, metrics, bash, zsh, fish"]))
    }

    /// What a program says about `input`; nil where it is not installed.
    private func run(_ program: String, _ arguments: [String], _ input: String) throws -> String? {
        guard let path = ["/usr/bin/", "/bin/"].map({ $0 + program }).first(where: { access($0, X_OK) == 0 }) else {
            return nil
        }
        let process = Process()
        let (standardInput, output) = (Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        process.standardInput = standardInput
        process.standardOutput = output
        process.standardError = output
        try process.run()
        standardInput.fileHandleForWriting.write(Data(input.utf8))
        try standardInput.fileHandleForWriting.close()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return text
    }
}
