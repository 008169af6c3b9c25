// What a change says to the journal before it is acknowledged, and when it may go on without.
//
// All of it runs under the lock of the key's shard, so that the order of a key's records is the order of its changes.

import Primitives
import Synchronization

extension Cache {
    /// Whether a write has to be journalled, may go on without, or has to wait.
    private enum Admission {
        case journal(DiskTier)
        case memoryOnly
    }

    /// Takes note of a write of `hash`: a disk lookup under way must not bring the old row back.
    @inline(__always)
    private func admission(_ hash: @autoclosure () -> UInt64, _ shard: inout Shard) -> Admission {
        if !shard.flights.isEmpty { shard.flights[hash()] = nil }
        guard let disk, disk.isServing else { return .memoryOnly }
        if disk.isJournalClosed.load(ordering: .relaxed) {
            shard.pending.put(hash(), PendingWrite(kind: .barred, sequence: .max, position: 0))
            shard.counters.barredWrites += 1
            return .memoryOnly
        }
        return .journal(disk)
    }

    func journalEntry(
        _ block: EntryBlock, generation: UInt64, file: FinishedValueFile?, _ shard: inout Shard
    ) -> Bool {
        guard case .journal(let disk) = admission(memory.hash(block), &shard) else { return true }
        return disk.journal(block, generation: generation, file: file, &shard)
    }

    /// Journals an entry that is not a block yet; the marks that it gets for that, nil if the journal has no room.
    @inline(__always)
    func journalWhole(
        _ entry: WholeEntry, _ hash: UInt64, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ shard: inout Shard
    ) -> EntryMarks? {
        guard let reference = unsafe diskReference else { return [] }
        // SAFETY: the cache holds the tier. The journal copies key and value during the call.
        return unsafe reference._withUnsafeGuaranteedRef { disk in
            guard disk.takesWrites else {
                if case .journal = admission(hash, &shard) { return nil }
                return []
            }
            if !shard.flights.isEmpty { shard.flights[hash] = nil }
            var header = JournalHeader(kind: .inlineEntry)
            header.hash = hash
            header.generation = entry.number
            header.cas = entry.number
            header.flags = entry.flags
            header.deadline = memory.storeTime(entry.deadline).milliseconds
            header.written = memory.storeTime(bootSeconds: entry.written).milliseconds
            header.valueBytes = UInt32(truncatingIfNeeded: value.count)
            let nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
            guard let place = unsafe disk.journal.append(header, key: key, extended: nothing, value: value) else {
                return nil
            }
            shard.pending.put(hash, PendingWrite(kind: .entry, sequence: place.sequence, position: place.position))
            shard.counters.admittedEntries &+= 1
            shard.counters.admittedBytes &+= value.count
            return .onDisk
        }
    }

    func journalDeletion(_ hash: UInt64, _ key: UnsafeRawBufferPointer, _ shard: inout Shard) -> Bool {
        guard case .journal(let disk) = admission(hash, &shard) else { return true }
        #if DEBUG
            if SeededBug.isActive(.deletionNotJournalled) {
                shard.pending.put(hash, PendingWrite(kind: .deletion, sequence: .max, position: 0))
                return true
            }
        #endif
        var header = JournalHeader(kind: .deletion)
        header.hash = hash
        header.generation = generations.next()
        // SAFETY: an empty buffer points nowhere, and the journal copies the key during the call.
        let nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        guard let place = unsafe disk.journal.append(header, key: key, extended: nothing, value: nothing) else {
            return false
        }
        shard.pending.put(hash, PendingWrite(kind: .deletion, sequence: place.sequence, position: place.position))
        return true
    }

    /// Journals the block's deadline.
    ///
    /// If the entry itself is still in the journal it is journalled again, whole, so that the newest record of a key
    /// always says everything.
    func journalTouch(_ block: EntryBlock, _ shard: inout Shard) -> Bool {
        guard case .journal(let disk) = admission(memory.hash(block), &shard) else { return true }
        #if DEBUG
            if SeededBug.isActive(.touchNotJournalled) { return true }
        #endif
        let write = shard.pending.find(memory.hash(block))
        if write?.kind == .entry, let write {
            // One that is damaged takes the store along anyway.
            guard let record = disk.journal.wholeRecord(at: write.position) else { return true }
            return journalAgain(block, record.header, &shard, disk)
        }
        if isOnlyInMemory(block, write) { return true }
        var header = JournalHeader(kind: .touch)
        memory.describe(block, in: &header)
        header.generation = generations.next()
        header.written = memory.storeTime(bootSeconds: block.accessed).milliseconds
        let nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        guard let place = unsafe disk.journal.append(header, key: block.key, extended: nothing, value: nothing) else {
            return false
        }
        shard.pending.put(
            header.hash, PendingWrite(kind: .touch, sequence: place.sequence, position: place.position))
        return true
    }

    /// Whether the disk has nothing for the entry: it was not admitted, its file could not be written, or the journal
    /// was closed.
    ///
    /// A row that is still there is that of an older value and about to be removed. A touch would take the place of
    /// the deletion, and the row for this entry's.
    private func isOnlyInMemory(_ block: EntryBlock, _ write: PendingWrite?) -> Bool {
        #if DEBUG
            if SeededBug.isActive(.touchHidesDeletion) { return false }
        #endif
        return !block.marks.contains(.onDisk) || write?.kind == .deletion || write?.kind == .barred
    }

    private func journalAgain(
        _ block: EntryBlock, _ before: JournalHeader, _ shard: inout Shard, _ disk: DiskTier
    ) -> Bool {
        let isFile = before.kind == JournalHeader.Kind.fileEntry.rawValue
        let file =
            isFile
            ? FinishedValueFile(
                valueBytes: block.valueBytes, valueSum: before.valueSum, fileBytes: Int(before.fileKiB) << 10) : nil
        return journalEntry(
            block, generation: isFile ? before.generation : generations.next(), file: file, &shard)
    }
}
