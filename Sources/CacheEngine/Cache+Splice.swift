// Append and prepend: a new value made of the present one and the draft's bytes.
//
// Small results are joined under the shard's lock. A result that belongs into a file is joined on a disk thread, from
// the pinned present value or its file; it is stored only if the entry still is the version that it was made from
// (`EntryVersion`), else it is made again. What is joined counts as stored anew: not stale, not won, not read.

import Primitives

extension Cache {
    /// Stores the draft's bytes behind or before the value that its key holds.
    func splice(
        _ draft: inout EntryDraft, isAppend: Bool, now: Instant, flight: Flight?
    ) -> StoreOutcome {
        if draft.waitsForUpload { return .unresolved(.valueFile) }
        let hash = draft.hash
        let guarded = memory.shard(hash)
        var garbage = Garbage()
        let outcome = guarded.withLock { shard -> StoreOutcome in
            // SAFETY: the draft owns its block until it is placed. The present block is used under the shard's lock,
            // which keeps it; a joining outside the lock holds a pin.
            let found = unsafe presence(hash, draft.block.key, &shard, now: now, flight: flight, garbage: &garbage)
            switch found {
            case .unknown: return .unresolved(.entryOnDisk)
            case .absent:
                guard let deadline = draft.terms.vivify else { return .notStored }
                if draft.waitsForFile(writableDisk),
                    draft.file != nil || admitsFile(bytes: draft.block.diskBytes, hash, &shard, now: now)
                {
                    return .unresolved(.valueFile)
                }
                draft.block.deadline = capped(deadline)
                return place(&draft, insteadOf: nil, &shard, now: now, garbage: &garbage)
            case .resident(let present):
                if let cas = draft.terms.compare, cas != present.cas { return .exists }
                let total = present.valueBytes + draft.valueBytes
                if total > options.entryBytesMax { return .notStored }
                let staysSmall = !present.isStub && !draft.isStreamed && total <= memory.valueBytesMax
                let isInline = total <= (writableDisk?.inlineBytesMax ?? .max)
                if staysSmall,
                    isInline || draft.splice == nil && !admitsFile(bytes: total, hash, &shard, now: now)
                {
                    return joinInMemory(&draft, present, isAppend, &shard, now: now, garbage: &garbage)
                }
                guard let disk = writableDisk else { return .notStored }
                return joinInFile(&draft, present, guarded, isAppend, &shard, disk, now: now, garbage: &garbage)
            }
        }
        garbage.free()
        if case .unresolved = outcome { return outcome }
        draft.spend()
        return outcome
    }

    private func joinInMemory(
        _ draft: inout EntryDraft, _ present: EntryBlock, _ isAppend: Bool, _ shard: inout Shard, now: Instant,
        garbage: inout Garbage
    ) -> StoreOutcome {
        let addition = draft.block
        guard let joined = present.copy(valueBytes: present.valueBytes + addition.valueBytes) else { return .noRoom }
        // SAFETY: the shard is locked and the draft owns the addition, so both stay; `join` checks that the lengths add
        // up.
        unsafe joined.join(present.value, addition.value, isAppend: isAppend)
        joined.forgetHistory()
        joined.cas = draft.terms.explicitCAS ?? generations.next()
        joined.stamp(now)
        guard journalStore(joined, generation: generations.next(), file: nil, &shard, now: now) else {
            joined.free()
            return .unresolved(.journalFull)
        }
        let block = install(joined, insteadOf: present, &shard, now: now, garbage: &garbage)
        draft.storedBytes = block.valueBytes
        return .stored(cas: block.cas)
    }

    private func joinInFile(
        _ draft: inout EntryDraft, _ present: EntryBlock, _ guarded: Guarded<Shard>, _ isAppend: Bool,
        _ shard: inout Shard, _ disk: DiskTier, now: Instant, garbage: inout Garbage
    ) -> StoreOutcome {
        if let splice = draft.splice, splice.base.isVersion(of: present) {
            if splice.file.hasFailed { return .noRoom }
            if var joined = splice.joinedDraft() {
                // A touch may have come while the file was written.
                joined.block.deadline = present.deadline
                joined.terms.explicitCAS = draft.terms.explicitCAS
                draft.storedBytes = joined.valueBytes
                return place(&joined, insteadOf: present, &shard, now: now, garbage: &garbage)
            }
            return .unresolved(.valueFile)
        }
        guard let addition = draft.addition else { return .noRoom }
        let total = present.valueBytes + draft.valueBytes
        let generation = generations.next()
        // Made here, under the lock, because it takes over what the present entry's header says.
        let keepsValue = !present.isStub && !draft.isStreamed && total <= memory.valueBytesMax
        let joined =
            keepsValue
            ? present.copy(valueBytes: total)
            : present.copyAsStub(valueBytes: total, file: FileReference(generation: generation, sum: 0))
        guard let joined else { return .noRoom }
        joined.forgetHistory()
        // SAFETY: the shard is locked, so the present block stays; its key is copied.
        let file = DraftFile(
            generation: generation, hash: draft.hash, key: unsafe Array(present.key), block: joined, disk: disk)
        draft.renewSplice(
            SpliceRequest(
                file: file, base: EntryVersion(of: present, shard: guarded),
                value: PinnedEntry(pinning: present, shard: guarded),
                baseMetadata: present.isStub ? memory.metadata(ofStub: present) : nil,
                addition: addition, isAppend: isAppend, keepsValue: keepsValue))
        return .unresolved(.valueFile)
    }
}

/// What is joined to a stored value: bytes, or, of an addition that is too large for memory, the file that it was
/// uploaded to.
enum Addition: Sendable {
    case bytes([UInt8])
    case upload(DraftFile, EntryMetadata)
}

