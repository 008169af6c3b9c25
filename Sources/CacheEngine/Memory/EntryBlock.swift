// One entry in memory: header, key, extended data and value in one piece.
//
//   +-------------------+-----+---------------------+-----------------------------+
//   | EntryHeader (52 B)| key | (2 B length, bytes) | value, or where it is       |
//   +-------------------+-----+---------------------+-----------------------------+
//
// A value of more than `inlineValueBytesMax` is a piece of its own, see `ValueMemory`, to which the block has the
// pointer; of a value too large for the memory tier the block, a *stub*, has a `FileReference`. A block is *loose*
// while somebody fills it: malloc'd, and that thread's. `Shard.link` copies it into a slot of the shard's heap, where
// only holders of the shard's lock touch it, and where it may be moved unless it is pinned. A pinned block that was
// unlinked stays until its last pin is gone. Links between blocks of a heap are 32-bit distances, see `EntryHeader`.

import Glibc
import Primitives

/// The fixed part of an entry's block.
///
/// Links are distances from this block in steps of 8 bytes, 0 for none: a heap's blocks are less than 8 GiB apart.
/// Field order keeps what a lookup touches together.
struct EntryHeader {
    var cas: UInt64 = 0
    /// The low bits of the key's hash: enough for bucket and comparison.
    var hash: UInt32
    var chain: Int32 = 0
    /// See `EntryBlock.deadline`.
    var deadlineLow = UInt32.max
    var deadlineHigh = UInt16.max
    /// `freeSlot` marks a slot without an entry.
    var keyBytes: UInt8
    var marks: EntryMarks = []
    var valueBytes: UInt32
    var flags: UInt32 = 0
    var newer: Int32 = 0
    var older: Int32 = 0
    /// Seconds of the boot clock.
    var accessed: UInt32 = 0
    var written: UInt32 = 0
    /// Readers that hold the value past the shard lock.
    ///
    /// A linked block may have pins; an unlinked one dies with them.
    /// The highest bit says that there is extended data, which never changes.
    var pins: UInt16 = 0
    /// The access time that the index knows, in minutes of the boot clock, truncated.
    var knownAccess: UInt16 = 0

    static let freeSlot = UInt8.max
    static let extended: UInt16 = 1 << 15
}

/// Where the value of a stub is: the generation names the file, the sum proves it.
struct FileReference {
    var generation: UInt64
    var sum: UInt64
}

/// A pointer to one entry's block.
///
/// `@safe` and `@unchecked Sendable` because the type cannot protect what it points to: the header comment of this file
/// says who may touch a block when; `Shard` and `EntryDraft` are the only places that create, link and free blocks.
@safe
struct EntryBlock: Equatable, @unchecked Sendable {
    // SAFETY: points to a live block made by `make`; see the file's header for ownership.
    let raw: UnsafeMutablePointer<EntryHeader>

    static let headerBytes = MemoryLayout<EntryHeader>.size
    /// Larger values are pieces of their own.
    static let inlineValueBytesMax = 16 << 10
    /// One bucket of the hash table, which has between one and two for each entry.
    private static let bucketBytes = 8
    private static let pointerBytes = unsafe MemoryLayout<UnsafeMutableRawPointer>.size

    /// Allocates a loose block with an uninitialised value of `storedValueBytes`; nil when the kernel refuses memory.
    static func make(
        key: Span<UInt8>, extended: Span<UInt8>, storedValueBytes: Int, hash: UInt64
    ) -> EntryBlock? {
        let extendedBytes = extended.isEmpty ? 0 : extended.count + 2
        let isApart = storedValueBytes > inlineValueBytesMax
        let valueOffset = headerBytes + key.count + extendedBytes
        guard let memory = unsafe malloc(valueOffset + (isApart ? pointerBytes : storedValueBytes)) else { return nil }
        let raw = unsafe memory.bindMemory(to: EntryHeader.self, capacity: 1)
        unsafe raw.initialize(
            to: EntryHeader(
                hash: UInt32(truncatingIfNeeded: hash), keyBytes: UInt8(key.count),
                valueBytes: UInt32(storedValueBytes)))
        if isApart {
            guard let value = unsafe ValueMemory.allocate(storedValueBytes) else {
                unsafe Glibc.free(memory)
                return nil
            }
            unsafe (memory + valueOffset).storeBytes(of: value, as: UnsafeMutableRawPointer.self)
        }
        let payload = unsafe memory + headerBytes
        unsafe key.withUnsafeBytes { source in
            if let base = source.baseAddress { unsafe payload.copyMemory(from: base, byteCount: source.count) }
        }
        if !extended.isEmpty {
            unsafe raw.pointee.pins = EntryHeader.extended
            unsafe (payload + key.count).storeBytes(of: UInt16(extended.count), as: UInt16.self)
            unsafe extended.withUnsafeBytes { source in
                guard let base = source.baseAddress else { return }
                unsafe (payload + key.count + 2).copyMemory(from: base, byteCount: source.count)
            }
        }
        return unsafe EntryBlock(raw: raw)
    }

