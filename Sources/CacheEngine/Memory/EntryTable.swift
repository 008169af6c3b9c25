// A chained hash table of entry blocks that grows a few buckets at a time.
//
// Doubling a table of millions of buckets in one go would stop a shard for tens of milliseconds. Here a larger bucket
// array is allocated (calloc: the kernel zeroes its pages as they are touched) and each later operation moves a few
// buckets over; until all are moved, a lookup asks the old array for buckets that have not moved yet. The table owns
// its bucket arrays, not the blocks. Belongs to one shard, under its lock.

import Glibc
import Primitives

/// Hash table from a key's 64-bit hash to blocks; chains run through `EntryBlock.chain`.
@safe
struct EntryTable: ~Copyable {
    private typealias Bucket = EntryBlock?

    // SAFETY: arrays of `mask + 1` buckets, calloc'd here and freed in `deinit` or when the last bucket has moved.
    // A zeroed bucket is a valid nil: `EntryBlock?` is a single pointer.
    private var buckets: UnsafeMutablePointer<Bucket>
    private var mask: UInt64
    private var oldBuckets: UnsafeMutablePointer<Bucket>?
    private var oldMask: UInt64 = 0
    /// Buckets of the old array below this index have moved.
    private var moved: UInt64 = 0
    private(set) var count = 0

    private static let initialBuckets = 1024
    private static let bucketsMovedPerOperation = 4

    init() {
        unsafe buckets = Self.allocate(Self.initialBuckets)
        mask = UInt64(Self.initialBuckets - 1)
        unsafe oldBuckets = nil
    }

    deinit {
        unsafe free(buckets)
        unsafe free(oldBuckets)
    }

    private static func allocate(_ count: Int) -> UnsafeMutablePointer<Bucket> {
        guard let memory = unsafe calloc(count, MemoryLayout<Bucket>.stride) else {
            outOfMemory(count * MemoryLayout<Bucket>.stride)
        }
        return unsafe memory.bindMemory(to: Bucket.self, capacity: count)
    }

    /// The bucket that holds, or would hold, `hash`.
    @inline(__always)
    private func slot(_ hash: UInt64) -> UnsafeMutablePointer<Bucket> {
        if let old = unsafe oldBuckets {
            let index = hash & oldMask
            if index >= moved { return unsafe old + Int(index) }
        }
        return unsafe buckets + Int(hash & mask)
    }

    /// The block with this key, or nil.
    @inline(__always)
    func find(_ hash: UInt64, _ key: UnsafeRawBufferPointer) -> EntryBlock? {
        var block = unsafe slot(hash).pointee
        while let candidate = block {
            if unsafe candidate.hash == hash && candidate.hasKey(key) { return candidate }
            block = candidate.chain
        }
        return nil
    }

    /// When the entry with this hash was last used, in boot seconds; nil if there is none.
    func lastAccess(_ hash: UInt64) -> UInt32? {
        var block = unsafe slot(hash).pointee
        while let candidate = block {
            if candidate.hash == hash { return candidate.accessed }
            block = candidate.chain
        }
        return nil
    }

    /// Links a block whose key is not in the table.
    mutating func insert(_ block: EntryBlock) {
        if count > mask, unsafe oldBuckets == nil { startGrowing() }
        moveSomeBuckets()
        let slot = unsafe slot(block.hash)
        block.chain = unsafe slot.pointee
        unsafe slot.pointee = block
        count &+= 1
    }

    /// Unlinks a block that is in the table.
    mutating func remove(_ block: EntryBlock) {
        moveSomeBuckets()
        let slot = unsafe slot(block.hash)
        count &-= 1
        if unsafe slot.pointee == block {
            unsafe slot.pointee = block.chain
            block.chain = nil
            return
        }
        var previous = unsafe slot.pointee
        while let candidate = previous {
            if candidate.chain == block {
                candidate.chain = block.chain
                block.chain = nil
                return
            }
            previous = candidate.chain
        }
        invariant(false, "a block to be removed is not in its bucket")
    }

    private mutating func startGrowing() {
        let newCount = Int(mask + 1) * 2
        unsafe oldBuckets = buckets
        oldMask = mask
        moved = 0
        unsafe buckets = Self.allocate(newCount)
        mask = UInt64(newCount - 1)
    }

    @inline(__always)
    private mutating func moveSomeBuckets() {
        if unsafe oldBuckets != nil { moveBuckets(Self.bucketsMovedPerOperation) }
    }

    private mutating func moveBuckets(_ limit: Int) {
        guard let old = unsafe oldBuckets else { return }
        var left = limit
        while left > 0, moved <= oldMask {
            var block = unsafe old[Int(moved)]
            while let current = block {
                block = current.chain
                let target = unsafe buckets + Int(current.hash & mask)
                current.chain = unsafe target.pointee
                unsafe target.pointee = current
            }
            moved &+= 1
            left &-= 1
        }
        if moved > oldMask {
            unsafe free(old)
            unsafe oldBuckets = nil
        }
    }

    /// Number of positions that `visit(position:)` accepts.
    ///
    /// Changes only when the table grows.
    var positions: Int { unsafe Int((oldBuckets == nil ? mask : oldMask) + 1) }

    /// Visits the blocks of one position, for slow scans in bounded steps.
    ///
    /// Growth between steps may repeat or skip an entry that moved, so such scans are for clean-up and listings, never
    /// for accounting.
    func visit(position: Int, _ body: (EntryBlock) -> Void) {
        if let old = unsafe oldBuckets {
            if UInt64(position) >= moved { return Self.visitChain(unsafe old[position], body) }
            Self.visitChain(unsafe buckets[position], body)
            return Self.visitChain(unsafe buckets[position + Int(oldMask) + 1], body)
        }
        guard UInt64(position) <= mask else { return }
        Self.visitChain(unsafe buckets[position], body)
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
