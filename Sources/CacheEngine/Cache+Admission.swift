// Stores that may stay off the disk: what the journal must say so that nothing stale is ever read, and what a stop
// still writes.
//
// The rule: what memory holds for a key is either on disk as well (mark `onDisk`), or the disk holds nothing for the
// key. So an entry that is not admitted brings a deletion into the journal, unless it is certain that the key has
// neither a row nor a write on its way. Called under the shard's lock, but for what a stop does.

import Primitives

extension Cache {
    /// Journals a block that is about to be linked, or makes sure that the disk has nothing for its key; false if the
    /// journal has no room.
    @inline(__always)
    func journalStore(
        _ block: EntryBlock, generation: UInt64, file: FinishedValueFile?, _ shard: inout Shard, now: Instant
    ) -> Bool {
        guard let disk, !disk.policy.isOpen, file == nil, !block.isStub else {
            return journalEntry(block, generation: generation, file: file, &shard)
        }
        return journalIfAdmitted(block, generation: generation, disk, &shard, now: now)
    }

    private func journalIfAdmitted(
        _ block: EntryBlock, generation: UInt64, _ disk: DiskTier, _ shard: inout Shard, now: Instant
    ) -> Bool {
        // A large value that was admitted comes with its file.
        if block.valueBytes <= disk.inlineBytesMax,
            case .admitted = disk.policy.verdict(storing: memory.hash(block), bytes: block.diskBytes, &shard, now: now)
        {
            return journalEntry(block, generation: generation, file: nil, &shard)
        }
        // Evictions write to the journal, too, and cannot wait: stores do it for them.
        if disk.takesWrites, disk.journal.usedBytes > disk.journal.capacity / 4 * 3 { return false }
        return journalAbsence(block, &shard)
    }

    /// Makes sure that the disk has nothing for the block's key; false if the journal has no room.
    func journalAbsence(_ block: EntryBlock, _ shard: inout Shard) -> Bool {
        let hash = memory.hash(block)
        if let write = shard.pending.find(hash) {
            if write.kind == .deletion {
                if !shard.flights.isEmpty { shard.flights[hash] = nil }
                return true
            }
        } else if !shard.mayBeOnDisk(hash) {
            if !shard.flights.isEmpty { shard.flights[hash] = nil }
            return true
        }
        // SAFETY: the block is the caller's or linked into the locked shard; the journal copies the key.
        return unsafe journalDeletion(hash, block.key, &shard)
    }

    /// Whether a draft's value, which would go into a file of its own, is to be written at all.
    ///
    /// One that is too large for memory always is.
    func admitsFile(of draft: borrowing EntryDraft, now: Instant) -> Bool {
        guard let disk, !disk.policy.isOpen, draft.file == nil else { return true }
        let block = draft.block
        return memory.withShard(draft.hash) { admitsFile(bytes: block.diskBytes, draft.hash, &$0, now: now) }
    }

    /// Whether a value of `bytes`, which would go into a file of its own, is to be written at all.
    func admitsFile(bytes: Int, _ hash: UInt64, _ shard: inout Shard, now: Instant) -> Bool {
        guard let disk, !disk.policy.isOpen else { return true }
        if case .admitted = disk.policy.verdict(storing: hash, bytes: bytes, &shard, now: now) { return true }
        return false
    }

    // MARK: The stop

    /// Longest time that a stop spends on entries that are only in memory, in ms.
    private static var writeOutMilliseconds: Int64 { 20_000 }

    /// Brings entries that are only in memory to disk, as far as the policy wants them there.
    ///
    /// The cache is not used any more. What is left after some time is lost, as in any eviction.
    func writeOutMemory() {
        guard let disk, disk.policy.demotes else { return }
        let end = SystemClock().now().advanced(byMilliseconds: Self.writeOutMilliseconds)
        let box = Mailbox()
        for shard in memory.shards {
            let modulus = shard.withLock { $0.table.positions }
            for start in stride(from: 0, to: modulus, by: Trim.stepEntries) {
                guard disk.takesWrites, SystemClock().now() < end else { return }
                let step = Trim.Step(positions: start..<min(start + Trim.stepEntries, modulus), modulus: modulus)
                for entry in entriesToWrite(shard, step, disk.policy) { writeOut(entry, shard, disk, box) }
            }
        }
    }

    /// Pinned, because room in the journal must not be waited for under the shard's lock: the writer needs that.
    private func entriesToWrite(
        _ shard: Guarded<Shard>, _ step: Trim.Step, _ policy: AdmissionPolicy
    ) -> [PinnedEntry] {
        let now = clock.now()
        return shard.withLock { state in
            var blocks: [EntryBlock] = []
            step.visit(state.table) { if $0.deadline > now, !$0.marks.contains(.onDisk) { blocks.append($0) } }
            return blocks.filter { !policy.refuses($0, &state, now: now) }
                .map { PinnedEntry(pinning: $0, shard: shard) }
        }
    }

    private func writeOut(_ entry: PinnedEntry, _ shard: Guarded<Shard>, _ disk: DiskTier, _ box: Mailbox) {
        let hash = shard.withLock { $0.hash(entry.block) }
        var file: DraftFile?
        if entry.valueBytes > disk.inlineBytesMax {
            // SAFETY: the pin keeps the block, whose key and value do not change; the key is copied.
            let made = DraftFile(
                generation: generations.next(), hash: hash, key: unsafe Array(entry.block.key), block: nil, disk: disk)
            let waiter = box.waiter()
            // With room or without: then the file is refused.
            if !disk.hasRoom(for: made, valueBytes: entry.valueBytes, .run { _ in waiter.complete(.retry) }) {
                _ = box.next()
            }
            unsafe disk.write(entry.value, to: made)
            guard made.finished != nil else { return }
            file = made
        }
        while disk.takesWrites {
            let isDone = shard.withLock { state in
                // Evicted meanwhile, which has written it, or not.
                if entry.block.marks.contains(.unlinked) { return true }
                return disk.journal(
                    entry.block, generation: file?.generation ?? generations.next(), file: file?.finished, &state)
            }
            if isDone { break }
            disk.whenJournalHasRoom(box.waiter())
            _ = box.next()
        }
        if shard.withLock({ _ in entry.block.marks.contains(.onDisk) }) { file?.adopt() }
    }
}
