// The run that calls on files go to, and the few things that all runs share.

import Glibc
import SimulatedSystem
import TestSupport

/// The border to the simulated system.
enum Simulation {
    /// Wakes nobody, but sessions want one.
    static let control: Result<ServerControl, any Error> = Result { try ServerControl() }
    nonisolated(unsafe) private static weak var current: Run?
    nonisolated(unsafe) private static var isQuiet = false

    /// Lets calls go to `run` while `body` runs.
    static func with(_ run: Run, _ body: () throws -> Void) rethrows {
        current = run
        sim_set_hook { call, name, offset, count in
            Simulation.decide(call, name.map { String(cString: $0) } ?? "", offset, count)
        }
        defer {
            sim_set_hook(nil)
            current = nil
        }
        try body()
    }

    private static func decide(_ call: Int32, _ name: String, _ offset: Int64, _ count: Int64) -> Int64 {
        isQuiet ? count : current?.decide(call, name, offset, count) ?? count
    }

    /// A place without a call, where others may run.
    static func meet(_ name: String) { _ = decide(SIM_SLEEP.int, name, 0, 0) }

    /// Runs a check that is no part of the daemon.
    static func quietly<Result>(_ body: () throws -> Result) rethrows -> Result {
        isQuiet = true
        defer { isQuiet = false }
        return try body()
    }
}

extension Int {
    /// A kind of call as the hook gets it.
    var int: Int32 { Int32(self) }
}

/// Writes to standard output.
func output(_ text: String) {
    let bytes = Array(text.utf8)
    _ = Glibc.write(1, bytes, bytes.count)
}
