// Runs of 4 KiB units inside a reserved range: a buddy allocator that knows which free runs still hold memory.
//
// A run has 1, 2, 4 ... 64 units and begins at a multiple of its length. Free runs are merged with their neighbours.
// A freed run is *dirty*: its memory is still there, so it counts as held, and it is handed out again first. `purge`
// gives the memory of dirty runs back to the kernel; the addresses stay ours. What is known of a run stands in the
// `UnitInfo` of its first unit, which slabs share. Belongs to one shard, under its lock.

import Primitives

/// What is known of one unit; of the first unit of a run unless said otherwise.
struct UnitInfo {
    enum State: UInt8 {
        case used
        case dirty
        case clean
    }
    /// Neighbours in the list that the run is in, as unit numbers; `none` at the ends.
    var next = UnitInfo.none
    var previous = UnitInfo.none
    /// For slabs: the first free slot and the first that was never used, both in steps of 8 bytes, and slots in use.
    var freeSlot = UInt16.max
    var freshSlot: UInt16 = 0
    var usedSlots: UInt16 = 0
    /// For slabs: the class, and the list of slabs that it is in.
    var slotClass: UInt8 = 0
    var list: UInt8 = 0
    var state = State.clean
    /// The run has 2^order units; right for every unit of a run in use.
    var order: UInt8 = 0

    static let none = UInt32.max
}

/// The units of one shard.
@safe
struct UnitAllocator: ~Copyable {
    static let unitBytes = 4096
    /// The longest run has 64 units.
    static let orderMax = 6
    private static let orders = orderMax + 1
    private static let chunkUnits = 1 << orderMax

    private var range: ReservedRange
    private var infoRange: ReservedRange
    // SAFETY: start of `infoRange`; one `UnitInfo` for each unit below `frontier`.
    private let infos: UnsafeMutablePointer<UnitInfo>
    /// Units below this one were handed out before, or are in a list.
    private var frontier = 0
    /// Heads of the lists of free runs: the dirty ones by order, then the clean ones.
    private var heads: [14 of UInt32] = .init(repeating: UnitInfo.none)
    /// Bytes of the dirty runs.
    private(set) var dirtyBytes = 0
    /// Bytes that take memory, or will when they are touched: runs in use, and dirty ones.
    private(set) var heldBytes = 0

    /// Reserves addresses for `bytes`.
    init(addressBytes: Int) {
        range = ReservedRange(addressBytes)
        let units = range.bytes / Self.unitBytes
        infoRange = ReservedRange(units * MemoryLayout<UnitInfo>.stride)
        unsafe infos = infoRange.base.bindMemory(to: UnitInfo.self, capacity: units)
    }

    var base: UnsafeMutableRawPointer { unsafe range.base }

    /// The address of a unit.
    @inline(__always)
    func address(_ unit: UInt32) -> UnsafeMutableRawPointer { unsafe range.base + Int(unit) &* Self.unitBytes }

    /// What is known of a unit.
    @inline(__always)
    func info(_ unit: UInt32) -> UnsafeMutablePointer<UnitInfo> { unsafe infos + Int(unit) }

    /// The first unit of the run in use that `pointer` lies in.
    @inline(__always)
    func run(of pointer: UnsafeMutableRawPointer) -> UInt32 {
        let unit = unsafe UInt32(truncatingIfNeeded: (pointer - range.base) / Self.unitBytes)
        let order = unsafe UInt32(info(unit).pointee.order)
        return unit & ~((1 << order) &- 1)
    }

    private static func bytes(_ order: Int) -> Int { unitBytes << order }

    // MARK: Runs

    /// A run of 2^`order` units; nil if the range is used up or the kernel refuses memory.
    mutating func allocate(order: Int) -> UInt32? {
        if let unit = take(order, .dirty) {
            dirtyBytes -= Self.bytes(order)
            return use(unit, order)
        }
        var unit = take(order, .clean)
        if unit == nil, extend() { unit = take(order, .clean) }
        guard let unit else { return nil }
        heldBytes += Self.bytes(order)
        return use(unit, order)
    }

