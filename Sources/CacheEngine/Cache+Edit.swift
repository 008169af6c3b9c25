// Looking at an entry and changing what is known about it, in one stay under its shard's lock.
//
// `edit` shows the caller what the key holds; the caller decides (new deadline, marks, CAS id, an empty entry in place
// of nothing, deletion); the engine journals and applies the decision. This is what memcached's meta commands are made
// of: the win and stale marks of one entry are seen and changed by one client at a time.

public import Primitives

/// What a key holds, and what is to become of it.
///
/// Filled by the engine, changed by the closure of `Cache.edit`.
@safe
public struct EntryEdit {
    /// What happens to the entry itself.
    public enum Action: Equatable, Sendable {
        /// It stays.
        case keep
        /// It is removed.
        case delete
        /// Nothing was there: an empty entry, already won by this client, takes the key.
        case vivify(deadline: Instant)
        /// Its value becomes empty and its flags, which describe the value, 0; it counts as not read since.
        ///
        /// Marks, deadline and CAS id are what the edit says.
        case empty
    }

    let block: EntryBlock?
    let shard: Guarded<Shard>
    let now: Instant

    /// Whether the key holds an entry.
    public var isPresent: Bool { block != nil }
    /// The client's flags; 0 for no entry.
    public var flags: UInt32 { block?.flags ?? 0 }
    /// Bytes of the value.
    public var valueBytes: Int { block?.valueBytes ?? 0 }
    /// Whether the value must be streamed from its file: `value` is empty then, and `streamedValue` names it.
    public var isFileOnly: Bool { block?.isStub ?? false }
    /// The value, if it is in memory; valid only inside the closure.
    public var value: UnsafeRawBufferPointer {
        // SAFETY: the closure that gets this edit runs under the lock of the shard that the block is linked into.
        guard let block, !block.isStub else { return unsafe UnsafeRawBufferPointer(start: nil, count: 0) }
        return unsafe block.value
    }
    /// Whether the entry was read since it was stored, this time not counted.
    public var wasFetched: Bool { block?.marks.contains(.fetched) ?? false }
    /// Seconds since the entry was last read or stored, this time not counted.
    public var secondsSinceAccess: Int64 {
        block.map { max(0, Int64(now.bootSeconds) - Int64($0.accessed)) } ?? 0
    }
    /// Bytes that the entry takes in memory, with everything.
    public var accountedBytes: Int { block?.accountedBytes ?? 0 }

    /// When the entry expires; may be changed.
    public var deadline: Instant
    /// The entry's CAS id; may be changed.
    public var cas: UInt64
    /// Whether the value is marked as out of date; may be changed.
    public var isStale: Bool
    /// Whether a client has been asked to renew the value; may be changed.
    public var isWon: Bool
    /// Whether the key is shown in base64; may be changed.
    public var hasBinaryKey: Bool
    /// Whether this counts as a read: recency, read mark and statistics.
    public var isRead = true
    /// Whether the caller had to wait for the disk: then a read counts as a hit of the disk tier.
    public var hasWaited = false
    /// What happens to the entry.
    public var action = Action.keep

    init(_ block: EntryBlock?, shard: Guarded<Shard>, now: Instant) {
        self.block = block
        self.shard = shard
        self.now = now
        deadline = block?.deadline ?? .never
        cas = block?.cas ?? 0
        isStale = block?.marks.contains(.stale) ?? false
        isWon = block?.marks.contains(.won) ?? false
        hasBinaryKey = block?.marks.contains(.binaryKey) ?? false
    }

    /// Keeps the value readable after the closure.
    ///
    /// Only for entries whose value is in memory.
    public func pin() -> PinnedEntry? {
        guard let block, !block.isStub else { return nil }
        return PinnedEntry(pinning: block, shard: shard)
    }

    /// Names the value of a file-only entry, for `Cache.open`.
    public func streamedValue(of cache: Cache) -> StreamedValue? {
        guard let block, block.isStub else { return nil }
        // SAFETY: as for `value`; the bytes are copied.
        return unsafe StreamedValue(
            hash: cache.memory.hash(block), key: Array(block.key), metadata: cache.memory.metadata(ofStub: block),
            extended: Array(block.extended))
    }

    /// The marks that the edit asks for.
    var marks: EntryMarks {
        var marks = block?.marks ?? []
        marks = isStale ? marks.union(.stale) : marks.subtracting(.stale)
        marks = isWon ? marks.union(.won) : marks.subtracting(.won)
        return hasBinaryKey ? marks.union(.binaryKey) : marks.subtracting(.binaryKey)
    }

    var changesMetadata: Bool {
        guard let block else { return false }
        return deadline != block.deadline || cas != block.cas || marks != block.marks
    }
}

/// The value of one version of an entry that lives in a file only.
public struct StreamedValue: Sendable {
    let hash: UInt64
    let key: [UInt8]
    let metadata: EntryMetadata
    let extended: [UInt8]

    /// Bytes of the value.
    public var valueBytes: Int { metadata.valueBytes }
}

/// Answer of `Cache.edit`.
public enum EditOutcome: Equatable, Sendable {
    /// The decision was applied.
    case done
    /// Nothing was applied; what the closure wrote down must be dropped.
    case unresolved(Obstacle)
}

