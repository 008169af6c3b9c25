// XXH3-64 from the xxhash library: table hashes (seeded, so clients cannot aim at a bucket) and checksums.
// See https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md

import CXXHash

/// XXH3-64 of `bytes` with `seed`.
@inlinable
@inline(__always)
public func xxh3(_ bytes: UnsafeRawBufferPointer, seed: UInt64) -> UInt64 {
    unsafe hash(bytes.baseAddress, bytes.count, seed)
}

// SAFETY: callers pass a buffer's own base and count; XXH3 reads exactly `count` bytes and keeps nothing.
@usableFromInline
func hash(_ base: UnsafeRawPointer?, _ count: Int, _ seed: UInt64) -> UInt64 {
    unsafe XXH3_64bits_withSeed(base, count, seed)
}
