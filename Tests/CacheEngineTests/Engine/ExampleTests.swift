// The example program does what its comments say.

import Foundation
import TestSupport
import Testing

@Suite struct ExampleTests {
    private func run(_ arguments: [String]) throws -> (status: Int32, lines: [String]) {
        // Programs are built beside the tests.
        let tests = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        let built = [tests, Bundle.main.bundleURL, Bundle.main.bundleURL.deletingLastPathComponent()]
            .map { $0.appendingPathComponent("EmbeddedCache") }
        let program = Process()
        let found = built.filter { FileManager.default.isExecutableFile(atPath: $0.path) }
        let executable: URL = try #require(found.first)
        program.executableURL = executable
        program.arguments = arguments
        let pipe = Pipe()
        program.standardOutput = pipe
        try program.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        program.waitUntilExit()
        let lines = String(decoding: output, as: UTF8.self).split(separator: "\n").map(String.init)
        return (program.terminationStatus, lines)
    }

    @Test func `runs, and finds its pages again`() throws {
        let scratch = try TempDirectory()
        let first = try run([scratch.path])
        #expect(first.status == 0)
        #expect(first.lines.contains("home from an earlier run: nothing"))
        #expect(first.lines.contains("home: <h1>Home</h1>"))
        #expect(first.lines.contains("visits: 42"))
        #expect(first.lines.contains("video: 5000000 bytes, found disk"))
        #expect(first.lines.contains { $0.hasPrefix("trimmed ") && $0.hasSuffix("/page/0 is found disk") })
        #expect(first.lines.contains("session: nothing"))
        #expect(first.lines.contains("event: replaced visits"))
        #expect(first.lines.contains("event: evicted /page/0"))
        #expect(first.lines.last == "closed")
        let second = try run([scratch.path])
        #expect(second.status == 0)
        #expect(second.lines.contains("home from an earlier run: <h1>Welcome</h1>"))
        #expect(try run([]).status == 64)
    }
}
