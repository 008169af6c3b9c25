// The anchor: how far the store got, kept apart from the store.
//
// SQLite rolls a damaged write-ahead log back silently; the anchor remembers the highest committed sequence, so a store
// that has gone back is seen. It also holds the epoch, raised and synced at each start, so that generations and CAS ids
// never repeat; and the store's time, see StoreClock. Two slots of 512 bytes, written in turn: a torn or damaged slot
// leaves the other. A start writes both, so the older slot never tells of an earlier epoch or of a clean stop.
// docs/DISK_FORMAT.md gives the bytes. Pure.

import Hashing
import Primitives

/// What the acknowledged changes of a run survive (`disk.durability`).
enum StoreDurability: UInt8, Sendable {
    case none = 0
    case process = 1
    case always = 2
}

/// How a run ended, as far as the anchor knows.
enum StoreStop: UInt8, Sendable {
    /// It has not ended: it runs, or it crashed.
    case running = 0
    /// It ended in order; what it wrote may be in the page cache only.
    case clean = 1
    /// It ended in order and everything was synced.
    case cleanAndSynced = 2
}

/// One slot's content.
struct StoreAnchor: Equatable, Sendable {
    static let slotBytes = 512
    static let fileBytes = 2 * slotBytes
    private static let magic: UInt64 = 0x726f_6863_6e61_6463  // "cdanchor" in little-endian order
    private static let version: UInt64 = 1
    private static let bootIDBytesMax = 63
    private static let bootIDOffset = 64
    private static let momentOffset = 128
    private static let sumOffset = slotBytes - 8

    /// The start that wrote it.
    ///
    /// Below 2^23, so that generations stay positive as signed numbers.
    var epoch: UInt32
    /// Counts writes: of two valid slots the higher one is newer.
    var write: UInt64
    /// The highest sequence committed to the index.
    var sequence: UInt64
    var stop: StoreStop
    var durability: StoreDurability
    /// /proc/sys/kernel/random/boot_id, at most 63 bytes.
    var bootID: String
    /// When it was written; nil: not known.
    var moment: StoreMoment?

    static let epochMax: UInt32 = 1 << 23 - 1

    /// The slot that the write goes to.
    var slot: Int { Int(write % 2) }

    /// The slot's 512 bytes.
    var bytes: [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Self.slotBytes)
        bytes.put(Self.magic, at: 0)
        bytes.put(Self.version, at: 8)
        bytes.put(write, at: 16)
        bytes.put(UInt64(epoch), at: 24)
        bytes.put(sequence, at: 32)
        bytes.put(UInt64(stop.rawValue), at: 40)
        bytes.put(UInt64(durability.rawValue), at: 48)
        let boot = bootID.utf8.prefix(Self.bootIDBytesMax)
        bytes.put(UInt64(boot.count), at: 56)
        for (index, byte) in boot.enumerated() { bytes[Self.bootIDOffset + index] = byte }
        if let moment {
            bytes.put(UInt64(bitPattern: moment.time.milliseconds), at: Self.momentOffset)
            bytes.put(UInt64(bitPattern: moment.boot.milliseconds), at: Self.momentOffset + 8)
        }
        bytes.put(Self.sum(of: bytes), at: Self.sumOffset)
        return bytes
    }

    /// Reads one slot; nil if it is damaged or was never written.
    init?(slot bytes: ArraySlice<UInt8>) {
        let bytes = Array(bytes)
        guard bytes.count == Self.slotBytes, bytes.number(at: 0) == Self.magic, bytes.number(at: 8) == Self.version,
            bytes.number(at: Self.sumOffset) == Self.sum(of: bytes),
            let epoch = UInt32(exactly: bytes.number(at: 24)), epoch <= Self.epochMax,
            let stop = UInt8(exactly: bytes.number(at: 40)).flatMap(StoreStop.init),
            let durability = UInt8(exactly: bytes.number(at: 48)).flatMap(StoreDurability.init),
            let bootCount = Int(exactly: bytes.number(at: 56)), bootCount <= Self.bootIDBytesMax
        else { return nil }
        self.epoch = epoch
        write = bytes.number(at: 16)
        sequence = bytes.number(at: 32)
        self.stop = stop
        self.durability = durability
        bootID = String(decoding: bytes[Self.bootIDOffset..<Self.bootIDOffset + bootCount], as: UTF8.self)
        moment = Self.moment(bytes.number(at: Self.momentOffset), bytes.number(at: Self.momentOffset + 8))
    }

    private static func moment(_ time: UInt64, _ boot: UInt64) -> StoreMoment? {
        guard let time = Int64(exactly: time), (1...StoreMoment.millisecondsMax).contains(time),
            let boot = Int64(exactly: boot), boot <= StoreMoment.millisecondsMax
        else { return nil }
        return StoreMoment(boot: Instant(milliseconds: boot), time: WallTime(milliseconds: time))
    }

    init(epoch: UInt32, write: UInt64, sequence: UInt64, durability: StoreDurability, bootID: String) {
        self.epoch = epoch
        self.write = write
        self.sequence = sequence
        self.stop = .running
        self.durability = durability
        self.bootID = String(decoding: bootID.utf8.prefix(Self.bootIDBytesMax), as: UTF8.self)
    }

    /// The newest valid slot of a file's content; nil if neither is valid.
    static func newest(in bytes: [UInt8]) -> StoreAnchor? {
        let slots = [0, slotBytes].compactMap { start in
            bytes.count >= start + slotBytes ? StoreAnchor(slot: bytes[start..<start + slotBytes]) : nil
        }
        return slots.max { $0.write < $1.write }
    }

    private static func sum(of bytes: [UInt8]) -> UInt64 {
        // SAFETY: the sum is over a part of the array's own bytes; xxh3 keeps nothing.
        unsafe bytes.withUnsafeBytes { bytes in
            unsafe xxh3(UnsafeRawBufferPointer(rebasing: bytes[..<sumOffset]), seed: magic)
        }
    }
}

extension [UInt8] {
    /// Writes a number in little-endian order.
    mutating func put(_ number: UInt64, at offset: Int) {
        for index in 0..<8 { self[offset + index] = UInt8(truncatingIfNeeded: number >> (8 * index)) }
    }

    /// Reads a number in little-endian order.
    func number(at offset: Int) -> UInt64 {
        (0..<8).reduce(0) { $0 | UInt64(self[offset + $1]) << (8 * $1) }
    }
}
