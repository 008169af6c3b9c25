// Values that lie apart from their entries: how much memory they take, and how it is given back.
//
// Giving a value of a megabyte back takes as long as many requests; whoever removes or replaces one does not pay for
// it: the background thread does. What waits here still takes memory that no limit counts, so it is little: beyond
// that, the caller frees for himself. malloc keeps what is freed for values to come; when values are replaced by
// smaller entries there are none, so the background thread lets malloc give whole pages back whenever these values have
// come to take much less than before.

import CMalloc
import Primitives
import Synchronization

/// Memory of large values.
///
/// Thread-safe.
final class DeferredRelease: Sendable {
    /// Smaller values are freed at once.
    static let blockBytesMin = 256 << 10
    /// At most this much waits.
    static let bytesMax = 8 << 20
    /// malloc may keep this much, and a 32nd of what values took at their peak.
    static let keptBytesMax = 8 << 20

    private struct State {
        var chains: [MemoryChain] = []
        var bytes = 0
        /// Wakes the thread that frees.
        var wake: (@Sendable () -> Void)?
    }

    /// Guards what waits.
    private let state = Guarded(State(), rank: .leaf)
    /// What values that lie apart take, and the most that they took since malloc gave something back.
    private let taken = Atomic<Int>(0)
    private let peak = Atomic<Int>(0)
    private let wantsTrim = Atomic<Bool>(false)

    /// Calls `wake` when there is something to do.
    func setWake(_ wake: (@Sendable () -> Void)?) { state.withLock { $0.wake = wake } }

    /// Bytes that wait.
    var waitingBytes: Int { state.withLock { $0.bytes } }

    /// Takes over a chain of pieces, of which `bytes` count; false if too much waits already, or nobody frees.
    func take(_ chain: MemoryChain, bytes: Int) -> Bool {
        let wake = state.withLock { state -> (@Sendable () -> Void)? in
            guard let wake = state.wake, state.bytes + bytes <= Self.bytesMax else { return nil }
            state.chains.append(chain)
            state.bytes += bytes
            return wake
        }
        wake?()
        return wake != nil
    }

    /// A value of so many bytes was linked.
    func noteTaken(_ bytes: Int) {
        let total = taken.add(bytes, ordering: .relaxed).newValue
        if total > peak.load(ordering: .relaxed) { peak.store(total, ordering: .relaxed) }
    }

    /// Values of so many bytes are on their way to be freed.
    func noteFreed(_ bytes: Int) {
        let total = taken.subtract(bytes, ordering: .relaxed).newValue
        let before = peak.load(ordering: .relaxed)
        guard before - total > Self.keptBytesMax + before / 32 else { return }
        if wantsTrim.exchange(true, ordering: .relaxed) { return }
        state.withLock { $0.wake }?()
    }

    /// Frees what waits, and lets malloc give back what it keeps for no use.
    func freeAll() {
        let chains = state.withLock { state in
            let taken = state.chains
            state.chains = []
            state.bytes = 0
            return taken
        }
        for chain in chains { chain.free() }
        guard wantsTrim.load(ordering: .relaxed) else { return }
        peak.store(taken.load(ordering: .relaxed), ordering: .relaxed)
        wantsTrim.store(false, ordering: .relaxed)
        _ = malloc_trim(0)
    }

    deinit { freeAll() }
}
