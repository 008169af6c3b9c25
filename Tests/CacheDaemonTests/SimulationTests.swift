// The short form of `make sim`: some hundred seeds, the same trace from the same seed, and seeded bugs found.
//
// The simulation is a program of its own, because it takes the C library's file calls over. What it does is described
// in docs/decisions/010-simulation.md.

import Foundation
import Testing

@Suite("simulation")
struct SimulationTests {
    @Test("no seed is answered wrongly")
    func seeds() throws {
        let run = try simulate(["--seeds", "200", "--steps", "400"])
        #expect(run.status == 0, "\(run.text)")
    }

    @Test("a seed gives the same trace in each process, whatever ran before")
    func repeats() throws {
        let many = try simulate(["--seed", "40", "--seeds", "12", "--steps", "300", "--hash"])
        let again = try simulate(["--seed", "40", "--seeds", "12", "--steps", "300", "--hash"])
        #expect(many.text == again.text)
        let one = try simulate(["--seed", "51", "--steps", "300", "--hash"])
        let line = one.text.split(separator: "\n").first { $0.hasPrefix("seed 51 hash") }
        let hash = try #require(line)
        #expect(many.text.contains(hash), "\(many.text)")
    }

    /// Bugs that are found without choosing the kind of fault, and of how many seeds one finds it.
    ///
    /// docs/decisions/010-simulation.md names the others.
    static let bugs = [
        ("deletion_not_journalled", 60), ("flush_not_journalled", 60), ("tail_before_commit", 60),
        ("forgotten_before_commit", 60), ("oldest_record_wins", 60), ("flush_not_committed", 150),
        ("epoch_repeated", 150), ("in_place_overwrite", 150), ("unlink_before_commit", 300), ("clock_trusted", 150),
        ("commit_not_awaited", 150),
    ]

    @Test("each of these seeded bugs is found", arguments: bugs)
    func finds(bug: String, seeds: Int) throws {
        let run = try simulate(["--seeds", "\(seeds)", "--steps", "400", "--first"], bug: bug)
        #expect(run.status == 1 && run.text.contains("FAILED"), "not found: \(run.text)")
    }

    /// Bugs that want one kind of fault.
    static let bugsOfFaults = [
        ("bar_ignored", "room", 400), ("row_sum_unchecked", "damage", 100), ("record_sum_unchecked", "damage", 200),
        ("reboot_ignored", "none", 60), ("sweep_takes_new_files", "none", 60),
    ]

    @Test("each of these seeded bugs is found with its kind of fault", arguments: bugsOfFaults)
    func finds(bug: String, faults: String, seeds: Int) throws {
        let run = try simulate(["--seeds", "\(seeds)", "--steps", "400", "--first", "--faults", faults], bug: bug)
        #expect(run.status == 1 && run.text.contains("FAILED"), "not found: \(run.text)")
    }

    private func simulate(_ arguments: [String], bug: String? = nil) throws -> (status: Int32, text: String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appendingPathComponent("Simulation")
        process.arguments = arguments
        var environment = ProcessInfo.processInfo.environment
        environment["CACHE_DAEMON_SEEDED_BUG"] = bug
        process.environment = environment
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus, text)
    }
}
