// How entries come into a shard's memory and leave it, and how the shard keeps to its limit.
//
// `link` is the one way in: it copies a loose block into a slot and makes room. Two things are held to the limit: what
// the entries cost, by evicting; and what the shard's memory takes, which is more while slabs are half empty after the
// sizes of values have changed: then entries are moved together and emptied slabs given back, a bounded number per
// operation. Moving changes the address of every block that is not pinned, so nobody keeps a block across `link`.

import Primitives

extension Shard {
    // MARK: In and out

    /// Moves a loose block in as the most recently used entry, makes room, and returns the entry's block from now on.
    ///
    /// Its key must not be present. No other block of this shard may be used afterwards.
    @discardableResult
    mutating func link(
        _ loose: EntryBlock, now: Instant, garbage: inout Garbage, log: EventLog
    ) -> EntryBlock {
        // SAFETY: the caller gives the loose block up. The slot has room for it and belongs to nobody else.
        let total = loose.blockBytes &+ loose.apartBytes
        let slot = unsafe slot(loose.blockBytes, of: total, now: now, garbage: &garbage, log: log)
        let block = unsafe loose.copy(to: slot)
        unsafe garbage.add(piece: UnsafeMutableRawPointer(loose.raw))
        table.insert(block)
        noteWidth()
        pushNewest(block)
        bytes &+= block.accountedBytes
        apartBytes &+= block.apartBytes
        evictToFit(sparing: block, now: now, garbage: &garbage, log: log)
        return block
    }

    /// A slot of `count` bytes, if nothing has to be given up for it.
    @inline(__always)
    mutating func spareSlot(_ count: Int) -> UnsafeMutableRawPointer? {
        if isWasteful(adding: count) { return nil }
        return unsafe heap.allocate(count)
    }

    /// Gives a slot of `spareSlot` back in which there is no entry.
    mutating func giveBack(_ slot: UnsafeMutableRawPointer) {
        unsafe heap.free(EntryBlock(raw: slot.bindMemory(to: EntryHeader.self, capacity: 1)))
    }

    /// Takes a block in that was made in a spare slot, has no value apart, and whose key is not present; makes room.
    mutating func linkFilled(_ block: EntryBlock, now: Instant, garbage: inout Garbage, log: EventLog) {
        table.insert(block)
        noteWidth()
        pushNewest(block)
        bytes &+= block.accountedBytes
        evictToFit(sparing: block, now: now, garbage: &garbage, log: log)
    }

    /// Unlinks `block`; frees it unless a reader has it pinned (the last reader frees it then).
    mutating func unlink(_ block: EntryBlock, into garbage: inout Garbage) {
        table.remove(block)
        detach(block)
        bytes &-= block.accountedBytes
        release(block, into: &garbage)
    }

    private mutating func release(_ block: EntryBlock, into garbage: inout Garbage) {
        guard block.pins > 0 else { return free(block, into: &garbage) }
        block.marks.insert(.unlinked)
        release.detached.add(block.blockBytes &+ block.apartBytes)
    }

    /// Frees a block that was unlinked while readers held it; the last of them is gone.
    mutating func freeDetached(_ block: EntryBlock, into garbage: inout Garbage) {
        release.detached.remove(block.blockBytes &+ block.apartBytes)
        free(block, into: &garbage)
    }

    /// Frees a block that is not linked and not pinned.
    mutating func free(_ block: EntryBlock, into garbage: inout Garbage) {
        if let value = unsafe block.valueApart {
            let count = block.apartBytes
            apartBytes &-= count
            unsafe garbage.add(value: value, bytes: count, to: release)
        }
        heap.free(block)
    }

    /// Takes a block without pins out for good, whose loose twin has its value from now on.
    mutating func replaceByTwin(_ block: EntryBlock) {
        table.remove(block)
        detach(block)
        bytes &-= block.accountedBytes
        apartBytes &-= block.apartBytes
        heap.free(block)
    }

    // MARK: Room

    /// A slot of `count` bytes for an entry of `total`, whatever has to be given up for it.
    @inline(__always)
    private mutating func slot(
        _ count: Int, of total: Int, now: Instant, garbage: inout Garbage, log: EventLog
    ) -> UnsafeMutableRawPointer {
        if isWasteful(adding: total) { _ = reduceWaste(for: total, now: now, garbage: &garbage, log: log) }
        while true {
            if let slot = unsafe heap.allocate(count) { return unsafe slot }
            guard giveUpSome(now: now, garbage: &garbage, log: log) else { outOfMemory(count) }
        }
    }