    static func == (left: EntryBlock, right: EntryBlock) -> Bool { unsafe left.raw == right.raw }

    /// Frees a loose block.
    ///
    /// The caller is its owner.
    func free() {
        if let value = unsafe valueApart { unsafe ValueMemory.free(value) }
        unsafe Glibc.free(raw)
    }

    /// Bytes from the header to the end of the value, or of what stands for it.
    var blockBytes: Int { valueOffset &+ (isStub ? MemoryLayout<FileReference>.size : bytesInPlace) }

    private var bytesInPlace: Int { valueBytes > Self.inlineValueBytesMax ? Self.pointerBytes : valueBytes }

    private var valueOffset: Int { Self.headerBytes &+ keyBytes &+ (hasExtended ? extendedBytes &+ 2 : 0) }

    /// Bytes that this entry costs: its slot, its value if that lies apart, and its bucket.
    var accountedBytes: Int {
        SlotClass.taken(by: blockBytes) &+ Self.bucketBytes &+ apartBytes
    }

    /// The same for an entry without extended data.
    static func accountedBytes(keyBytes: Int, valueBytes: Int) -> Int {
        let isApart = valueBytes > inlineValueBytesMax
        let block = headerBytes + keyBytes + (isApart ? pointerBytes : valueBytes)
        return SlotClass.taken(by: block) + bucketBytes + (isApart ? ValueMemory.taken(by: valueBytes) : 0)
    }

    /// Bytes of the value's own piece; 0 if it has none.
    var apartBytes: Int {
        isStub || valueBytes <= Self.inlineValueBytesMax ? 0 : ValueMemory.taken(by: valueBytes)
    }

    /// The value's own piece.
    var valueApart: UnsafeMutableRawPointer? {
        if isStub || valueBytes <= Self.inlineValueBytesMax { return nil }
        return unsafe (UnsafeMutableRawPointer(raw) + valueOffset).loadUnaligned(as: UnsafeMutableRawPointer.self)
    }

    private var payload: UnsafeMutableRawPointer { unsafe UnsafeMutableRawPointer(raw) + Self.headerBytes }

