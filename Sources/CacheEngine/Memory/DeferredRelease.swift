// Large values that were unlinked, on their way to be freed by the background thread.
//
// Giving a value of a megabyte back to the kernel takes as long as many requests; whoever removes or replaces one does
// not pay for it. What waits here still takes memory that no limit counts, so it is little: beyond that, the caller
// frees for himself.

import Primitives

/// Blocks that wait to be freed.
///
/// Thread-safe.
final class DeferredRelease: Sendable {
    /// Smaller blocks are freed at once.
    static let blockBytesMin = 256 << 10
    /// At most this much waits.
    static let bytesMax = 8 << 20

    private struct State {
        /// Chains of blocks.
        var chains: [EntryBlock] = []
        var bytes = 0
        /// Wakes the thread that frees.
        var wake: (@Sendable () -> Void)?
    }

    /// Guards what waits.
    private let state = Guarded(State(), rank: .leaf)

    /// Calls `wake` when there is something to free.
    func setWake(_ wake: (@Sendable () -> Void)?) { state.withLock { $0.wake = wake } }

    /// Bytes that wait.
    var waitingBytes: Int { state.withLock { $0.bytes } }

    /// Takes over a chain of blocks, of which `bytes` count; false if too much waits already, or nobody frees.
    func take(_ chain: EntryBlock, bytes: Int) -> Bool {
        let wake = state.withLock { state -> (@Sendable () -> Void)? in
            guard let wake = state.wake, state.bytes + bytes <= Self.bytesMax else { return nil }
            state.chains.append(chain)
            state.bytes += bytes
            return wake
        }
        wake?()
        return wake != nil
    }

    /// Frees what waits.
    func freeAll() {
        let chains = state.withLock { state in
            let taken = state.chains
            state.chains = []
            state.bytes = 0
            return taken
        }
        for chain in chains { Garbage.free(chain) }
    }

    deinit { freeAll() }
}