    private func use(_ unit: UInt32, _ order: Int) -> UInt32 {
        for inner in unit..<unit + (1 << UInt32(order)) {
            unsafe info(inner).pointee.order = UInt8(order)
            unsafe info(inner).pointee.state = .used
        }
        return unit
    }

    /// Gives a run back.
    mutating func free(_ unit: UInt32) {
        let order = unsafe Int(info(unit).pointee.order)
        dirtyBytes += Self.bytes(order)
        insert(unit, order, .dirty)
    }

    /// Gives memory of dirty runs back to the kernel: `wanted` bytes or little more, if there are so many.
    mutating func purge(_ wanted: Int) {
        var left = wanted
        for order in stride(from: Self.orderMax, through: 0, by: -1) {
            while left > 0, let unit = take(exactly: order, .dirty) {
                range.discard(at: Int(unit) * Self.unitBytes, count: Self.bytes(order))
                dirtyBytes -= Self.bytes(order)
                heldBytes -= Self.bytes(order)
                left -= Self.bytes(order)
                insert(unit, order, .clean)
            }
        }
    }

    /// Opens another chunk of the range.
    private mutating func extend() -> Bool {
        let infoBytes = (frontier + Self.chunkUnits) * MemoryLayout<UnitInfo>.stride
        if infoRange.committed < infoBytes {
            guard infoRange.commit(min(infoRange.bytes - infoRange.committed, Self.infoStepBytes)) else { return false }
        }
        guard range.commit(Self.bytes(Self.orderMax)) else { return false }
        for unit in frontier..<frontier + Self.chunkUnits { unsafe (infos + unit).initialize(to: UnitInfo()) }
        insert(UInt32(frontier), Self.orderMax, .clean)
        frontier += Self.chunkUnits
        return true
    }

    /// Whole pages, more than one chunk's.
    private static let infoStepBytes = 16 << 10

    // MARK: Lists of free runs

    private static func list(_ order: Int, _ state: UnitInfo.State) -> Int { state == .dirty ? order : orders + order }

    private mutating func take(exactly order: Int, _ state: UnitInfo.State) -> UInt32? {
        let unit = heads[Self.list(order, state)]
        guard unit != UnitInfo.none else { return nil }
        remove(unit, order, state)
        return unit
    }

    /// Takes a run of 2^`order` units out, splitting a longer one if there is none.
    private mutating func take(_ order: Int, _ state: UnitInfo.State) -> UInt32? {
        for longer in order..<Self.orders {
            guard let unit = take(exactly: longer, state) else { continue }
            for half in stride(from: longer - 1, through: order, by: -1) {
                push(unit + (1 << UInt32(half)), half, state)
            }
            return unit
        }
        return nil
    }

    /// Adds a free run, merged with its other halves as far as these are free in the same way.
    private mutating func insert(_ unit: UInt32, _ order: Int, _ state: UnitInfo.State) {
        var (unit, order) = (unit, order)
        while order < Self.orderMax {
            let other = unit ^ (1 << UInt32(order))
            let known = unsafe info(other)
            // The other half is the first unit of some run, so what is known of it is up to date.
            guard unsafe known.pointee.state == state, unsafe Int(known.pointee.order) == order else { break }
            remove(other, order, state)
            unit = min(unit, other)
            order += 1
        }
        push(unit, order, state)
    }

    private mutating func push(_ unit: UInt32, _ order: Int, _ state: UnitInfo.State) {
        let list = Self.list(order, state)
        let head = heads[list]
        let pushed = unsafe info(unit)
        unsafe pushed.pointee.order = UInt8(order)
        unsafe pushed.pointee.state = state
        unsafe pushed.pointee.previous = UnitInfo.none
        unsafe pushed.pointee.next = head
        if head != UnitInfo.none { unsafe info(head).pointee.previous = unit }
        heads[list] = unit
    }

    private mutating func remove(_ unit: UInt32, _ order: Int, _ state: UnitInfo.State) {
        let (next, previous) = unsafe (info(unit).pointee.next, info(unit).pointee.previous)
        if next != UnitInfo.none { unsafe info(next).pointee.previous = previous }
        if previous != UnitInfo.none {
            unsafe info(previous).pointee.next = next
        } else {
            heads[Self.list(order, state)] = next
        }
        unsafe info(unit).pointee.state = .used
    }
}
