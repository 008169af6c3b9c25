// Where rows are likely to be: hash -> row id, for as many rows as there is room.
//
// A lookup that knows its row's id goes to the table at once and reads one page; without, it searches the index over
// hashes first, whose pages are as many as the cache of a connection cannot hold. A hint proves nothing: the row is
// believed if it has the hash, else the index is asked. So hints may be lost, old or of another store, and nobody needs
// a lock. The writer notes what it inserts and, while it builds the residency filters, all rows; readers what they
// found. Any thread.

import Glibc
import Synchronization

/// A table of guesses.
@safe
final class RowHints: Sendable {
    /// Slots of one bucket, which share a cache line with another bucket's.
    private static let slotsPerBucket = 4
    private static let idBits: UInt64 = 40
    private static let idMask: UInt64 = (1 << idBits) - 1

    // SAFETY: `bucketCount` buckets of zeroed slots, allocated here, freed in deinit; every index is masked to the
    // count. A slot is only read and written as a whole.
    nonisolated(unsafe) private let slots: UnsafeMutablePointer<Atomic<UInt64>>
    private let mask: UInt64

    /// A table of at most `bytes`; memory is taken as it fills.
    init(bytes: Int) {
        var bucketCount = 1
        while bucketCount * 2 * Self.slotsPerBucket * 8 <= bytes { bucketCount *= 2 }
        let count = bucketCount * Self.slotsPerBucket
        guard let memory = unsafe calloc(count, MemoryLayout<Atomic<UInt64>>.stride) else {
            preconditionFailure("no memory for \(count) row hints")
        }
        unsafe slots = memory.bindMemory(to: Atomic<UInt64>.self, capacity: count)
        mask = UInt64(bucketCount - 1)
    }

    deinit { unsafe free(slots) }

    @inline(__always)
    private func bucket(_ hash: UInt64) -> Int { Int(hash & mask) &* Self.slotsPerBucket }

    /// The high bits of a slot, from bits of the hash that do not choose the bucket; never 0.
    @inline(__always)
    private static func tag(_ hash: UInt64) -> UInt64 { (hash >> idBits | 1) << idBits }

    /// The id that the row of `hash` probably has.
    func find(_ hash: UInt64) -> Int64? {
        let first = bucket(hash)
        let tag = Self.tag(hash)
        for index in first..<first + Self.slotsPerBucket {
            let slot = unsafe slots[index].load(ordering: .relaxed)
            if slot & ~Self.idMask == tag { return Int64(slot & Self.idMask) }
        }
        return nil
    }

    /// The row of `hash` has this id.
    func note(_ hash: UInt64, _ rowID: Int64) {
        guard rowID > 0, rowID < 1 << Self.idBits else { return }
        let first = bucket(hash)
        let tag = Self.tag(hash)
        // Without an empty slot, or one of this hash: any other.
        var chosen = first + Int(truncatingIfNeeded: rowID) & (Self.slotsPerBucket - 1)
        for index in first..<first + Self.slotsPerBucket {
            let slot = unsafe slots[index].load(ordering: .relaxed)
            if slot & ~Self.idMask == tag {
                chosen = index
                break
            }
            if slot == 0 { chosen = index }
        }
        unsafe slots[chosen].store(tag | UInt64(rowID), ordering: .relaxed)
    }
}
