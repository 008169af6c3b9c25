// One write in the journal: a fixed header, then key, extended data and, for inline values, the value.
//
// docs/DISK_FORMAT.md draws the bytes. The sum covers header and payload, keyed by the journal's seed: a record torn by
// a kill in the middle of its memcpy, or left over from an earlier lap of the ring, does not check.

import Hashing
import Primitives

/// The fixed part of a record, 88 bytes, in the machine's (little-endian) order.
struct JournalHeader {
    enum Kind: UInt8 {
        /// An entry whose value follows in the record.
        case inlineEntry = 1
        /// An entry whose value is in the file named by `generation`.
        case fileEntry = 2
        /// The key holds nothing any more.
        case deletion = 3
        /// The entry has a new deadline.
        case touch = 4
        /// Everything up to `generation` is gone; a deadline other than `.never` is a flush still to come.
        case flush = 5
    }

    /// Whole record, a multiple of 8.
    var recordBytes: UInt32 = 0
    var kind: UInt8
    var marks: UInt8 = 0
    var keyBytes: UInt8 = 0
    var reserved: UInt8 = 0
    /// 1, 2, 3, ...: a gap ends the journal.
    var sequence: UInt64 = 0
    var hash: UInt64 = 0
    var generation: UInt64 = 0
    var cas: UInt64 = 0
    /// Civil time in ms; Int64.max is never.
    var deadline: Int64 = .max
    var written: Int64 = 0
    var flags: UInt32 = 0
    var valueBytes: UInt32 = 0
    /// Sum of the value file; 0 for inline entries.
    var valueSum: UInt64 = 0
    var extendedBytes: UInt32 = 0
    /// Allocated bytes of the value file in KiB; 0 for inline entries.
    var fileKiB: UInt32 = 0
    var sum: UInt64 = 0

    static let bytes = MemoryLayout<JournalHeader>.size

    init(kind: Kind) { self.kind = kind.rawValue }

    /// The sum of header (with `sum` as 0) and payload.
    func computedSum(payload: UnsafeRawBufferPointer, seed: UInt64) -> UInt64 {
        var copy = self
        copy.sum = 0
        let payloadSum = unsafe xxh3(payload, seed: seed)
        return unsafe withUnsafeBytes(of: &copy) { unsafe xxh3($0, seed: payloadSum) }
    }
}

/// A record in the ring, for reading.
///
/// Valid while the journal's tail has not passed it.
@safe
struct JournalRecord {
    // SAFETY: points to a whole record inside the journal's mapping; the tail has not passed it (see `Journal`).
    let base: UnsafeRawPointer

    var header: JournalHeader { unsafe base.loadUnaligned(as: JournalHeader.self) }
    var kind: JournalHeader.Kind? { JournalHeader.Kind(rawValue: header.kind) }

    /// Whether it is what was appended: in `room` bytes, with the right lengths and the right sum.
    func isWhole(room: Int, seed: UInt64) -> Bool {
        guard room >= JournalHeader.bytes else { return false }
        let header = header
        let bytes = Int(header.recordBytes)
        let valueBytes = header.kind == JournalHeader.Kind.inlineEntry.rawValue ? Int(header.valueBytes) : 0
        let payloadBytes = Int(header.keyBytes) + Int(header.extendedBytes) + valueBytes
        guard bytes <= room, bytes == (JournalHeader.bytes + payloadBytes + 7) & ~7,
            JournalHeader.Kind(rawValue: header.kind) != nil
        else { return false }
        #if DEBUG
            if SeededBug.isActive(.recordSumUnchecked) { return true }
        #endif
        // SAFETY: the payload ends within the record, the record within the room that the caller has mapped.
        let payload = unsafe UnsafeRawBufferPointer(start: base + JournalHeader.bytes, count: payloadBytes)
        return unsafe header.computedSum(payload: payload, seed: seed) == header.sum
    }

    var key: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: base + JournalHeader.bytes, count: Int(header.keyBytes))
    }

    var extended: UnsafeRawBufferPointer {
        let header = header
        return unsafe UnsafeRawBufferPointer(
            start: base + JournalHeader.bytes + Int(header.keyBytes), count: Int(header.extendedBytes))
    }

    /// The inline value.
    var value: UnsafeRawBufferPointer {
        let header = header
        return unsafe UnsafeRawBufferPointer(
            start: base + JournalHeader.bytes + Int(header.keyBytes) + Int(header.extendedBytes),
            count: Int(header.valueBytes))
    }
}