    /// Evicts least recently used entries until the limits hold, sparing `spared` (the entry just written).
    mutating func evictToFit(
        sparing spared: EntryBlock?, now: Instant, garbage: inout Garbage, log: EventLog
    ) {
        while isOverLimit, let victim = oldest, victim != spared {
            evict(victim, now: now, garbage: &garbage, log: log)
        }
    }

    private var isOverLimit: Bool {
        if let limit = limits.bytes, bytes > limit { return true }
        if let limit = limits.entries, entries > limit { return true }
        return false
    }

    // MARK: Waste

    /// Bytes of memory that the shard takes, whether entries use them or not.
    var heldBytes: Int { heap.heldBytes &+ table.bytes &+ apartBytes }

    /// By how much of the limit the shard's memory may exceed it: a slab or two of every class in use must fit.
    private static let wasteShare = 32
    private static let wasteBytesMin = 1 << 20

    @inline(__always)
    private func isWasteful(adding count: Int) -> Bool {
        guard let limit = limits.bytes else { return false }
        return heldBytes &+ count > limit &+ max(limit / Self.wasteShare, Self.wasteBytesMin)
    }

    /// Gives memory back until the shard takes little more than its limit with what is to come, which bounds the steps.
    ///
    /// True if there is more to be done, and to be given up.
    mutating func reduceWaste(for count: Int, now: Instant, garbage: inout Garbage, log: EventLog) -> Bool {
        var steps = 8 + count / UnitAllocator.unitBytes
        while isWasteful(adding: count) {
            if steps == 0 { return true }
            guard giveUpSome(now: now, garbage: &garbage, log: log) else { return false }
            steps -= 1
        }
        return false
    }

    /// Gives something up that lets memory be given back, the cheapest first.
    ///
    /// False if there is nothing.
    private mutating func giveUpSome(now: Instant, garbage: inout Garbage, log: EventLog) -> Bool {
        if heap.purge(Self.purgeBytes) { return true }
        if releaseFlushed(Self.flushedPerStep, into: &garbage) { return true }
        if compact() { return true }
        var victims = 0
        while victims < Self.victimsPerStep, let victim = oldest {
            evict(victim, now: now, garbage: &garbage, log: log)
            victims += 1
        }
        return victims > 0
    }

    private static let purgeBytes = 256 << 10
    private static let flushedPerStep = 64
    private static let victimsPerStep = 16

    /// Moves the entries of one slab into others and gives it up; false if there is none to be given up.
    private mutating func compact() -> Bool {
        guard let slab = heap.beginCompaction() else { return false }
        for slot in 0..<heap.slotsTouched(in: slab) {
            if let block = heap.block(slot, in: slab) { move(block) }
        }
        return heap.endCompaction(of: slab)
    }

    /// Moves a block to another slot, unless somebody may be using it.
    private mutating func move(_ block: EntryBlock) {
        // What is not in the table is on its way out: flushed, or unlinked and pinned.
        guard block.pins == 0, table.replace(block, by: block) else { return }
        guard let slot = unsafe heap.allocate(block.blockBytes) else { return }
        let (chain, newer, older) = (block.chain, block.newer, block.older)
        let moved = unsafe block.copy(to: slot)
        invariant(table.replace(block, by: moved))
        moved.chain = chain
        moved.newer = newer
        moved.older = older
        if let newer { newer.older = moved } else { newest = moved }
        if let older { older.newer = moved } else { oldest = moved }
        heap.free(block)
    }

    // MARK: Flush

    /// Takes all entries out in O(1); `releaseFlushed` frees them by and by.
    mutating func detachAll() {
        rememberFlushed()
        if let oldest { flushedEntries.append(oldest) }
        table = unsafe EntryTable(base: heap.base)
        newest = nil
        oldest = nil
        bytes = 0
    }

    /// Frees up to `limit` flushed entries; false if there were none.
    ///
    /// They are out of reach of new lookups; pins keep single blocks alive.
    mutating func releaseFlushed(_ limit: Int, into garbage: inout Garbage) -> Bool {
        if flushedEntries.isEmpty { return false }
        var left = limit
        while left > 0, let block = flushedEntries.popLast() {
            if let next = block.newer { flushedEntries.append(next) }
            release(block, into: &garbage)
            left -= 1
        }
        return true
    }
}
