// Which keys may have a row on disk: answers most misses without a look at the index.
//
// A blocked fingerprint table. A hash names one bucket of 32 slots (one cache line) and a 16-bit fingerprint, which is
// put into any free slot of that bucket. No false negatives: every row's fingerprint is inserted exactly once and
// removed exactly once. False positives: at most 32 / 65,535 of the misses. A bucket that overflowed says "maybe" for
// ever; at the load at which `FilterKeeper` builds a larger table that is one bucket in ten thousand. At 2 bytes a slot
// and a load between 1/5 and 1/2 that is 4 to 10 bytes per row. Belongs to one shard, under its lock, or to its
// builder.

import Primitives

/// A set of hashes that errs on one side only.
@safe
struct ResidencyFilter: ~Copyable {
    typealias Bucket = SIMD32<UInt16>

    static let slotsPerBucket = 32
    private static let empty: UInt16 = 0
    private static let overflowed: UInt16 = .max

    // SAFETY: `bucketCount` buckets, allocated here, freed in deinit; every index is masked to the count.
    private let buckets: UnsafeMutablePointer<Bucket>
    private let mask: UInt64
    private(set) var count = 0

    /// A table for about `expected` hashes at half load.
    init(expected: Int) {
        var bucketCount = 16
        while bucketCount * Self.slotsPerBucket / 2 < expected { bucketCount *= 2 }
        unsafe buckets = .allocate(capacity: bucketCount)
        unsafe buckets.initialize(repeating: Bucket(repeating: Self.empty), count: bucketCount)
        mask = UInt64(bucketCount - 1)
    }

    deinit { unsafe buckets.deallocate() }

    /// Hashes beyond which a larger table should be built: half of all slots.
    var comfortableCount: Int { Int(mask + 1) * Self.slotsPerBucket / 2 }

    @inline(__always)
    private func bucket(_ hash: UInt64) -> UnsafeMutablePointer<Bucket> { unsafe buckets + Int(hash & mask) }

    /// 1...65,534, from bits that choose neither the shard nor the bucket.
    @inline(__always)
    private static func fingerprint(_ hash: UInt64) -> UInt16 {
        let bits = UInt16(truncatingIfNeeded: hash >> 36)
        return bits == empty ? 1 : (bits == overflowed ? 2 : bits)
    }

    /// False only if the hash is not in the set.
    @inline(__always)
    func mayContain(_ hash: UInt64) -> Bool {
        let bucket = unsafe bucket(hash).pointee
        let matches = (bucket .== Bucket(repeating: Self.fingerprint(hash))) .| (bucket .== Bucket(repeating: .max))
        return any(matches)
    }

    /// Adds a hash that is not in the set.
    mutating func insert(_ hash: UInt64) {
        count += 1
        let place = unsafe bucket(hash)
        let bucket = unsafe place.pointee
        for slot in 0..<Self.slotsPerBucket {
            if bucket[slot] == Self.overflowed { return }
            if bucket[slot] == Self.empty {
                unsafe place.pointee[slot] = Self.fingerprint(hash)
                return
            }
        }
        unsafe place.pointee[0] = Self.overflowed
    }

    /// Takes out a hash that is in the set.
    mutating func remove(_ hash: UInt64) {
        count -= 1
        let place = unsafe bucket(hash)
        let bucket = unsafe place.pointee
        let fingerprint = Self.fingerprint(hash)
        for slot in 0..<Self.slotsPerBucket where bucket[slot] == Self.overflowed { return }
        for slot in 0..<Self.slotsPerBucket where bucket[slot] == fingerprint {
            unsafe place.pointee[slot] = Self.empty
            return
        }
    }
}
