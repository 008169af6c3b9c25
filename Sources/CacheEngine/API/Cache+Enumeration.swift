// Walking through the entries of a cache: bounded steps, no lock held while the program looks at an entry.
//
// Rows are walked in the order of their hashes, so that an entry that is there from the beginning of a walk to its end
// is shown exactly once, however often it is overwritten or changes tiers. What is stored or removed meanwhile may be
// shown or not. `EntryWalk` is the same for event loops.

import Primitives

extension Cache {
    /// Shows `body` every live entry of one tier, or of both (nil), in no order; `body` may end the walk.
    ///
    /// Does not count as use. An entry that is in both tiers is shown once, as in memory. The calling thread waits for
    /// the disk. O(entries); holds the metadata of some hundred entries at a time, and for a walk through both tiers 8
    /// bytes for each entry in memory.
    public func forEachEntry(in tier: Tier? = nil, _ body: (_ entry: EntryInfo, _ stop: inout Bool) -> Void) {
        if tier == .memory { return _ = walkMemory(body) }
        settleIndex()
        var shown: [UInt64] = []
        if tier == nil,
            walkMemory({
                shown.append(hash(of: $0)); body($0, &$1)
            })
        {
            return
        }
        shown.sort()
        var walk = DiskWalk()
        let box = Mailbox()
        while let entries = step(of: &walk, box.waiter(), wait: { _ = box.next() }) {
            if Self.show(entries, but: shown, body) { return }
        }
    }

    /// The keys of all live entries of one tier, or of both, in no order.
    ///
    /// For small caches and tests.
    public func keys(in tier: Tier? = nil) -> [[UInt8]] {
        var keys: [[UInt8]] = []
        forEachEntry(in: tier) { entry, _ in keys.append(entry.key) }
        return keys
    }

    // MARK: Memory

    /// Whether `body` ended the walk.
    private func walkMemory(_ body: (EntryInfo, inout Bool) -> Void) -> Bool {
        performDueFlush(clock.now())
        for shard in memory.shards {
            let modulus = shard.withLock { $0.table.positions }
            for start in stride(from: 0, to: modulus, by: Trim.stepEntries) {
                let step = Trim.Step(positions: start..<min(start + Trim.stepEntries, modulus), modulus: modulus)
                var stop = false
                for entry in entries(of: shard, step) where !stop { body(entry, &stop) }
                if stop { return true }
            }
        }
        return false
    }

    private func entries(of shard: Guarded<Shard>, _ step: Trim.Step) -> [EntryInfo] {
        let now = clock.now()
        return shard.withLock { shard in
            var entries: [EntryInfo] = []
            step.visit(shard.table) { if $0.deadline > now { entries.append(EntryInfo($0, now: now)) } }
            return entries
        }
    }

    private func hash(of entry: EntryInfo) -> UInt64 {
        // SAFETY: hashing reads the bytes during the call only.
        unsafe entry.key.withUnsafeBytes { unsafe memory.hash($0) }
    }

    // MARK: Disk

    /// How far a walk through the rows has come, by hash; nil at the end.
    private struct DiskWalk {
        var hash: Int64? = .min
    }

    /// The live entries of the next rows; nil at the end.
    private func step(of walk: inout DiskWalk, _ waiter: Waiter, wait: () -> Void) -> [(UInt64, EntryInfo)]? {
        guard let disk, disk.isServing, let hash = walk.hash else { return nil }
        let answer = Answer<ScanPage?>(nil)
        let isAccepted = disk.enqueue(
            .run { reader in
                do throws(DiskError) {
                    answer.value = try reader.currentIndex()?.scan(fromHash: hash, limit: Trim.stepEntries)
                } catch {
                    disk.counters.add(to: .readErrors)
                }
                waiter.complete(.retry)
            })
        guard isAccepted else { return nil }
        wait()
        guard let page = answer.value else { return nil }
        walk.hash = page.next
        return page.entries.compactMap { entry in info(entry, disk).map { (entry.hash, $0) } }
    }

    private func info(_ entry: ScannedEntry, _ disk: DiskTier) -> EntryInfo? {
        let now = clock.now()
        let deadline = memory.instant(entry.metadata.deadline)
        guard entry.metadata.generation > disk.flushGeneration, deadline > now else { return nil }
        return EntryInfo(
            key: entry.key, entry.metadata, extendedBytes: 0, deadline: deadline, now: now,
            time: memory.storeTime(now), isFile: entry.fileBytes > 0)
    }

    /// Shows the entries that were not shown yet; whether `body` ended the walk.
    private static func show(
        _ entries: [(UInt64, EntryInfo)], but shown: [UInt64], _ body: (EntryInfo, inout Bool) -> Void
    ) -> Bool {
        var stop = false
        for (hash, entry) in entries where !stop && !contains(shown, hash) { body(entry, &stop) }
        return stop
    }

    private static func contains(_ sorted: [UInt64], _ hash: UInt64) -> Bool {
        var low = 0
        var high = sorted.count
        while low < high {
            let middle = (low + high) / 2
            if sorted[middle] < hash { low = middle + 1 } else { high = middle }
        }
        return low < sorted.count && sorted[low] == hash
    }
}
