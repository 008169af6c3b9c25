// What a start finds left over, cleaned up in the background: orphaned value files of earlier epochs, former stores.
//
// Begins when the journal's tail of the earlier process has reached the index, because its records may refer to files
// that no row has yet. A few hundred names per step, between the writer's batches.

import Primitives

/// Confined to the writer's thread.
final class DiskCleanup {
    static let namesPerStep = 256

    private var sweep: OrphanSweep?
    private var replayedUpTo: UInt64
    private var isDone = false

    /// `journalSequence`: the newest record that the earlier process left.
    init(replayedUpTo journalSequence: UInt64) { replayedUpTo = journalSequence }

    /// A new store was made: there is a former one to remove.
    func restart() {
        sweep = nil
        isDone = false
    }

    /// Whether there is more to do soon.
    var hasMore: Bool { !isDone }

    func step(_ writer: DiskWriter) {
        guard !isDone, let index = writer.index, index.sequence >= replayedUpTo else { return }
        let disk = writer.disk
        if sweep == nil { sweep = disk.store.withLock { $0.files }.sweep(epochsBefore: disk.directory.epoch) }
        do {
            let before = sweep?.progress.removed ?? 0
            let progress = try sweep?.step(budget: Self.namesPerStep) { generation throws(DiskError) in
                try index.hasFile(generation: generation)
            }
            guard let progress else { return }
            disk.chores.withLock { chores in
                chores.sweptDirectories = sweep?.subdirectoriesDone ?? 0
                chores.orphansRemoved += progress.removed - before
                chores.isSweeping = !progress.isDone
            }
            disk.counters.add(progress.removed - before, to: .orphansRemoved)
            guard progress.isDone else { return }
            isDone = try disk.directory.removeOldStores(
                keepNewestQuarantine: true, budget: Self.namesPerStep
            ).isDone
        } catch {
            // Left for the next start: nothing that is served depends on it.
            disk.counters.add(to: .writeErrors)
            disk.chores.withLock { $0.isSweeping = false }
            isDone = true
        }
    }
}
