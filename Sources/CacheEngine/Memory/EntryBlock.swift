// One entry in memory: a single malloc'd block of header, key, extended data and value.
//
//   +-------------------+-----+----------+-------+
//   | EntryHeader (72 B)| key | extended | value |
//   +-------------------+-----+----------+-------+
//
// A block belongs to exactly one owner at a time: a draft that is being filled, the shard that it is linked into, or,
// when it was unlinked while readers had it pinned, the last of those readers. Every field but the bytes of a draft is
// read and written only under the owning shard's lock. An entry too large for the memory tier is a *stub*: its value
// area holds a `FileReference` instead of the value.

import Glibc
import Primitives

/// The fixed part of an entry's block.
///
/// Field order keeps what a lookup touches in the first cache line.
struct EntryHeader {
    var chain: EntryBlock?
    var hash: UInt64
    var deadline: Instant
    var valueBytes: UInt32
    var flags: UInt32
    var extendedBytes: UInt16
    var keyBytes: UInt8
    var marks: EntryMarks
    /// Readers that hold the value past the shard lock.
    ///
    /// A linked block may have pins; an unlinked one dies with them.
    var pins: UInt16
    /// The access time that the index knows, in minutes of the boot clock, truncated.
    var knownAccess: UInt16
    var cas: UInt64
    var newer: EntryBlock?
    var older: EntryBlock?
    /// Seconds of the boot clock.
    var accessed: UInt32
    var written: UInt32
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

    static let headerBytes = MemoryLayout<EntryHeader>.stride
    /// One bucket of the hash table.
    private static let bucketBytes = 8

    /// Allocates a block with an uninitialised value of `storedValueBytes`; nil when the kernel refuses memory.
    static func make(
        key: Span<UInt8>, extended: Span<UInt8>, storedValueBytes: Int, hash: UInt64
    ) -> EntryBlock? {
        let bytes = headerBytes + key.count + extended.count + storedValueBytes
        guard let memory = unsafe malloc(bytes) else { return nil }
        let raw = unsafe memory.bindMemory(to: EntryHeader.self, capacity: 1)
        unsafe raw.initialize(
            to: EntryHeader(
                chain: nil, hash: hash, deadline: .never, valueBytes: UInt32(storedValueBytes), flags: 0,
                extendedBytes: UInt16(extended.count), keyBytes: UInt8(key.count), marks: [], pins: 0, knownAccess: 0,
                cas: 0,
                newer: nil, older: nil, accessed: 0, written: 0))
        let payload = unsafe memory + headerBytes
        unsafe key.withUnsafeBytes { source in
            if let base = source.baseAddress { unsafe payload.copyMemory(from: base, byteCount: source.count) }
        }
        unsafe extended.withUnsafeBytes { source in
            guard let base = source.baseAddress else { return }
            unsafe (payload + key.count).copyMemory(from: base, byteCount: source.count)
        }
        return unsafe EntryBlock(raw: raw)
    }

    static func == (left: EntryBlock, right: EntryBlock) -> Bool { unsafe left.raw == right.raw }

    /// Frees the block.
    ///
    /// The caller is its last owner.
    func free() {
        unsafe Glibc.free(raw)
    }

    /// Bytes that this entry costs: what the allocator takes from the system for the block, and its bucket.
    var accountedBytes: Int {
        unsafe Self.accountedBytes(payload: keyBytes &+ extendedBytes &+ stored.count)
    }

    /// The same for an entry with `payload` bytes of key, extended data and value.
    @inline(__always)
    static func accountedBytes(payload: Int) -> Int {
        AllocationSize.taken(by: headerBytes &+ payload) &+ bucketBytes
    }

    private var payload: UnsafeMutableRawPointer { unsafe UnsafeMutableRawPointer(raw) + Self.headerBytes }

