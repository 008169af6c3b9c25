// The memory of one shard's entries: slabs of equal slots, cut from runs of units.
//
// Each class of slot sizes has its slabs. Those with free slots are in one of four lists by how full they are: new
// entries go into the fullest, so that others empty and can be given up; `beginCompaction` offers the emptiest, whose
// entries the shard then moves elsewhere. A slab that has become empty goes back to the units at once. A free slot is
// told by its header (`EntryHeader.freeSlot`). Holds blocks only by address; who may use them is said in
// `EntryBlock.swift`. Belongs to one shard, under its lock.

import Glibc
import Primitives

/// Slots for entries.
@safe
struct EntryHeap: ~Copyable {
    private struct Class {
        var slotBytes: UInt32
        var slots: UInt16
        var order: UInt8
        /// Heads of the lists of slabs with free slots: less than a quarter full, less than half, ...
        var lists: [4 of UInt32] = .init(repeating: UnitInfo.none)
        var freeSlots = 0
    }

    private var units: UnitAllocator
    // SAFETY: `SlotClass.count` elements, allocated in `init`, freed in deinit; classes come from `SlotClass.index`.
    private let classes: UnsafeMutablePointer<Class>
    /// The slab that is being emptied: in no list meanwhile.
    private var compacted = UnitInfo.none
    /// The slab that could not be emptied last time, because a reader has one of its blocks pinned.
    private var stuck = UnitInfo.none

    /// Addresses of one shard: links between entries are 32-bit counts of 8 bytes and reach further.
    static let addressBytes = 8 << 30
    /// In no list: full, or being compacted.
    private static let noList: UInt8 = 4

    /// Addresses for each of `count` shards: fewer where the process may not have so many (`ulimit -v`), and then half
    /// of those that it may have are left for everything else.
    static func addressBytes(shards count: Int) -> Int {
        var limit = rlimit()
        // SAFETY: the struct lives until the call returns.
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0, limit.rlim_cur < rlim_t.max else {
            return addressBytes
        }
        let share = Int(clamping: limit.rlim_cur) / 2 / count
        return max(1 << 20, min(addressBytes, share / UnitAllocator.unitBytes * UnitAllocator.unitBytes))
    }

    init(addressBytes: Int = EntryHeap.addressBytes) {
        units = UnitAllocator(addressBytes: addressBytes)
        unsafe classes = .allocate(capacity: SlotClass.count)
        for index in 0..<SlotClass.count {
            let (bytes, order) = (SlotClass.slotBytes(index), SlotClass.order(index))
            unsafe (classes + index).initialize(
                to: Class(
                    slotBytes: UInt32(bytes), slots: UInt16((UnitAllocator.unitBytes << order) / bytes),
                    order: UInt8(order)))
        }
    }

    deinit { unsafe classes.deallocate() }

    /// Where the slots lie; blocks are named relative to it.
    var base: UnsafeMutableRawPointer { unsafe units.base }
    /// Bytes of memory that slabs and freed runs take.
    var heldBytes: Int { units.heldBytes }

    // MARK: Slots

    /// A slot of at least `bytes`; nil if the addresses are used up or the kernel refuses memory.
    @inline(__always)
    mutating func allocate(_ bytes: Int) -> UnsafeMutableRawPointer? {
        unsafe allocate(slotClass: SlotClass.index(holding: bytes))
    }

    private mutating func allocate(slotClass index: Int) -> UnsafeMutableRawPointer? {
        let known = unsafe classes + index
        var list = 3
        while list >= 0, unsafe known.pointee.lists[list] == UnitInfo.none { list &-= 1 }
        guard list >= 0 || addSlab(index) else { return nil }
        list = max(list, 0)
        let slab = unsafe known.pointee.lists[list]
        let info = unsafe units.info(slab)
        let start = unsafe units.address(slab)
        let slot: UnsafeMutableRawPointer
        if unsafe info.pointee.freeSlot != .max {
            unsafe slot = start + Int(info.pointee.freeSlot) &* 8
            unsafe info.pointee.freeSlot = slot.load(as: UInt16.self)
        } else {
            unsafe slot = start + Int(info.pointee.freshSlot) &* 8
            unsafe info.pointee.freshSlot &+= UInt16(truncatingIfNeeded: known.pointee.slotBytes / 8)
        }
        unsafe info.pointee.usedSlots &+= 1
        unsafe known.pointee.freeSlots &-= 1
        refile(slab, index)
        return unsafe slot
    }

    /// Frees the slot of a block that nobody uses any more.
    mutating func free(_ block: EntryBlock) {
        let slot = unsafe UnsafeMutableRawPointer(block.raw)
        let slab = unsafe units.run(of: slot)
        let info = unsafe units.info(slab)
        let index = unsafe Int(info.pointee.slotClass)
        block.markFree()
        unsafe slot.storeBytes(of: info.pointee.freeSlot, as: UInt16.self)
        unsafe info.pointee.freeSlot = UInt16(truncatingIfNeeded: (slot - units.address(slab)) / 8)
        unsafe info.pointee.usedSlots &-= 1
        unsafe classes[index].freeSlots &+= 1
        if unsafe info.pointee.usedSlots == 0, slab != compacted { return releaseSlab(slab, index) }
        refile(slab, index)
    }

