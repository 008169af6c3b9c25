// Storing a small value that has come whole: from the caller's buffer straight into a slot of the shard's memory.
//
// Without a draft, so nothing is allocated and the value is copied once. An entry that lies in a slot of the right size
// is renewed where it is: table and accounts stay as they are. What this cannot do (a value that lies apart or belongs
// into a file, a shard that must first give memory back, an admission that has to be asked, a full journal) it leaves
// to a draft, before anything has happened. Order and rules are those of `Cache.place`.

public import Primitives

/// What a store gives an entry beside its key and value.
struct WholeEntry {
    let flags: UInt32
    let deadline: Instant
    /// The CAS id, and the generation of the write.
    let number: UInt64
    /// Boot seconds, as entries keep them.
    let written: UInt32
    /// `.onDisk` if the journal has it.
    var marks: EntryMarks = []
}

extension Cache {
    /// Stores `value`, which is complete; nil if it takes a draft to do so: nothing has happened then.
    ///
    /// Never `.unresolved`. Allocates nothing.
    public func storeWhole(
        _ key: Span<UInt8>, _ value: Span<UInt8>, flags: UInt32, deadline: Instant, _ mode: WriteMode, now: Instant
    ) -> StoreOutcome? {
        storeWhole(key, hash(of: key), value, flags: flags, deadline: deadline, mode, now: now)
    }

    /// The same for a key whose hash is known.
    public func storeWhole(
        _ key: Span<UInt8>, _ hash: KeyHash, _ value: Span<UInt8>, flags: UInt32, deadline: Instant, _ mode: WriteMode,
        now: Instant
    ) -> StoreOutcome? {
        guard takesWhole(value.count), key.count <= Self.keyBytesMax else { return nil }
        switch mode {
        case .append, .prepend: return nil
        case .set, .add, .replace, .compare: break
        }
        performDueFlush(now)
        // SAFETY: of the whole file. Key and value are the caller's and outlive the call; they are copied. Blocks are
        // used only under the shard's lock.
        return unsafe key.withUnsafeBytes { key in
            unsafe value.withUnsafeBytes { value in
                let hash = hash.value
                var garbage = Garbage()
                let outcome = memory.withShard(hash) { shard -> StoreOutcome? in
                    var old: EntryBlock?
                    if case .set = mode {
                        old = unsafe shard.table.find(hash, key)
                    } else {
                        switch unsafe presence(hash, key, &shard, now: now, flight: nil, garbage: &garbage) {
                        case .unknown: return nil
                        case .resident(let present): old = present
                        case .absent: break
                        }
                        if let refusal = Self.refusal(mode, StoreTerms(), old) { return refusal }
                    }
                    let entry = WholeEntry(
                        flags: flags, deadline: capped(deadline), number: generations.next(), written: now.bootSeconds)
                    return unsafe put(entry, hash, key, value, insteadOf: old, &shard, now: now, garbage: &garbage)
                }
                garbage.free()
                return outcome
            }
        }
    }

    /// Whether a value of that size lies in its entry's block and, with a disk tier, in the index, unasked.
    @inline(__always)
    private func takesWhole(_ valueBytes: Int) -> Bool {
        guard valueBytes <= EntryBlock.inlineValueBytesMax, valueBytes <= memory.valueBytesMax,
            valueBytes <= options.entryBytesMax
        else { return false }
        guard let reference = unsafe diskReference else { return true }
        return unsafe reference._withUnsafeGuaranteedRef { $0.policy.isOpen && valueBytes <= $0.inlineBytesMax }
    }

    /// Journals the entry, then writes it into memory in place of `old`; nil if there is no room, in either.
    @inline(__always)
    private func put(
        _ entry: WholeEntry, _ hash: UInt64, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        insteadOf old: EntryBlock?, _ shard: inout Shard, now: Instant, garbage: inout Garbage
    ) -> StoreOutcome? {
        var entry = entry
        let bytes = EntryBlock.headerBytes &+ key.count &+ value.count
        if let old, old.canBeRenewed(bytes: bytes) {
            guard let marks = unsafe journalWhole(entry, hash, key, value, &shard) else { return nil }
            entry.marks = marks
            memory.events.record(.replaced, old)
            unsafe old.renew(entry, value)
            shard.makeNewest(old)
            shard.counters.stores &+= 1
            return .stored(cas: entry.number)
        }
        guard let slot = unsafe shard.spareSlot(bytes) else { return nil }
        guard let marks = unsafe journalWhole(entry, hash, key, value, &shard) else {
            unsafe shard.giveBack(slot)
            return nil
        }
        entry.marks = marks
        if let old {
            memory.events.record(.replaced, old)
            shard.unlink(old, into: &garbage)
        }
        let block = unsafe EntryBlock.fill(slot, entry, hash, key, value)
        shard.counters.stores &+= 1
        shard.linkFilled(block, now: now, garbage: &garbage, log: memory.events)
        return .stored(cas: entry.number)
    }
}

extension EntryBlock {
    /// Whether an entry of `bytes` may take this one's place in its slot.
    @inline(__always)
    fileprivate func canBeRenewed(bytes: Int) -> Bool {
        if pins > 0 || isStub || valueBytes > Self.inlineValueBytesMax { return false }
        let present = blockBytes
        return present == bytes || SlotClass.index(holding: present) == SlotClass.index(holding: bytes)
    }

    /// Gives the entry another value, without extended data; key and links stay.
    @inline(__always)
    fileprivate func renew(_ entry: WholeEntry, _ value: UnsafeRawBufferPointer) {
        // SAFETY: the slot is large enough, see `canBeRenewed`; nobody has the block pinned.
        unsafe raw.pointee.pins = 0
        unsafe dress(entry, value)
    }

    /// Makes an entry of a slot that has room for it.
    @inline(__always)
    fileprivate static func fill(
        _ slot: UnsafeMutableRawPointer, _ entry: WholeEntry, _ hash: UInt64, _ key: UnsafeRawBufferPointer,
        _ value: UnsafeRawBufferPointer
    ) -> EntryBlock {
        let raw = unsafe slot.bindMemory(to: EntryHeader.self, capacity: 1)
        unsafe raw.initialize(
            to: EntryHeader(
                hash: UInt32(truncatingIfNeeded: hash), keyBytes: UInt8(truncatingIfNeeded: key.count), valueBytes: 0))
        if let base = key.baseAddress {
            unsafe (slot + headerBytes).copyMemory(from: base, byteCount: key.count)
        }
        let block = unsafe EntryBlock(raw: raw)
        unsafe block.dress(entry, value)
        return block
    }

    @inline(__always)
    private func dress(_ entry: WholeEntry, _ value: UnsafeRawBufferPointer) {
        cas = entry.number
        deadline = entry.deadline
        marks = entry.marks
        flags = entry.flags
        written = entry.written
        accessed = entry.written
        knownAccess = RecencyRule.minutes(entry.written)
        unsafe raw.pointee.valueBytes = UInt32(truncatingIfNeeded: value.count)
        guard let base = value.baseAddress else { return }
        let place = unsafe UnsafeMutableRawPointer(raw) + (Self.headerBytes &+ keyBytes)
        unsafe place.copyMemory(from: base, byteCount: value.count)
    }
}
