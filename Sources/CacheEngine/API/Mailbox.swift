// Where one blocking or async call waits for the disk: completions come in, the caller takes them out in order.
//
// The blocking forms sleep on a semaphore; the async forms suspend on a continuation, which the posting disk thread
// resumes. One reader at a time, of one kind: a mailbox belongs to one call.

import Primitives

/// The completions of one call.
final class Mailbox: CompletionQueue {
    private struct State {
        var waiting: [Completion] = []
        var reader: CheckedContinuation<Completion, Never>?
    }

    /// Guards the completions that nobody took yet, and the suspended reader.
    private let state = Guarded(State(), rank: .mailbox)
    private let arrived = Semaphore()

    func post(_ completion: Completion) {
        let reader = state.withLock { state in
            let reader = state.reader
            state.reader = nil
            if reader == nil { state.waiting.append(completion) }
            return reader
        }
        if let reader { reader.resume(returning: completion) } else { arrived.signal() }
    }

    /// A waiter whose completion comes here.
    func waiter(_ token: UInt64 = 0) -> Waiter { Waiter(queue: self, token: token) }

    /// The next completion; blocks the thread until there is one.
    func next() -> Completion {
        arrived.wait()
        return state.withLock { $0.waiting.removeFirst() }
    }

    /// The next completion with this token; earlier ones with another were for a wait that is over.
    func next(_ token: UInt64) -> Completion {
        while true {
            let completion = next()
            if completion.token == token { return completion }
        }
    }

    /// The next completion; suspends the task until there is one.
    func nextSuspending() async -> Completion {
        await withCheckedContinuation { continuation in
            let ready = state.withLock { state -> Completion? in
                if !state.waiting.isEmpty { return state.waiting.removeFirst() }
                state.reader = continuation
                return nil
            }
            if let ready { continuation.resume(returning: ready) }
        }
    }

    /// The next completion with this token, as `next`.
    func nextSuspending(_ token: UInt64) async -> Completion {
        while true {
            let completion = await nextSuspending()
            if completion.token == token { return completion }
        }
    }
}