extension EntryDraft {
    /// Whether the value is still streaming to its file.
    fileprivate var waitsForUpload: Bool { isStreamed && waitsForFile(nil) }

    /// The draft's value as what is to be joined; nil if it could not be uploaded.
    fileprivate var addition: Addition? {
        // SAFETY: the draft owns its block, and the value is complete; it is copied.
        guard isStreamed else { return unsafe .bytes(Array(block.value)) }
        guard let file, let finished = file.finished else { return nil }
        let metadata = EntryMetadata(
            generation: file.generation, cas: 0, flags: 0, marks: [], deadline: .never,
            written: WallTime(milliseconds: 0), accessed: WallTime(milliseconds: 0), valueBytes: finished.valueBytes,
            valueSum: finished.valueSum)
        return .upload(file, metadata)
    }
}

/// The joining of a stored value and an addition in a new file, on a disk thread.
final class SpliceRequest: Sendable {
    let file: DraftFile
    /// The version that the joined value is made from.
    let base: EntryVersion
    private let value: PinnedEntry
    private let baseMetadata: EntryMetadata?
    private let addition: Addition
    private let isAppend: Bool
    private let keepsValue: Bool
    private let waiter: Guarded<Waiter?> = Guarded(nil, rank: .leaf)

    init(
        file: DraftFile, base: EntryVersion, value: PinnedEntry, baseMetadata: EntryMetadata?, addition: Addition,
        isAppend: Bool, keepsValue: Bool
    ) {
        self.file = file
        self.base = base
        self.value = value
        self.baseMetadata = baseMetadata
        self.addition = addition
        self.isAppend = isAppend
        self.keepsValue = keepsValue
    }

    /// Bytes of the joined value.
    var valueBytes: Int {
        let added =
            switch addition {
            case .bytes(let bytes): bytes.count
            case .upload(_, let metadata): metadata.valueBytes
            }
        return (baseMetadata?.valueBytes ?? value.valueBytes) + added
    }

    func waking(_ waiter: Waiter) -> SpliceRequest {
        self.waiter.withLock { $0 = waiter }
        return self
    }

    /// Writes the joined value.
    ///
    /// Runs on a disk thread.
    func run(_ reader: DiskReader, _ disk: DiskTier) {
        do throws(ValueFileError) {
            var writer = try disk.createFile(file, valueBytes: valueBytes)
            if !isAppend { try appendAddition(to: &writer, reader) }
            try appendBase(to: &writer, reader)
            if isAppend { try appendAddition(to: &writer, reader) }
            let finished = try writer.finish(sync: disk.syncsFiles)
            complete(finished)
            file.finish(.finished(finished))
        } catch {
            disk.noteWriteFailure(error)
            file.finish(.failed)
        }
        let waiter = waiter.withLock { $0 }
        waiter?.complete(.retry)
    }

    /// Puts into the joined entry, which nobody else knows yet, what was not known when it was made.
    private func complete(_ finished: FinishedValueFile) {
        guard let joined = file.state.withLock({ $0.block }) else { return }
        guard keepsValue, case .bytes(let bytes) = addition else {
            joined.file = FileReference(generation: file.generation, sum: finished.valueSum)
            return
        }
        // SAFETY: `value` pins its block, and a value does not change once it is linked. `join` checks the lengths.
        unsafe bytes.withUnsafeBytes { unsafe joined.join(value.value, $0, isAppend: isAppend) }
    }

    private func appendAddition(
        to writer: inout ValueFileWriter, _ reader: DiskReader
    ) throws(ValueFileError) {
        switch addition {
        case .bytes(let bytes):
            let span = bytes.span
            // SAFETY: the writer copies or writes the bytes during the call.
            try unsafe span.withUnsafeBytes { bytes throws(ValueFileError) in try unsafe writer.append(bytes) }
        case .upload(_, let metadata): try appendFile(metadata, to: &writer, reader)
        }
    }

    private func appendBase(
        to writer: inout ValueFileWriter, _ reader: DiskReader
    ) throws(ValueFileError) {
        // SAFETY: `value` pins its block for as long as this request lives; the writer keeps no pointer.
        guard let metadata = baseMetadata else { return try unsafe writer.append(value.value) }
        try appendFile(metadata, to: &writer, reader)
    }

    /// Appends the value in the file of `metadata`, chunk by chunk.
    private func appendFile(
        _ metadata: EntryMetadata, to writer: inout ValueFileWriter, _ reader: DiskReader
    ) throws(ValueFileError) {
        let key = file.key
        let source = try reader.files.open(key: key.span, expecting: metadata)
        try source.verify()
        // SAFETY: the chunk is freed when this returns; `part` is at most the chunk, and reader and writer keep no
        // pointer.
        let chunk = UnsafeMutableRawBufferPointer.allocate(byteCount: ValueStream.chunkBytes, alignment: 16)
        defer { unsafe chunk.deallocate() }
        var offset = 0
        while offset < metadata.valueBytes {
            let part = unsafe UnsafeMutableRawBufferPointer(
                rebasing: chunk[..<min(chunk.count, metadata.valueBytes - offset)])
            try unsafe source.read(at: offset, into: part)
            try unsafe writer.append(UnsafeRawBufferPointer(part))
            offset += part.count
        }
    }

    /// The joined entry as a draft that is ready to be placed; nil while the file is not written.
    func joinedDraft() -> EntryDraft? {
        guard file.finished != nil, let block = file.state.withLock({ $0.block }) else { return nil }
        return EntryDraft(joined: file, block: block)
    }
}
