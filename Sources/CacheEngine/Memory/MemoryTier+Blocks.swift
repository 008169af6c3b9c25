// Making blocks from what the disk knows about an entry, and back.

import Primitives

extension MemoryTier {
    /// Gives a block that was just filled from disk the entry's metadata.
    func dress(_ block: EntryBlock, _ metadata: EntryMetadata) {
        block.cas = metadata.cas
        block.flags = metadata.flags
        block.marks = metadata.marks.persistent.union(.onDisk)
        block.deadline = instant(metadata.deadline)
        // No later than now, though a power cut may have left the anchor behind the row: nothing is younger than new.
        let now = clock.now()
        block.written = min(instant(metadata.written), now).bootSeconds
        block.accessed = min(instant(metadata.accessed), now).bootSeconds
        // The row's read mark is its access time: see `Shard.noteAccess`.
        if metadata.accessed.seconds > metadata.written.seconds { block.marks.formUnion([.fetched, .readMarkOnDisk]) }
        block.knownAccess = RecencyRule.minutes(block.accessed)
    }

    /// A block that stands for a value in a file.
    func makeStub(_ hash: UInt64, _ key: [UInt8], _ metadata: EntryMetadata, _ extended: [UInt8]) -> EntryBlock? {
        let bytes = MemoryLayout<FileReference>.size
        guard
            let block = EntryBlock.make(
                key: key.span, extended: extended.span, storedValueBytes: bytes, hash: hash)
        else { return nil }
        dress(block, metadata)
        block.turnIntoStub(
            valueBytes: metadata.valueBytes,
            file: FileReference(generation: metadata.generation, sum: metadata.valueSum))
        return block
    }

    /// A stub's or file entry's metadata, as a value file is checked against.
    func metadata(ofStub block: EntryBlock) -> EntryMetadata {
        let file = block.file
        return EntryMetadata(
            generation: file.generation, cas: block.cas, flags: block.flags, marks: block.marks.persistent,
            deadline: storeTime(block.deadline), written: storeTime(bootSeconds: block.written),
            accessed: storeTime(bootSeconds: block.accessed), valueBytes: block.valueBytes, valueSum: file.sum)
    }

    /// Unlinks the stub that a failed stream was opened for.
    ///
    /// False if the key holds something else by now.
    func dropStub(_ request: StreamRequest) -> Bool {
        var garbage = Garbage()
        let dropped = shard(request.hash).withLock { state in
            // SAFETY: the request owns its key, and the lookup keeps no pointer.
            let found = unsafe request.key.withUnsafeBytes { unsafe state.table.find(request.hash, $0) }
            guard let block = found, block.isStub, block.file.generation == request.metadata.generation else {
                return false
            }
            state.counters.misses += 1
            state.unlink(block, into: &garbage)
            return true
        }
        garbage.free()
        return dropped
    }
}

extension MemoryTier {
    /// The entry that a journal record holds, as a block; nil if the record is of another key (of equal hash), or the
    /// kernel refuses memory.
    func makeBlock(_ record: JournalRecord, key: UnsafeRawBufferPointer) -> EntryBlock? {
        let header = record.header
        // SAFETY: the caller holds the lock of the shard in which the record's write is pending, so the journal keeps
        // the record. Everything is copied; the block is made for the record's `valueBytes`, the length of
        // `record.value`.
        let recordKey = unsafe record.key
        guard recordKey.count == key.count, unsafe recordKey.elementsEqual(key) else { return nil }
        let metadata = EntryMetadata(header)
        let extended = unsafe Span<UInt8>(_unsafeBytes: record.extended)
        let keySpan = unsafe Span<UInt8>(_unsafeBytes: recordKey)
        if record.kind == .fileEntry {
            return unsafe makeStub(header.hash, Array(recordKey), metadata, Array(record.extended))
        }
        let block = EntryBlock.make(
            key: keySpan, extended: extended, storedValueBytes: Int(header.valueBytes), hash: header.hash)
        guard let block else { return nil }
        unsafe block.stored.copyMemory(from: record.value)
        dress(block, metadata)
        return block
    }

    /// The whole hash of a block's key.
    func hash(_ block: EntryBlock) -> UInt64 { unsafe hash(block.key) }

    /// Puts what the block knows about its entry into a journal header.
    func describe(_ block: EntryBlock, in header: inout JournalHeader) {
        header.hash = hash(block)
        header.cas = block.cas
        header.flags = block.flags
        header.marks = block.marks.persistent.rawValue
        header.deadline = storeTime(block.deadline).milliseconds
        header.written = storeTime(bootSeconds: block.written).milliseconds
        header.valueBytes = UInt32(block.valueBytes)
    }
}

