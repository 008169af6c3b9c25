// A chained hash table of entry blocks that grows a few buckets at a time.
//
// Doubling a table of millions of buckets in one go would stop a shard for tens of milliseconds. Here a larger bucket
// array is allocated (the kernel zeroes its pages as they are touched) and each later operation moves a few
// buckets over; until all are moved, a lookup asks the old array for buckets that have not moved yet. The table owns
// its bucket arrays, not the blocks. Belongs to one shard, under its lock.

import CPrefetch
import Glibc
import Primitives

/// Hash table from the low bits of a key's hash to blocks of one heap; chains run through `EntryBlock.chain`.
@safe
struct EntryTable: ~Copyable {
    /// Where the first block of a chain lies in the heap: in steps of 8 bytes from 1 on, 0 for none.
    private typealias Bucket = UInt32

    // SAFETY: arrays of `mask + 1` buckets, made by `allocate`, released in `deinit` or when the last bucket has moved.
    private var buckets: UnsafeMutablePointer<Bucket>
    private var mask: UInt32
    private var oldBuckets: UnsafeMutablePointer<Bucket>?
    private var oldMask: UInt32 = 0
    /// Buckets of the old array below this index have moved.
    private var moved: UInt32 = 0
    // SAFETY: one step before the heap whose blocks are in the table; used with what `place` made of such a block.
    private let origin: UnsafeMutableRawPointer
    private(set) var count = 0

    private static let initialBuckets = 1024
    private static let bucketsMovedPerOperation = 4

    /// A table for blocks of the heap that begins at `base`.
    init(base: UnsafeMutableRawPointer) {
        unsafe origin = base - 8
        unsafe buckets = Self.allocate(Self.initialBuckets)
        mask = UInt32(Self.initialBuckets - 1)
        unsafe oldBuckets = nil
    }

    deinit {
        unsafe Self.release(buckets, Int(mask) + 1)
        if let old = unsafe oldBuckets { unsafe Self.release(old, Int(oldMask) + 1) }
    }

    private static func allocate(_ count: Int) -> UnsafeMutablePointer<Bucket> {
        let bytes = count * MemoryLayout<Bucket>.stride
        guard let memory = unsafe bytes >= hugePageBytes ? map(bytes) : calloc(bytes, 1) else { outOfMemory(bytes) }
        return unsafe memory.bindMemory(to: Bucket.self, capacity: count)
    }

    private static func release(_ buckets: UnsafeMutablePointer<Bucket>, _ count: Int) {
        let bytes = count * MemoryLayout<Bucket>.stride
        // SAFETY: the array was made by `allocate` with the same count.
        if bytes >= hugePageBytes { unsafe munmap(buckets, bytes) } else { unsafe free(buckets) }
    }

    private static let hugePageBytes = 2 << 20

    /// Zeroes in huge pages, if the kernel gives them: every lookup touches another page of a large table, and all of
    /// them are in use.
    private static func map(_ bytes: Int) -> UnsafeMutableRawPointer? {
        let (access, kind) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
        let made = unsafe mmap(nil, bytes + hugePageBytes, access, kind, -1, 0)
        guard let made = unsafe made, unsafe made != MAP_FAILED else { return nil }
        // SAFETY: what is cut off lies within the new mapping, on both sides of the aligned part.
        let before = -Int(bitPattern: made) & (hugePageBytes - 1)
        let start = unsafe made + before
        if before > 0 { unsafe munmap(made, before) }
        if before < hugePageBytes { unsafe munmap(start + bytes, hugePageBytes - before) }
        _ = unsafe madvise(start, bytes, Int32(MADV_HUGEPAGE))
        return unsafe start
    }

    /// Bytes of the bucket arrays.
    var bytes: Int {
        let old = unsafe oldBuckets == nil ? 0 : Int(oldMask) + 1
        return (Int(mask) + 1 + old) * MemoryLayout<Bucket>.stride
    }

    @inline(__always)
    private func block(at bucket: Bucket) -> EntryBlock? {
        if bucket == 0 { return nil }
        return unsafe EntryBlock(raw: (origin + Int(bucket) &* 8).assumingMemoryBound(to: EntryHeader.self))
    }

    @inline(__always)
    private func place(of block: EntryBlock?) -> Bucket {
        guard let block else { return 0 }
        return unsafe Bucket(truncatingIfNeeded: (UnsafeMutableRawPointer(block.raw) - origin) / 8)
    }

    /// The bucket that holds, or would hold, `hash`.
    @inline(__always)
    private func slot(_ hash: UInt32) -> UnsafeMutablePointer<Bucket> {
        if let old = unsafe oldBuckets {
            let index = hash & oldMask
            if index >= moved { return unsafe old + Int(index) }
        }
        return unsafe buckets + Int(hash & mask)
    }

    /// The block with this key, or nil.
    @inline(__always)
    func find(_ hash: UInt64, _ key: UnsafeRawBufferPointer) -> EntryBlock? {
        let hash = UInt32(truncatingIfNeeded: hash)
        var block = block(at: unsafe slot(hash).pointee)
        while let candidate = block {
            if unsafe candidate.hash == hash && candidate.hasKey(key) { return candidate }
            block = candidate.chain
        }
        return nil
    }

