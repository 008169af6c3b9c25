// The value file of an entry that is being stored: written by a disk thread, awaited by the draft.
//
// Shared by the draft (on its client's thread) and the disk job that writes the file. If the draft is dropped, or its
// condition does not hold, the file is removed; if it is stored, the journal's record adopts it.

import Primitives

/// One value on its way into a file.
final class DraftFile: Sendable {
    enum Progress {
        case writing
        case finished(FinishedValueFile)
        case failed
    }

    struct State {
        /// The entry in memory; nil for values too large for the memory tier.
        var block: EntryBlock?
        var progress = Progress.writing
        /// Whether a journal record refers to the file.
        var isAdopted = false
        /// Whether there is no room for it.
        var isRefused = false
    }

    let generation: UInt64
    let hash: UInt64
    let key: [UInt8]
    let state: Guarded<State>
    private let disk: DiskTier

    init(generation: UInt64, hash: UInt64, key: [UInt8], block: EntryBlock?, disk: DiskTier) {
        self.generation = generation
        self.hash = hash
        self.key = key
        self.disk = disk
        state = Guarded(State(block: block), rank: .leaf)
    }

    /// Takes the block out: it is being linked into a shard.
    func takeBlock() -> EntryBlock? {
        state.withLock { state in
            let block = state.block
            state.block = nil
            return block
        }
    }

    /// The finished file, once it is there.
    var finished: FinishedValueFile? {
        state.withLock { if case .finished(let file) = $0.progress { file } else { nil } }
    }

    var hasFailed: Bool { state.withLock { if case .failed = $0.progress { true } else { false } } }

    func finish(_ progress: Progress) {
        state.withLock { $0.progress = progress }
        switch progress {
        case .finished(let file): disk.counters.add(file.fileBytes, to: .deviceBytes)
        case .failed: disk.space.release(generation)
        case .writing: break
        }
    }

    /// Whether the file is not to be written, because there is no room for it.
    var isRefused: Bool { state.withLock { $0.isRefused } }

    func refuse() { state.withLock { $0.isRefused = true } }

    func adopt() { state.withLock { $0.isAdopted = true } }

    deinit {
        let (block, isOrphan) = state.withLock { state in
            let isFinished = if case .finished = state.progress { true } else { false }
            return (state.block, isFinished && !state.isAdopted)
        }
        block?.free()
        if isOrphan { disk.removeFile(generation) }
    }
}
