// Threads that each run one closure and leave one result, and the gate at which they start together.

import Glibc
import Primitives

/// Runs one closure on each of some threads of its own.
///
/// Any thread may wait for the results.
final class WorkerGroup<Result: Sendable>: Sendable {
    private struct State {
        var results: [Result?]
        var finished = 0
    }

    /// Guards: the results.
    ///
    /// Held for an assignment. A leaf.
    private let state: Monitor<State>

    /// Starts `count` threads; each runs `body` with its index.
    init(count: Int, body: @escaping @Sendable (Int) -> Result) {
        let state = Monitor(State(results: Array(repeating: nil, count: count)), rank: .leaf)
        self.state = state
        for index in 0..<count {
            let thread = ThreadBody {
                let result = body(index)
                state.update { state in
                    state.results[index] = result
                    state.finished += 1
                }
            }
            startThread(thread)
        }
    }

    /// The results in order of the threads, once all have finished; nil if that takes more than `milliseconds`.
    func wait(milliseconds: Int64) -> [Result]? {
        state.wait(milliseconds: milliseconds) { state in
            state.finished == state.results.count ? state.results.compactMap { $0 } : nil
        }
    }
}

/// What a new thread runs.
private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void

    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// Starts a detached thread; see pthread_create(3).
private func startThread(_ body: ThreadBody) {
    var thread = pthread_t()
    // SAFETY: the new thread takes over the one reference that is retained here.
    let argument = unsafe Unmanaged.passRetained(body).toOpaque()
    let result = unsafe pthread_create(&thread, nil, threadMain, argument)
    precondition(result == 0, "pthread_create: \(result)")
    pthread_detach(thread)
}

private func threadMain(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    if let argument = unsafe argument { unsafe Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().run() }
    return nil
}

/// Lets threads start at one moment: when all of them are ready.
final class StartGate: Sendable {
    private struct State {
        var missing: Int
        var start: UInt64?
        var isCancelled = false
    }

    /// Guards: who has come.
    ///
    /// Held for a comparison. A leaf.
    private let state: Monitor<State>

    /// A gate for `count` threads.
    init(count: Int) { state = Monitor(State(missing: count), rank: .leaf) }

    /// Waits for the others; the moment of the start in nanoseconds of the monotonic clock, or nil if one gave up.
    func pass() -> UInt64? {
        state.update { state in
            state.missing -= 1
            if state.missing == 0 { state.start = monotonicNanoseconds() }
        }
        let start: UInt64?? = state.wait { state in
            if state.isCancelled { return .some(nil) }
            return state.start.map { .some($0) }
        }
        return start ?? nil
    }

    /// Sends all others home: this thread cannot start.
    func cancel() { state.update { $0.isCancelled = true } }
}
