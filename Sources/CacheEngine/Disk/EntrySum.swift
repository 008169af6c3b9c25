// The sums that let a read from disk be trusted.
//
// A value's sum is keyed by its key and generation, so a value that belongs to another key, or to another version of
// the same key, does not pass. A row's sum is keyed alike and covers all metadata but the time of the last read, which
// only orders trims. docs/DISK_FORMAT.md gives the bytes. Pure functions.

import Hashing
import Primitives

enum EntrySum {
    // SAFETY: xxh3 reads a span's own bytes and keeps nothing, here and below.

    /// The seed of all sums of one version of an entry.
    static func seed(key: Span<UInt8>, generation: UInt64) -> UInt64 {
        unsafe key.withUnsafeBytes { unsafe xxh3($0, seed: generation) }
    }

    /// The sum of a value.
    static func value(_ value: Span<UInt8>, seed: UInt64) -> UInt64 {
        unsafe value.withUnsafeBytes { unsafe xxh3($0, seed: seed) }
    }

    /// The sum of a row: its hash, its metadata, the allocated bytes of its value file and the extended metadata.
    static func row(
        hash: UInt64, _ metadata: EntryMetadata, fileBytes: Int, extended: Span<UInt8>, seed: UInt64
    ) -> UInt64 {
        let extendedSum = unsafe extended.withUnsafeBytes { unsafe xxh3($0, seed: seed) }
        let fields: [11 of UInt64] = [
            hash.littleEndian,
            metadata.generation.littleEndian,
            metadata.cas.littleEndian,
            UInt64(metadata.flags).littleEndian,
            UInt64(metadata.marks.rawValue).littleEndian,
            UInt64(bitPattern: metadata.deadline.milliseconds).littleEndian,
            UInt64(bitPattern: metadata.written.milliseconds).littleEndian,
            UInt64(bitPattern: Int64(metadata.valueBytes)).littleEndian,
            UInt64(bitPattern: Int64(fileBytes)).littleEndian,
            metadata.valueSum.littleEndian,
            extendedSum.littleEndian,
        ]
        return unsafe fields.span.bytes.withUnsafeBytes { unsafe xxh3($0, seed: seed) }
    }
}
