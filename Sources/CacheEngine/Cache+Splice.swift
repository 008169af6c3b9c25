// Append and prepend: a new value made of the present one and the draft's bytes.
//
// Small results are joined under the shard's lock. A result that belongs into a file is joined on a disk thread, from
// the pinned present value or its file; it is stored only if the entry still has the CAS id that it was made from, else
// it is made again.

import Primitives

extension Cache {
    /// Stores the draft's bytes behind or before the value that its key holds.
    func splice(
        _ draft: inout EntryDraft, isAppend: Bool, now: Instant, flight: Flight?
    ) -> StoreOutcome {
        let hash = draft.hash
        let guarded = memory.shard(hash)
        var garbage = Garbage()
        let outcome = guarded.withLock { shard -> StoreOutcome in
            let found = unsafe presence(hash, draft.block.key, &shard, now: now, flight: flight, garbage: &garbage)
            switch found {
            case .unknown: return .unresolved(.entryOnDisk)
            case .absent:
                guard let deadline = draft.terms.vivify else { return .notStored }
                if draft.waitsForFile(writableDisk) { return .unresolved(.valueFile) }
                draft.block.deadline = capped(deadline)
                return place(&draft, insteadOf: nil, &shard, now: now, garbage: &garbage)
            case .resident(let present):
                if let cas = draft.terms.compare, cas != present.cas { return .exists }
                let total = present.valueBytes + draft.valueBytes
                if total > options.entryBytesMax { return .notStored }
                let staysSmall = !present.isStub && total <= memory.valueBytesMax
                if staysSmall, total <= (writableDisk?.inlineBytesMax ?? .max) {
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
        unsafe joined.join(present.value, addition.value, isAppend: isAppend)
        joined.cas = draft.terms.explicitCAS ?? generations.next()
        joined.stamp(now)
        guard journalEntry(joined, generation: generations.next(), file: nil, &shard) else {
            joined.free()
            return .unresolved(.journalFull)
        }
        install(joined, insteadOf: present, &shard, now: now, garbage: &garbage)
        return .stored(cas: joined.cas)
    }

    private func joinInFile(
        _ draft: inout EntryDraft, _ present: EntryBlock, _ guarded: Guarded<Shard>, _ isAppend: Bool,
        _ shard: inout Shard, _ disk: DiskTier, now: Instant, garbage: inout Garbage
    ) -> StoreOutcome {
        if let splice = draft.splice, splice.file.baseCAS == present.cas {
            if splice.file.hasFailed { return .noRoom }
            if var joined = splice.joinedDraft() {
                // A touch may have come while the file was written.
                joined.block.deadline = present.deadline
                joined.terms.explicitCAS = draft.terms.explicitCAS
                return place(&joined, insteadOf: present, &shard, now: now, garbage: &garbage)
            }
            return .unresolved(.valueFile)
        }
        let total = present.valueBytes + draft.valueBytes
        let file = DraftFile(
            generation: generations.next(), hash: draft.hash, key: unsafe Array(present.key), block: nil,
            baseCAS: present.cas, disk: disk)
        draft.renewSplice(SpliceRequest(
            file: file, base: PinnedEntry(pinning: present, shard: guarded),
            baseMetadata: present.isStub ? memory.metadata(ofStub: present) : nil,
            addition: unsafe Array(draft.block.value), isAppend: isAppend,
            keepsValue: total <= memory.valueBytesMax))
        return .unresolved(.valueFile)
    }
}

/// The joining of a stored value and an addition in a new file, on a disk thread.
final class SpliceRequest: Sendable {
    let file: DraftFile
    private let base: PinnedEntry
    private let baseMetadata: EntryMetadata?
    private let addition: [UInt8]
    private let isAppend: Bool
    private let keepsValue: Bool
    private let waiter: Guarded<Waiter?> = Guarded(nil, rank: .leaf)

    init(
        file: DraftFile, base: PinnedEntry, baseMetadata: EntryMetadata?, addition: [UInt8], isAppend: Bool,
        keepsValue: Bool
    ) {
        self.file = file
        self.base = base
        self.baseMetadata = baseMetadata
        self.addition = addition
        self.isAppend = isAppend
        self.keepsValue = keepsValue
    }

    func waking(_ waiter: Waiter) -> SpliceRequest {
        self.waiter.withLock { $0 = waiter }
        return self
    }

    /// Writes the joined value. Runs on a disk thread.
    func run(_ reader: DiskReader, _ disk: DiskTier) {
        do throws(ValueFileError) {
            var writer = try disk.createFile(file)
            if !isAppend { try appendAddition(to: &writer) }
            try appendBase(to: &writer, reader)
            if isAppend { try appendAddition(to: &writer) }
            let finished = try writer.finish(sync: disk.syncsFiles)
            let block = joinedBlock(finished)
            file.state.withLock { $0.block = block }
            file.finish(block == nil ? .failed : .finished(finished))
        } catch {
            disk.noteWriteFailure(error)
            file.finish(.failed)
        }
        let waiter = waiter.withLock { $0 }
        waiter?.complete(.retry)
    }

    /// The joined entry: with its value, or as a stub if it is too large for memory.
    private func joinedBlock(_ finished: FinishedValueFile) -> EntryBlock? {
        if !keepsValue {
            return base.block.copyAsStub(
                valueBytes: finished.valueBytes,
                file: FileReference(generation: file.generation, sum: finished.valueSum))
        }
        let block = base.block.copy(valueBytes: finished.valueBytes)
        unsafe addition.withUnsafeBytes { unsafe block?.join(base.value, $0, isAppend: isAppend) }
        return block
    }

    private func appendAddition(to writer: inout ValueFileWriter) throws(ValueFileError) {
        let addition = addition
        let bytes = addition.span
        try unsafe bytes.withUnsafeBytes { bytes throws(ValueFileError) in try unsafe writer.append(bytes) }
    }

    private func appendBase(
        to writer: inout ValueFileWriter, _ reader: DiskReader
    ) throws(ValueFileError) {
        guard let metadata = baseMetadata else { return try unsafe writer.append(base.value) }
        let key = file.key
        let source = try reader.files.open(key: key.span, expecting: metadata)
        try source.verify()
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
