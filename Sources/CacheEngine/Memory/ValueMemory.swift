// Memory of values that lie apart from their entries, and of uploads' chunks: slots of whole pages.
//
// malloc cannot give back what lies between pieces in use, and keeps as many heaps as threads have met: with values of
// changing sizes it held twice what they took. Here each size of slot has addresses of its own, and the memory of a
// free slot goes back to the kernel, except for a little that is kept *warm* for values to come: what is held is what
// is used and `warmBytesMax`, whatever came before. What was kept warm for a second without need goes back, too: see
// `coolDown`. Values beyond the largest slot are malloc's, which maps them one by one. One for the process; any thread.

import Glibc
import Primitives
import Synchronization

/// Slots for large values.
enum ValueMemory {
    /// Sizes of slots in pages: 5 to 8, then eight steps for each doubling up to 1 MiB.
    private static let firstPages = 5
    private static let lastPages = 256
    private static let pageBytes = 4096
    /// Of the largest slot.
    static let slotBytesMax = lastPages * pageBytes
    static let classCount = 44

    /// What all tiers of the process want to be kept.
    private static let warmBytesMax = Atomic<Int>(0)
    private static let pools = Guarded(ValuePools(), rank: .allocator)

    /// The class of the smallest slot that holds `bytes`, up to `slotBytesMax`.
    @inline(__always)
    static func slotClass(holding bytes: Int) -> Int {
        let pages = max((bytes &+ pageBytes &- 1) / pageBytes, firstPages)
        if pages <= 16 { return pages &- firstPages }
        // Of the highest four bits of the last page's number, the first is always set.
        let last = pages &- 1
        let shift = Int.bitWidth &- 4 &- last.leadingZeroBitCount
        return 4 &+ (shift &* 8) &+ (last &>> shift) &- 8
    }

    /// Bytes of the slots of a class.
    static func slotBytes(_ slotClass: Int) -> Int {
        if slotClass < 12 { return (slotClass + firstPages) * pageBytes }
        let (doubling, step) = ((slotClass - 4) / 8, (slotClass - 4) % 8)
        return (8 + step + 1) << doubling * pageBytes
    }

    /// What a value of `bytes` takes.
    @inline(__always)
    static func taken(by bytes: Int) -> Int {
        if bytes > slotBytesMax { return (bytes &+ 16 &+ pageBytes &- 1) & ~(pageBytes &- 1) }
        return slotBytes(slotClass(holding: bytes))
    }

    /// Uninitialised memory for `bytes`, more than a page; nil when the kernel refuses it.
    static func allocate(_ bytes: Int) -> UnsafeMutableRawPointer? {
        if bytes <= slotBytesMax, let slot = unsafe pools.withLock({ unsafe $0.take(slotClass(holding: bytes)) }) {
            return unsafe slot
        }
        return unsafe malloc(bytes)
    }

    /// Gives back what `allocate` gave.
    static func free(_ piece: UnsafeMutableRawPointer) {
        let kept = warmBytesMax.load(ordering: .relaxed)
        let found = pools.withLock { pools in unsafe pools.keep(piece, warmBytesMax: kept) }
        switch found {
        case .kept: return
        case .foreign: unsafe Glibc.free(piece)
        case .tooMuch(let bytes):
            // Outside the lock: the slot is nobody's meanwhile.
            unsafe discard(piece, bytes)
            pools.withLock { unsafe $0.keepCold(piece) }
        }
    }

    /// Changes by `bytes` how much the process keeps.
    static func addWarmth(_ bytes: Int) { warmBytesMax.add(bytes, ordering: .relaxed) }

    /// Gives back what was not needed since the last call; for a timer.
    static func coolDown() {
        // A slot at a time, so that nobody waits for long.
        for number in 0..<classCount {
            var left = pools.withLock { $0.idleSlots(number) }
            while left > 0, let slot = unsafe pools.withLock({ unsafe $0.takeWarm(number) }) {
                unsafe discard(slot, slotBytes(number))
                pools.withLock { unsafe $0.keepCold(slot) }
                left -= 1
            }
        }
    }

    /// Bytes of free slots that still have memory.
    static var warmBytes: Int { pools.withLock { $0.warmBytes } }

    private static func discard(_ slot: UnsafeMutableRawPointer, _ bytes: Int) {
        _ = unsafe madvise(slot, bytes, Int32(MADV_DONTNEED))
    }
}

