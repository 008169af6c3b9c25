// The 64 bytes at the head of a value file. Pure.
//
//   0 magic  8 version  16 generation  24 key bytes  32 value bytes  40 value sum  48 zero  56 sum of bytes 0..<56
//
// All numbers are 64 bits, little-endian. The header's sum is keyed like the value's, by key and generation.

import Hashing

struct ValueFileHeader: Equatable, Sendable {
    static let bytes = 64
    private static let magic: UInt64 = 0x6575_6c61_7664_6863  // "chdvalue" in little-endian order
    private static let version: UInt64 = 1

    var generation: UInt64
    var keyBytes: Int
    var valueBytes: Int
    var valueSum: UInt64

    /// The header's bytes; `seed` is `EntrySum.seed` of key and generation.
    func encoded(seed: UInt64) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Self.bytes)
        bytes.put(Self.magic, at: 0)
        bytes.put(Self.version, at: 8)
        bytes.put(generation, at: 16)
        bytes.put(UInt64(keyBytes), at: 24)
        bytes.put(UInt64(valueBytes), at: 32)
        bytes.put(valueSum, at: 40)
        // SAFETY: the sum is over a part of the array's own bytes; xxh3 keeps nothing.
        let sum = unsafe bytes.withUnsafeBytes { bytes in
            unsafe xxh3(UnsafeRawBufferPointer(rebasing: bytes[..<56]), seed: seed)
        }
        bytes.put(sum, at: 56)
        return bytes
    }
}