    private mutating func addSlab(_ index: Int) -> Bool {
        let known = unsafe classes + index
        guard let slab = units.allocate(order: unsafe Int(known.pointee.order)) else { return false }
        let info = unsafe units.info(slab)
        unsafe info.pointee.freeSlot = .max
        unsafe info.pointee.freshSlot = 0
        unsafe info.pointee.usedSlots = 0
        unsafe info.pointee.slotClass = UInt8(index)
        unsafe info.pointee.list = Self.noList
        unsafe known.pointee.freeSlots &+= Int(known.pointee.slots)
        refile(slab, index)
        return true
    }

    private mutating func releaseSlab(_ slab: UInt32, _ index: Int) {
        removeFromList(slab, index)
        unsafe classes[index].freeSlots &-= Int(classes[index].slots)
        units.free(slab)
    }

    // MARK: Lists of slabs

    /// Puts a slab into the list that its fill asks for.
    @inline(__always)
    private func refile(_ slab: UInt32, _ index: Int) {
        let info = unsafe units.info(slab)
        let (used, slots) = unsafe (UInt32(info.pointee.usedSlots), UInt32(classes[index].slots))
        let wanted = used == slots || slab == compacted ? Self.noList : UInt8(truncatingIfNeeded: used &* 4 / slots)
        if unsafe info.pointee.list == wanted { return }
        removeFromList(slab, index)
        unsafe info.pointee.list = wanted
        guard wanted != Self.noList else { return }
        let head = unsafe classes[index].lists[Int(wanted)]
        unsafe info.pointee.previous = UnitInfo.none
        unsafe info.pointee.next = head
        if head != UnitInfo.none { unsafe units.info(head).pointee.previous = slab }
        unsafe classes[index].lists[Int(wanted)] = slab
    }

    private func removeFromList(_ slab: UInt32, _ index: Int) {
        let info = unsafe units.info(slab)
        let list = unsafe info.pointee.list
        if list == Self.noList { return }
        let (next, previous) = unsafe (info.pointee.next, info.pointee.previous)
        if next != UnitInfo.none { unsafe units.info(next).pointee.previous = previous }
        if previous != UnitInfo.none {
            unsafe units.info(previous).pointee.next = next
        } else {
            unsafe classes[index].lists[Int(list)] = next
        }
        unsafe info.pointee.list = Self.noList
    }

    // MARK: Giving memory back

    /// Gives memory that no slab needs back to the kernel; false if there is none.
    mutating func purge(_ wanted: Int) -> Bool {
        guard units.dirtyBytes > 0 else { return false }
        units.purge(wanted)
        return true
    }

    /// Chooses a slab whose entries fit into other slabs of its class, where most memory is wasted; nil if there is
    /// none.
    ///
    /// Until `endCompaction`, its free slots are not handed out.
    mutating func beginCompaction() -> UInt32? {
        var best: Int?
        var wasteMax = 0
        for index in 0..<SlotClass.count {
            let (free, slots) = unsafe (classes[index].freeSlots, Int(classes[index].slots))
            let waste = unsafe free * Int(classes[index].slotBytes)
            if free >= slots, waste > wasteMax { (best, wasteMax) = (index, waste) }
        }
        guard let best else { return nil }
        for list in 0..<4 {
            var slab = unsafe classes[best].lists[list]
            if slab == stuck, slab != UnitInfo.none { slab = unsafe units.info(slab).pointee.next }
            if slab == UnitInfo.none { continue }
            removeFromList(slab, best)
            compacted = slab
            return slab
        }
        return nil
    }

    /// Slots of a slab that were ever used.
    func slotsTouched(in slab: UInt32) -> Int {
        let info = unsafe units.info(slab)
        return unsafe Int(info.pointee.freshSlot) * 8 / Int(classes[Int(info.pointee.slotClass)].slotBytes)
    }

    /// The block in a slot that was ever used; nil if it is free.
    func block(_ slot: Int, in slab: UInt32) -> EntryBlock? {
        let bytes = unsafe Int(classes[Int(units.info(slab).pointee.slotClass)].slotBytes)
        let start = unsafe units.address(slab) + slot * bytes
        let block = unsafe EntryBlock(raw: start.assumingMemoryBound(to: EntryHeader.self))
        return block.isFreeSlot ? nil : block
    }

    /// Ends the compaction of a slab: gives it up if it is empty; whether it was.
    mutating func endCompaction(of slab: UInt32) -> Bool {
        compacted = UnitInfo.none
        let info = unsafe units.info(slab)
        let index = unsafe Int(info.pointee.slotClass)
        if unsafe info.pointee.usedSlots == 0 {
            releaseSlab(slab, index)
            return true
        }
        stuck = slab
        refile(slab, index)
        return false
    }
}
