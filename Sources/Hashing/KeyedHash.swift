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

/// XXH3-64 of bytes that come in pieces.
///
/// Same result as `xxh3` of all of them at once.
@safe
public struct IncrementalHash: ~Copyable {
    // SAFETY: allocated in init, freed once in deinit; the type cannot be copied.
    private let state: OpaquePointer

    /// Begins a hash with `seed`.
    public init(seed: UInt64) {
        guard let state = unsafe XXH3_createState() else { preconditionFailure("out of memory: XXH3 state refused") }
        unsafe self.state = state
        let code = unsafe XXH3_64bits_reset_withSeed(state, seed)
        precondition(code == XXH_OK, "XXH3_64bits_reset_withSeed: \(code)")
    }

    deinit { unsafe XXH3_freeState(state) }

    /// Adds `bytes`.
    public mutating func update(_ bytes: UnsafeRawBufferPointer) {
        guard unsafe !bytes.isEmpty else { return }
        let code = unsafe XXH3_64bits_update(state, bytes.baseAddress, bytes.count)
        precondition(code == XXH_OK, "XXH3_64bits_update: \(code)")
    }

    /// The hash of all bytes so far.
    public func digest() -> UInt64 { unsafe XXH3_64bits_digest(state) }
}