extension EntryBlock {
    /// A block with the same key, extended data, flags and deadline, and room for a value of `valueBytes`; nil when the
    /// kernel refuses memory.
    func copy(valueBytes: Int) -> EntryBlock? {
        // SAFETY: the caller owns this block, holds its shard's lock or has it pinned; the bytes are copied.
        let fresh = unsafe EntryBlock.make(
            key: Span(_unsafeBytes: key), extended: Span(_unsafeBytes: extended), storedValueBytes: valueBytes,
            hash: UInt64(hash))
        guard let fresh else { return nil }
        fresh.flags = flags
        fresh.deadline = deadline
        fresh.marks = marks.persistent
        fresh.accessed = accessed
        fresh.written = written
        return fresh
    }

    /// A copy with the value and all metadata; nil when the kernel refuses memory.
    func copyWithValue() -> EntryBlock? {
        // SAFETY: as in `copy`; both blocks have room for `stored.count` bytes.
        guard let fresh = unsafe copy(valueBytes: stored.count) else { return nil }
        unsafe fresh.stored.copyMemory(from: UnsafeRawBufferPointer(stored))
        fresh.cas = cas
        if isStub { fresh.turnIntoStub(valueBytes: valueBytes, file: file) }
        return fresh
    }

    /// Like `copy`, for a value that stays in its file.
    func copyAsStub(valueBytes: Int, file: FileReference) -> EntryBlock? {
        let fresh = copy(valueBytes: MemoryLayout<FileReference>.size)
        fresh?.turnIntoStub(valueBytes: valueBytes, file: file)
        return fresh
    }

    /// Fills the value with `present` and `addition`, in that order or the other.
    func join(_ present: UnsafeRawBufferPointer, _ addition: UnsafeRawBufferPointer, isAppend: Bool) {
        // SAFETY: this block is new, so nobody else uses it; the caller keeps both values, and the lengths are checked.
        let (first, second) = unsafe isAppend ? (present, addition) : (addition, present)
        let target = unsafe stored
        invariant(target.count == first.count + second.count)
        unsafe UnsafeMutableRawBufferPointer(rebasing: target[..<first.count]).copyMemory(from: first)
        unsafe UnsafeMutableRawBufferPointer(rebasing: target[first.count...]).copyMemory(from: second)
    }

    /// Takes over what may have changed about an entry while its value was read.
    func takeMetadata(of stub: EntryBlock) {
        cas = stub.cas
        flags = stub.flags
        deadline = stub.deadline
        marks = stub.marks.subtracting([.stub, .unlinked])
        accessed = stub.accessed
        knownAccess = stub.knownAccess
        written = stub.written
    }

    /// The entry is stored anew: nobody has read it, it is not stale, and nobody has been asked to renew it.
    ///
    /// Its key stays what it was: one that came as base64 may hold bytes that would break a reply.
    func forgetHistory() { marks.formIntersection([.stub, .binaryKey]) }

    /// The entry is written now.
    func stamp(_ now: Instant) {
        written = now.bootSeconds
        accessed = now.bootSeconds
        knownAccess = RecencyRule.minutes(accessed)
    }

    /// Makes a block with room for a file reference stand for a value in a file.
    func turnIntoStub(valueBytes: Int, file: FileReference) {
        marks.insert(.stub)
        self.valueBytes = valueBytes
        self.file = file
    }
}

extension Shard {
    /// An entry that was read from its row, if its time is not over by what the journal says.
    func alive(_ found: EntryBlock?, now: Instant, disk: DiskTier, garbage: inout Garbage) -> EntryBlock? {
        guard let found else { return nil }
        applyPendingTouch(to: found, disk: disk)
        if found.deadline > now { return found }
        garbage.add(found)
        return nil
    }

    /// Gives an entry that was read from its row the deadline, id and marks of a touch that is still in the journal.
    private func applyPendingTouch(to block: EntryBlock, disk: DiskTier) {
        guard let write = pending.find(hash(block)), write.kind == .touch else { return }
        guard let header = disk.journal.wholeRecord(at: write.position)?.header else {
            // Nobody knows how long it is to live.
            block.deadline = Instant(milliseconds: 0)
            return
        }
        block.deadline = disk.memory.instant(WallTime(milliseconds: header.deadline))
        block.cas = header.cas
        block.marks = EntryMarks(rawValue: header.marks).union(block.marks.intersection([.stub, .onDisk]))
    }
}