    /// Begins to fetch the bucket of `hash`.
    @inline(__always)
    func approachBucket(_ hash: UInt64) { unsafe cprefetch(slot(UInt32(truncatingIfNeeded: hash))) }

    /// Begins to fetch the first block of the bucket of `hash`: its header, and key and value as far as they are short.
    @inline(__always)
    func approachBlock(_ hash: UInt64) {
        guard let block = block(at: unsafe slot(UInt32(truncatingIfNeeded: hash)).pointee) else { return }
        let start = unsafe UnsafeRawPointer(block.raw)
        unsafe cprefetch(start)
        unsafe cprefetch(start + 64)
        unsafe cprefetch(start + 128)
    }

    /// When the entry with this hash was last used, in boot seconds; nil if there is none.
    ///
    /// Told by the low bits of the hash, so with luck that of another entry: for recency only.
    func lastAccess(_ hash: UInt64) -> UInt32? {
        let hash = UInt32(truncatingIfNeeded: hash)
        var block = block(at: unsafe slot(hash).pointee)
        while let candidate = block {
            if candidate.hash == hash { return candidate.accessed }
            block = candidate.chain
        }
        return nil
    }

    /// Links a block whose key is not in the table.
    mutating func insert(_ block: EntryBlock) {
        if count > Int(mask), unsafe oldBuckets == nil { startGrowing() }
        moveSomeBuckets()
        let slot = unsafe slot(block.hash)
        block.chain = self.block(at: unsafe slot.pointee)
        unsafe slot.pointee = place(of: block)
        count &+= 1
    }

    /// Unlinks a block that is in the table.
    mutating func remove(_ block: EntryBlock) {
        moveSomeBuckets()
        invariant(replace(block, by: block.chain), "a block to be removed is not in its bucket")
        block.chain = nil
        count &-= 1
    }

    /// Lets what points to a block point to `other`; false if nothing does.
    @inline(__always)
    func replace(_ block: EntryBlock, by other: EntryBlock?) -> Bool {
        let slot = unsafe slot(block.hash)
        let sought = place(of: block)
        if unsafe slot.pointee == sought {
            unsafe slot.pointee = place(of: other)
            return true
        }
        var previous = self.block(at: unsafe slot.pointee)
        while let candidate = previous {
            if candidate.chain == block {
                candidate.chain = other
                return true
            }
            previous = candidate.chain
        }
        return false
    }

    private mutating func startGrowing() {
        let newCount = (Int(mask) + 1) * 2
        unsafe oldBuckets = buckets
        oldMask = mask
        moved = 0
        unsafe buckets = Self.allocate(newCount)
        mask = UInt32(newCount - 1)
    }

    @inline(__always)
    private mutating func moveSomeBuckets() {
        if unsafe oldBuckets != nil { moveBuckets(Self.bucketsMovedPerOperation) }
    }

    private mutating func moveBuckets(_ limit: Int) {
        guard let old = unsafe oldBuckets else { return }
        var left = limit
        while left > 0, moved <= oldMask {
            var block = block(at: unsafe old[Int(moved)])
            while let current = block {
                block = current.chain
                let target = unsafe buckets + Int(current.hash & mask)
                current.chain = self.block(at: unsafe target.pointee)
                unsafe target.pointee = place(of: current)
            }
            moved &+= 1
            left &-= 1
        }
        if moved > oldMask {
            unsafe Self.release(old, Int(oldMask) + 1)
            unsafe oldBuckets = nil
        }
    }

    /// Number of positions that `visit(position:)` accepts.
    ///
    /// Changes only when the table grows.
    var positions: Int { unsafe Int(oldBuckets == nil ? mask : oldMask) + 1 }

    /// Visits the blocks of one position, for slow scans in bounded steps.
    ///
    /// Growth between steps may repeat or skip an entry that moved, so such scans are for clean-up and listings, never
    /// for accounting.
    func visit(position: Int, _ body: (EntryBlock) -> Void) {
        if let old = unsafe oldBuckets {
            if position >= Int(moved) { return Self.visitChain(block(at: unsafe old[position]), body) }
            Self.visitChain(block(at: unsafe buckets[position]), body)
            return Self.visitChain(block(at: unsafe buckets[position + Int(oldMask) + 1]), body)
        }
        guard position <= Int(mask) else { return }
        Self.visitChain(block(at: unsafe buckets[position]), body)
    }

    /// Visits all positions that are `residue` modulo `modulus`, an earlier number of positions.
    ///
    /// A walk over the residues visits every entry that is there all the while exactly once, however the table grows.
    func visit(residue: Int, modulus: Int, _ body: (EntryBlock) -> Void) {
        for position in stride(from: residue, to: positions, by: modulus) { visit(position: position, body) }
    }

    private static func visitChain(_ first: EntryBlock?, _ body: (EntryBlock) -> Void) {
        var block = first
        while let current = block {
            block = current.chain
            body(current)
        }
    }
}
