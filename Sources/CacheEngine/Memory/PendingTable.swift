// What the journal holds for a key and the index does not know yet.
//
// While a write waits in the journal, the row on disk is out of date: a lookup that misses the memory tier asks here
// before it may believe the disk. One record per hash: a newer one replaces the older. Open addressing with linear
// probing and backward-shift deletion; hash 0 is stored as 1, which merely costs a key comparison later. Belongs to one
// shard, under its lock.

import Primitives

/// The newest journalled write of one hash.
struct PendingWrite: Equatable {
    enum Kind: UInt8 {
        /// The journal record at `position` holds the entry.
        case entry
        /// The key was deleted.
        case deletion
        /// The row on disk is right but for its deadline, which the record has.
        case touch
        /// The write could not be journalled: the row on disk must not be believed (see `DiskTier`).
        case barred
    }
    var kind: Kind
    var sequence: UInt64
    var position: UInt64
}

/// Hash -> newest pending write.
struct PendingTable: ~Copyable {
    private struct Slot {
        var hash: UInt64 = 0
        var write = PendingWrite(kind: .deletion, sequence: 0, position: 0)
    }

    private var slots: [Slot] = []
    private var mask = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    @inline(__always)
    private static func stored(_ hash: UInt64) -> UInt64 { hash == 0 ? 1 : hash }

    /// The index of `hash`, or of the empty slot where it would go.
    @inline(__always)
    private func index(_ stored: UInt64) -> Int {
        var index = Int(truncatingIfNeeded: stored >> 20) & mask
        while slots[index].hash != 0, slots[index].hash != stored { index = (index &+ 1) & mask }
        return index
    }

    func find(_ hash: UInt64) -> PendingWrite? {
        if count == 0 { return nil }
        let slot = slots[index(Self.stored(hash))]
        return slot.hash == 0 ? nil : slot.write
    }

    mutating func put(_ hash: UInt64, _ write: PendingWrite) {
        if (count + 1) * 3 > slots.count * 2 { grow() }
        let stored = Self.stored(hash)
        let index = index(stored)
        if slots[index].hash == 0 { count += 1 }
        slots[index] = Slot(hash: stored, write: write)
    }

    /// Forgets `hash` if its newest write is not after `sequence`: it is in the index now.
    mutating func remove(_ hash: UInt64, upTo sequence: UInt64) {
        if count == 0 { return }
        let found = index(Self.stored(hash))
        guard slots[found].hash != 0, slots[found].write.sequence <= sequence else { return }
        remove(at: found)
    }

    mutating func removeAll() {
        slots = []
        mask = 0
        count = 0
    }

    func forEach(_ body: (UInt64, PendingWrite) -> Void) {
        for slot in slots where slot.hash != 0 { body(slot.hash, slot.write) }
    }

    private mutating func remove(at removed: Int) {
        var hole = removed
        var next = (hole &+ 1) & mask
        while slots[next].hash != 0 {
            let home = Int(truncatingIfNeeded: slots[next].hash >> 20) & mask
            // Move back only what does not lie between its home and the hole.
            if ((next &- home) & mask) >= ((next &- hole) & mask) {
                slots[hole] = slots[next]
                hole = next
            }
            next = (next &+ 1) & mask
        }
        slots[hole] = Slot()
        count -= 1
    }

    private mutating func grow() {
        let old = slots
        slots = [Slot](repeating: Slot(), count: max(64, old.count * 2))
        mask = slots.count - 1
        for slot in old where slot.hash != 0 { slots[index(slot.hash)] = slot }
    }
}
