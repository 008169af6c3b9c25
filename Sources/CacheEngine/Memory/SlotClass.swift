// The sizes of slots in which entries lie, and how slabs are cut into them.
//
// Steps of 8 bytes up to 256, then 16 steps for each doubling, from 2 KiB on 8: what a slot wastes is at most 7 bytes,
// a 16th and an 8th. A slab is the shortest run of units that holds enough slots and wastes little at its end.

/// Rules of slot sizes.
enum SlotClass {
    /// Number of classes; the largest slot has 32 KiB.
    static let count = 32 + 3 * 16 + 4 * 8

    /// The class of the smallest slot that holds `bytes`, 1 to 32 KiB.
    @inline(__always)
    static func index(holding bytes: Int) -> Int {
        let last = bytes &- 1
        if last < 256 { return last &>> 3 }
        let doubling = Int.bitWidth &- 1 &- last.leadingZeroBitCount
        let rest = last &- (1 &<< doubling)
        if doubling < 11 { return 32 &+ (doubling &- 8) &* 16 &+ rest &>> (doubling &- 4) }
        return 80 &+ (doubling &- 11) &* 8 &+ rest &>> (doubling &- 3)
    }

    /// Bytes of the slots of a class.
    static func slotBytes(_ index: Int) -> Int {
        if index < 32 { return (index + 1) * 8 }
        let (doubling, steps) = index < 80 ? (8 + (index - 32) / 16, 16) : (11 + (index - 80) / 8, 8)
        let step = (index - (index < 80 ? 32 : 80)) % steps + 1
        return (1 << doubling) + step * (1 << doubling) / steps
    }

    /// The longest slab has 64 KiB.
    private static let orderMax = 4

    /// How many units, as a power of two, a slab of a class has.
    static func order(_ index: Int) -> Int {
        let slot = slotBytes(index)
        // Every class may have a slab or two that are nearly empty: slabs of large slots are short.
        let (slotsMin, wasteShare) = slot <= 2048 ? (8, 32) : (2, 12)
        for order in 0..<orderMax {
            let slab = UnitAllocator.unitBytes << order
            if slab / slot >= slotsMin, slab % slot * wasteShare <= slab { return order }
        }
        return orderMax
    }

    /// What an entry of `bytes` takes, up to the largest slot.
    @inline(__always)
    static func taken(by bytes: Int) -> Int { slotBytes(index(holding: bytes)) }
}