/// The slots, by class.
@safe
private struct ValuePools: ~Copyable {
    enum Kept {
        case kept
        /// Not one of ours.
        case foreign
        /// Enough is warm: the memory of the slot, so many bytes, is to be given back first.
        case tooMuch(Int)
    }

    private struct Pool {
        /// Free slots with memory, the last used one last, and free ones without.
        var warm: [UInt32] = []
        var cold: [UInt32] = []
        /// Slots that were ever handed out.
        var used = 0
        /// The fewest warm ones since `coolDown` looked.
        var warmMin = 0
    }

    private var range: ReservedRange?
    private var pools = Array(repeating: Pool(), count: ValueMemory.classCount)
    /// Addresses of each class, and how many of them are usable.
    private var span = 0
    private var committed = Array(repeating: 0, count: ValueMemory.classCount)
    private(set) var warmBytes = 0

    /// Of each class, where the process may have as many as it wants.
    private static let spanBytes = 64 << 30
    private static let commitBytes = 1 << 20

    init() { range = nil }

    /// A free slot; nil if the addresses are used up or the kernel refuses memory.
    mutating func take(_ number: Int) -> UnsafeMutableRawPointer? {
        if let slot = unsafe takeWarm(number) { return unsafe slot }
        if let index = pools[number].cold.popLast() { return unsafe address(index, number) }
        return unsafe takeFresh(number)
    }

    mutating func takeWarm(_ number: Int) -> UnsafeMutableRawPointer? {
        guard let index = pools[number].warm.popLast() else { return nil }
        warmBytes -= ValueMemory.slotBytes(number)
        pools[number].warmMin = min(pools[number].warmMin, pools[number].warm.count)
        return unsafe address(index, number)
    }

    private mutating func takeFresh(_ number: Int) -> UnsafeMutableRawPointer? {
        reserve()
        let bytes = ValueMemory.slotBytes(number)
        let end = (pools[number].used + 1) * bytes
        guard end <= span else { return nil }
        while committed[number] < end {
            let count = min(Self.commitBytes, span - committed[number])
            guard range?.open(at: number * span + committed[number], count: count) == true else { return nil }
            committed[number] += count
        }
        pools[number].used += 1
        return unsafe address(UInt32(pools[number].used - 1), number)
    }

    private mutating func reserve() {
        if range != nil { return }
        var wanted = Self.spanBytes * ValueMemory.classCount
        var limit = rlimit()
        // SAFETY: the struct lives until the call returns.
        if unsafe getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0, limit.rlim_cur < rlim_t.max {
            wanted = min(wanted, Int(clamping: limit.rlim_cur) / 8)
        }
        let made = ReservedRange(max(wanted, Self.commitBytes * ValueMemory.classCount))
        span = made.bytes / ValueMemory.classCount / Self.commitBytes * Self.commitBytes
        range = consume made
    }

    /// Takes a slot that nobody uses any more back, if it is one, and not too much is warm.
    mutating func keep(_ piece: UnsafeMutableRawPointer, warmBytesMax: Int) -> Kept {
        guard let (number, index) = unsafe place(piece) else { return .foreign }
        let bytes = ValueMemory.slotBytes(number)
        if warmBytes + bytes > warmBytesMax { return .tooMuch(bytes) }
        warmBytes += bytes
        pools[number].warm.append(index)
        return .kept
    }

    mutating func keepCold(_ piece: UnsafeMutableRawPointer) {
        guard let (number, index) = unsafe place(piece) else { return }
        pools[number].cold.append(index)
    }

    /// Slots that were warm without need.
    mutating func idleSlots(_ number: Int) -> Int {
        let idle = pools[number].warmMin
        pools[number].warmMin = pools[number].warm.count - idle
        return idle
    }

    private func address(_ index: UInt32, _ number: Int) -> UnsafeMutableRawPointer? {
        switch range {
        case .some(let range): unsafe range.base + number * span + Int(index) * ValueMemory.slotBytes(number)
        case nil: nil
        }
    }

    private func place(_ piece: UnsafeMutableRawPointer) -> (number: Int, index: UInt32)? {
        switch range {
        case .some(let range):
            let offset = unsafe piece - range.base
            guard offset >= 0, offset < span * ValueMemory.classCount else { return nil }
            let number = offset / span
            return (number, UInt32(offset % span / ValueMemory.slotBytes(number)))
        case nil: return nil
        }
    }
}