extension Cache {
    /// Shows `body` what the key holds and applies what it decides.
    public func edit(
        _ key: Span<UInt8>, now: Instant, flight: Flight? = nil, _ body: (inout EntryEdit) -> Void
    ) -> EditOutcome {
        performDueFlush(now)
        // SAFETY: the key outlives the call, here and in what this calls. The block is used only under the shard's
        // lock, which keeps it.
        return unsafe key.withUnsafeBytes { key in
            let hash = unsafe memory.hash(key)
            let guarded = memory.shard(hash)
            var garbage = Garbage()
            let outcome = guarded.withLock { shard -> EditOutcome in
                var present: EntryBlock?
                let expirations = shard.counters.expirations
                switch unsafe presence(hash, key, &shard, now: now, flight: flight, garbage: &garbage) {
                case .unknown: return .unresolved(.entryOnDisk)
                case .absent: break
                case .resident(let block): present = block
                }
                var edit = EntryEdit(present, shard: guarded, now: now)
                body(&edit)
                if present == nil, edit.isRead {
                    shard.counters.expiredLookups += shard.counters.expirations &- expirations
                    shard.noteMiss(hash)
                }
                return unsafe apply(edit, hash, key, &shard, garbage: &garbage)
            }
            garbage.free()
            return outcome
        }
    }

    private func apply(
        _ edit: EntryEdit, _ hash: UInt64, _ key: UnsafeRawBufferPointer, _ shard: inout Shard,
        garbage: inout Garbage
    ) -> EditOutcome {
        guard let block = edit.block else {
            if edit.isRead { shard.counters.misses += 1 }
            guard case .vivify(let deadline) = edit.action else { return .done }
            return unsafe vivify(edit, deadline, hash, key, &shard, garbage: &garbage)
        }
        switch edit.action {
        case .keep, .vivify:
            guard !edit.changesMetadata || change(block, edit, &shard) else { return .unresolved(.journalFull) }
            if edit.isRead {
                if !block.isStub { shard.counters.countHit(isOfDisk: edit.hasWaited) }
                shard.bump(block, now: edit.now)
            }
        case .delete:
            guard unsafe journalDeletion(hash, key, &shard) else { return .unresolved(.journalFull) }
            memory.events.record(.deleted, block)
            shard.unlink(block, into: &garbage)
        case .empty:
            return replaceByEmpty(block, edit, &shard, garbage: &garbage)
        }
        return .done
    }

    /// Journals and sets deadline, CAS id and marks; false if the journal has no room.
    private func change(_ block: EntryBlock, _ edit: EntryEdit, _ shard: inout Shard) -> Bool {
        let before = (block.deadline, block.cas, block.marks)
        block.deadline = edit.deadline == block.deadline ? edit.deadline : capped(edit.deadline)
        block.cas = edit.cas
        block.marks = edit.marks
        if journalTouch(block, &shard) { return true }
        (block.deadline, block.cas, block.marks) = before
        return false
    }

    private func vivify(
        _ edit: EntryEdit, _ deadline: Instant, _ hash: UInt64, _ key: UnsafeRawBufferPointer, _ shard: inout Shard,
        garbage: inout Garbage
    ) -> EditOutcome {
        let block = unsafe EntryBlock.make(
            key: Span(_unsafeBytes: key), extended: Span(), storedValueBytes: 0, hash: hash)
        guard let block else { return .done }
        block.deadline = capped(deadline)
        block.marks = edit.marks.union(edit.isRead ? [.won, .fetched] : .won)
        return link(block, cas: edit.cas, insteadOf: nil, now: edit.now, &shard, garbage: &garbage)
    }

    private func replaceByEmpty(
        _ old: EntryBlock, _ edit: EntryEdit, _ shard: inout Shard, garbage: inout Garbage
    ) -> EditOutcome {
        guard let block = old.copy(valueBytes: 0) else { return .done }
        block.flags = 0
        block.deadline = edit.deadline == old.deadline ? edit.deadline : capped(edit.deadline)
        block.marks = edit.marks.persistent.subtracting(.fetched)
        return link(block, cas: edit.cas, insteadOf: old, now: edit.now, &shard, garbage: &garbage)
    }

    /// Journals and links a block without a value file; a CAS id of 0 means a new one.
    private func link(
        _ block: EntryBlock, cas: UInt64, insteadOf old: EntryBlock?, now: Instant, _ shard: inout Shard,
        garbage: inout Garbage
    ) -> EditOutcome {
        block.cas = cas == 0 ? generations.next() : cas
        block.stamp(now)
        guard journalStore(block, generation: generations.next(), file: nil, &shard, now: now) else {
            block.free()
            return .unresolved(.journalFull)
        }
        if let old { shard.unlink(old, into: &garbage) }
        shard.counters.stores += 1
        shard.link(block, now: now, garbage: &garbage, log: memory.events)
        return .done
    }

    /// A CAS id that no entry has had.
    public func nextCAS() -> UInt64 { generations.next() }

    /// Opens the value that an edit found in a file: `waiter` gets `.stream`, or `.absent` if it cannot be read any
    /// more.
    public func open(_ value: StreamedValue, waiter: Waiter) {
        guard let disk else { return waiter.complete(.absent) }
        disk.enqueue(
            .openStream(
                StreamRequest(
                    hash: value.hash, key: value.key, metadata: value.metadata, extended: value.extended,
                    waiter: waiter)))
    }
}
