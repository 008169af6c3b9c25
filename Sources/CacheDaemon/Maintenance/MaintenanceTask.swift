// What the program does instead of serving: check a store, export or import entries.
//
// Names the tasks and tells how far they are; each task is in a file of its own. Results go to standard output, or
// where the task says; progress and complaints to standard error. One thread, no event loop.

import CacheEngine
import Glibc
import Primitives

/// A task on a store.
enum MaintenanceTask: Equatable, Sendable {
    /// `--check DIR`, with `--repair`.
    case check(directory: String, repairs: Bool)
    /// `--export SOURCE FILE` or `--import TARGET FILE`.
    case transfer(TransferTask)

    /// Everything is in order.
    static let fine: Int32 = 0
    /// Something was wrong and has been removed; see fsck(8).
    static let repaired: Int32 = 1
    /// Something is wrong.
    static let wrong: Int32 = 4
    /// A cache holds the directory.
    static let inUse: Int32 = 75

    /// Does it; returns the exit status.
    func run(_ settings: Settings) -> Int32 {
        switch self {
        case .check(let directory, let repairs):
            return CheckTask(directory: directory, repairs: repairs).run(settings)
        case .transfer(let task): return task.isExport ? task.export(settings) : task.importAll(settings)
        }
    }

    /// Complains; returns the status that says why.
    static func refuse(_ error: CacheError) -> Int32 {
        StandardStream.error.write("cache-daemon: \(error)\n")
        if case .directoryInUse = error { return inUse }
        return Launch.refusalStatus
    }
}

/// Shows on standard error how far a task is: a line that changes on a terminal, else a line every ten seconds.
final class ProgressLine {
    private let movesCursor = StandardStream.error.movesCursor
    private var last = Instant(milliseconds: 0)
    private var isShown = false
    private let clock = SystemClock()

    /// Shows `text`, if the last one is old enough.
    func show(_ text: @autoclosure () -> String) {
        let now = clock.now()
        guard now >= last.advanced(byMilliseconds: movesCursor ? 200 : 10_000) else { return }
        // The first ten seconds of a pipe stay silent.
        if !movesCursor, last == Instant(milliseconds: 0) { return last = now }
        last = now
        isShown = true
        StandardStream.error.write(movesCursor ? "\r\(text())\u{1b}[K" : "\(text())\n")
    }

    /// Takes the line away.
    func end() {
        if isShown, movesCursor { StandardStream.error.write("\r\u{1b}[K") }
    }
}