    var key: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: payload, count: keyBytes) }

    var extended: UnsafeRawBufferPointer {
        if !hasExtended { return unsafe UnsafeRawBufferPointer(start: payload, count: 0) }
        return unsafe UnsafeRawBufferPointer(start: payload + keyBytes + 2, count: extendedBytes)
    }

    /// The value, or a stub's file reference.
    var stored: UnsafeMutableRawBufferPointer {
        if let value = unsafe valueApart {
            return unsafe UnsafeMutableRawBufferPointer(start: value, count: valueBytes)
        }
        return unsafe UnsafeMutableRawBufferPointer(
            start: UnsafeMutableRawPointer(raw) + valueOffset,
            count: isStub ? MemoryLayout<FileReference>.size : valueBytes)
    }

    var value: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(stored) }

    /// Whether the value lives in a file only.
    var isStub: Bool { unsafe raw.pointee.marks.contains(.stub) }

    /// A stub's file.
    var file: FileReference {
        get {
            invariant(isStub)
            return unsafe stored.loadUnaligned(as: FileReference.self)
        }
        nonmutating set {
            invariant(isStub)
            unsafe stored.storeBytes(of: newValue, as: FileReference.self)
        }
    }

    func hasKey(_ other: UnsafeRawBufferPointer) -> Bool {
        guard keyBytes == other.count, let base = other.baseAddress else { return false }
        return unsafe memcmp(payload, base, other.count) == 0
    }

    // MARK: Header fields
    // SAFETY: as for `raw`.

    var hash: UInt32 { unsafe raw.pointee.hash }
    /// 48 bits of milliseconds, all ones for never: from 2,000 years before the boot to 6,000 after it.
    var deadline: Instant {
        get {
            let kept = unsafe UInt64(raw.pointee.deadlineHigh) << 32 | UInt64(raw.pointee.deadlineLow)
            return kept == Self.deadlineNever
                ? .never : Instant(milliseconds: Int64(truncatingIfNeeded: kept) &- Self.deadlineBias)
        }
        nonmutating set {
            var kept = Self.deadlineNever
            if newValue != .never {
                let bounded = min(max(newValue.milliseconds, -Self.deadlineBias), Self.deadlineLast)
                kept = UInt64(bounded &+ Self.deadlineBias)
            }
            unsafe raw.pointee.deadlineLow = UInt32(truncatingIfNeeded: kept)
            unsafe raw.pointee.deadlineHigh = UInt16(truncatingIfNeeded: kept >> 32)
        }
    }
    private static let deadlineNever: UInt64 = 1 << 48 - 1
    private static let deadlineBias: Int64 = 1 << 46
    private static let deadlineLast: Int64 = 1 << 48 - 2 - deadlineBias

    var valueBytes: Int {
        get { unsafe Int(raw.pointee.valueBytes) }
        nonmutating set { unsafe raw.pointee.valueBytes = UInt32(newValue) }
    }
    var keyBytes: Int { unsafe Int(raw.pointee.keyBytes) }
    private var hasExtended: Bool { unsafe raw.pointee.pins & EntryHeader.extended != 0 }
    var extendedBytes: Int { hasExtended ? unsafe Int((payload + keyBytes).loadUnaligned(as: UInt16.self)) : 0 }
    var flags: UInt32 {
        get { unsafe raw.pointee.flags }
        nonmutating set { unsafe raw.pointee.flags = newValue }
    }
    var marks: EntryMarks {
        get { unsafe raw.pointee.marks }
        nonmutating set { unsafe raw.pointee.marks = newValue }
    }
    /// At most `pinsMax`.
    var pins: UInt16 {
        get { unsafe raw.pointee.pins & Self.pinsMax }
        nonmutating set { unsafe raw.pointee.pins = raw.pointee.pins & EntryHeader.extended | newValue }
    }
    static let pinsMax = EntryHeader.extended - 1
    var knownAccess: UInt16 {
        get { unsafe raw.pointee.knownAccess }
        nonmutating set { unsafe raw.pointee.knownAccess = newValue }
    }
    var cas: UInt64 {
        get { unsafe raw.pointee.cas }
        nonmutating set { unsafe raw.pointee.cas = newValue }
    }
    var accessed: UInt32 {
        get { unsafe raw.pointee.accessed }
        nonmutating set { unsafe raw.pointee.accessed = newValue }
    }
    var written: UInt32 {
        get { unsafe raw.pointee.written }
        nonmutating set { unsafe raw.pointee.written = newValue }
    }

    // MARK: Links

    /// The next block of the same bucket.
    var chain: EntryBlock? {
        @inline(__always) get { follow(unsafe raw.pointee.chain) }
        nonmutating set { unsafe raw.pointee.chain = distance(to: newValue) }
    }
    var newer: EntryBlock? {
        @inline(__always) get { follow(unsafe raw.pointee.newer) }
        nonmutating set { unsafe raw.pointee.newer = distance(to: newValue) }
    }
    var older: EntryBlock? {
        @inline(__always) get { follow(unsafe raw.pointee.older) }
        nonmutating set { unsafe raw.pointee.older = distance(to: newValue) }
    }

    @inline(__always)
    private func follow(_ distance: Int32) -> EntryBlock? {
        if distance == 0 { return nil }
        let target = unsafe UnsafeMutableRawPointer(raw) + Int(distance) &* 8
        return unsafe EntryBlock(raw: target.assumingMemoryBound(to: EntryHeader.self))
    }

    @inline(__always)
    private func distance(to other: EntryBlock?) -> Int32 {
        guard let other else { return 0 }
        let bytes = unsafe UnsafeMutableRawPointer(other.raw) - UnsafeMutableRawPointer(raw)
        return Int32(truncatingIfNeeded: bytes / 8)
    }

    // MARK: Slots

    /// Whether this is a slot of a heap without an entry.
    var isFreeSlot: Bool { unsafe raw.pointee.keyBytes == EntryHeader.freeSlot }

    func markFree() { unsafe raw.pointee.keyBytes = EntryHeader.freeSlot }

    /// Copies everything but the links to `slot`, which has room for `blockBytes`.
    func copy(to slot: UnsafeMutableRawPointer) -> EntryBlock {
        unsafe slot.copyMemory(from: raw, byteCount: blockBytes)
        let copy = unsafe EntryBlock(raw: slot.bindMemory(to: EntryHeader.self, capacity: 1))
        unsafe copy.raw.pointee.chain = 0
        unsafe copy.raw.pointee.newer = 0
        unsafe copy.raw.pointee.older = 0
        return copy
    }

    /// A loose block with the same value: if it lies apart, with the very same; nil when the kernel refuses memory.
    ///
    /// One of both is to be given up: this by `Shard.replaceByTwin`, or the other by `freeTwin`.
    func looseTwin() -> EntryBlock? {
        // SAFETY: the room is as large as the block, which the caller's lock keeps.
        guard let room = unsafe malloc(blockBytes) else { return nil }
        return unsafe copy(to: room)
    }

    /// Gives a twin up, but not the value.
    func freeTwin() {
        unsafe Glibc.free(raw)
    }
}

extension Instant {
    /// Boot second 0 as entries keep it: they may be older than the boot.
    static let bootSecondsBias: Int64 = 1 << 31

    /// Whole seconds of the boot clock, biased, as entries keep their access and write times.
    @inline(__always)
    var bootSeconds: UInt32 { UInt32(clamping: milliseconds / 1000 &+ Self.bootSecondsBias) }

    /// The beginning of that second.
    init(bootSeconds: UInt32) { self.init(milliseconds: (Int64(bootSeconds) - Self.bootSecondsBias) * 1000) }
}
