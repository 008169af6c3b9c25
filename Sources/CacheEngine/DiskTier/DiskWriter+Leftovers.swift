// What the disk writer does beside the journal's records: files that lost their rows, and access times.

import Primitives

extension DiskWriter {
    /// Unlinks value files that no row refers to any more.
    ///
    /// A failure leaves an orphan for the next start's sweep.
    func removeFiles(_ generations: [UInt64]) {
        guard !generations.isEmpty else { return }
        let files = disk.store.withLock { $0.files }
        for generation in generations {
            do throws(ValueFileError) {
                _ = try files.remove(generation: generation)
                disk.space.release(generation)
            } catch {
                disk.counters.add(to: .writeErrors)
            }
        }
    }

    /// Brings access times of entries that left memory into the open transaction.
    func tellRecency(_ index: DiskIndex) throws(DiskError) {
        for shard in memory.shards {
            let news = shard.withLock { shard in
                shard.takeRecency(committed: index.sequence)
            }
            // An entry that came and went several times counts with its last use.
            var told = Set<UInt64>(minimumCapacity: news.count)
            for access in news.reversed() where told.insert(access.hash).inserted {
                try index.setAccessed(hash: access.hash, memory.storeTime(bootSeconds: access.accessed))
            }
            disk.counters.add(told.count, to: .recencyWrites)
        }
    }

    /// Brings access times into the index in a transaction of their own, before a trim goes by them.
    func tellRecencyNow(_ index: DiskIndex) throws(DiskError) {
        guard memory.shards.contains(where: { $0.withLock { !$0.recency.isEmpty } }) else { return }
        try index.begin()
        try tellRecency(index)
        try index.commit()
    }
}