    var key: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: payload, count: Int(raw.pointee.keyBytes))
    }

    var extended: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(
            start: payload + Int(raw.pointee.keyBytes), count: Int(raw.pointee.extendedBytes))
    }

    /// The bytes after key and extended data: the value, or a stub's file reference.
    var stored: UnsafeMutableRawBufferPointer {
        let offset = unsafe Int(raw.pointee.keyBytes) &+ Int(raw.pointee.extendedBytes)
        let count = unsafe isStub ? MemoryLayout<FileReference>.size : Int(raw.pointee.valueBytes)
        return unsafe UnsafeMutableRawBufferPointer(start: payload + offset, count: count)
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
        guard unsafe Int(raw.pointee.keyBytes) == other.count, let base = other.baseAddress else { return false }
        return unsafe memcmp(payload, base, other.count) == 0
    }

    // Header fields. SAFETY: as for `raw`.
    var chain: EntryBlock? {
        get { unsafe raw.pointee.chain }
        nonmutating set { unsafe raw.pointee.chain = newValue }
    }
    var hash: UInt64 { unsafe raw.pointee.hash }
    var deadline: Instant {
        get { unsafe raw.pointee.deadline }
        nonmutating set { unsafe raw.pointee.deadline = newValue }
    }
    var valueBytes: Int {
        get { unsafe Int(raw.pointee.valueBytes) }
        nonmutating set { unsafe raw.pointee.valueBytes = UInt32(newValue) }
    }
    var keyBytes: Int { unsafe Int(raw.pointee.keyBytes) }
    var extendedBytes: Int { unsafe Int(raw.pointee.extendedBytes) }
    var flags: UInt32 {
        get { unsafe raw.pointee.flags }
        nonmutating set { unsafe raw.pointee.flags = newValue }
    }
    var marks: EntryMarks {
        get { unsafe raw.pointee.marks }
        nonmutating set { unsafe raw.pointee.marks = newValue }
    }
    var pins: UInt16 {
        get { unsafe raw.pointee.pins }
        nonmutating set { unsafe raw.pointee.pins = newValue }
    }
    var knownAccess: UInt16 {
        get { unsafe raw.pointee.knownAccess }
        nonmutating set { unsafe raw.pointee.knownAccess = newValue }
    }
    var cas: UInt64 {
        get { unsafe raw.pointee.cas }
        nonmutating set { unsafe raw.pointee.cas = newValue }
    }
    var newer: EntryBlock? {
        get { unsafe raw.pointee.newer }
        nonmutating set { unsafe raw.pointee.newer = newValue }
    }
    var older: EntryBlock? {
        get { unsafe raw.pointee.older }
        nonmutating set { unsafe raw.pointee.older = newValue }
    }
    var accessed: UInt32 {
        get { unsafe raw.pointee.accessed }
        nonmutating set { unsafe raw.pointee.accessed = newValue }
    }
    var written: UInt32 {
        get { unsafe raw.pointee.written }
        nonmutating set { unsafe raw.pointee.written = newValue }
    }
}

/// What glibc's malloc really takes for a request, see mallopt(3) and malloc/malloc.c of glibc: chunks are multiples of
/// 16 bytes with 8 bytes of header, and blocks from the mmap threshold on are whole pages.
enum AllocationSize {
    private static let mmapThreshold = 128 << 10

    @inline(__always)
    static func taken(by bytes: Int) -> Int {
        if bytes < mmapThreshold { return max(32, (bytes &+ 8 &+ 15) & ~15) }
        return (bytes &+ 16 &+ 4095) & ~4095
    }
}

extension Instant {
    /// Boot second 0 as entries keep it: they may be older than the boot.
    static let bootSecondsBias: Int64 = 1 << 31

    /// Whole seconds of the boot clock, biased, as entries keep their access and write times.
    @inline(__always)
    var bootSeconds: UInt32 { UInt32(clamping: milliseconds / 1000 &+ Self.bootSecondsBias) }
}
