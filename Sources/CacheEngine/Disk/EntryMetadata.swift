// What the disk tier knows about an entry besides its key and its value.
//
// Plain values: no I/O, no clock. The disk threads build them from rows and journal records; the memory tier takes them
// over on promotion. docs/DISK_FORMAT.md gives the bytes.

import Primitives

/// State bits of an entry that survive a restart.
struct EntryMarks: OptionSet, Sendable, Equatable {
    let rawValue: UInt8

    /// A meta delete with `I` marked the entry stale: the next reader is asked to recache.
    static let stale = EntryMarks(rawValue: 1)
    /// A client has won the right to recache.
    static let won = EntryMarks(rawValue: 2)
    /// The entry was read at least once since it was stored.
    static let fetched = EntryMarks(rawValue: 4)
    /// The key was sent in base64 (meta flag `b`) and is shown so.
    static let binaryKey = EntryMarks(rawValue: 8)

    init(rawValue: UInt8) { self.rawValue = rawValue }
}

/// An entry's metadata as the disk tier keeps it.
///
/// Times are those of the store's clock, see `StoreClock`.
struct EntryMetadata: Sendable, Equatable {
    /// Names the entry's version and its value file: epoch (24 bits) << 40 | counter.
    ///
    /// Never repeats.
    var generation: UInt64
    /// The CAS id that clients see.
    var cas: UInt64
    /// The client's opaque flags.
    var flags: UInt32
    /// Stale, won, fetched, binary key.
    var marks: EntryMarks
    /// When the entry expires; `.never` for no expiry.
    var deadline: WallTime
    /// When the value was stored.
    var written: WallTime
    /// When the value was last read.
    ///
    /// Kept in whole seconds on disk; not covered by the row's sum.
    var accessed: WallTime
    /// Length of the value.
    var valueBytes: Int
    /// XXH3-64 of the value, keyed by key and generation (`EntrySum.value`).
    var valueSum: UInt64
}

/// What a put or a delete took out of the index.
struct Replaced: Sendable, Equatable {
    /// Generation of the row that is gone.
    var generation: UInt64
    /// Allocated bytes of its value file, which the caller removes after the commit; 0: the value was inline.
    var fileBytes: Int
}

/// What the disk tier holds, kept up to date by each transaction.
struct DiskTotals: Sendable, Equatable {
    /// Entries, inline and in files.
    var entries = 0
    /// Value bytes of all entries.
    var valueBytes = 0
    /// Value bytes of the entries whose value is in the index.
    var inlineBytes = 0
    /// Entries whose value is in a file.
    var fileEntries = 0
    /// Allocated bytes of all value files: header, key and value, rounded up to 4 KiB each.
    var fileBytes = 0

    /// Adds one entry (`sign` 1) or takes one out (-1).
    ///
    /// A damaged row may hold any number: sums wrap instead of trapping, and stay at 0 rather than go below.
    mutating func add(valueBytes: Int, fileBytes: Int, sign: Int) {
        entries = max(0, entries &+ sign)
        self.valueBytes = max(0, self.valueBytes &+ sign &* valueBytes)
        if fileBytes == 0 {
            inlineBytes = max(0, inlineBytes &+ sign &* valueBytes)
        } else {
            fileEntries = max(0, fileEntries &+ sign)
            self.fileBytes = max(0, self.fileBytes &+ sign &* fileBytes)
        }
    }
}

/// A row that a trim may delete, without its key and value.
struct TrimCandidate: Sendable, Equatable {
    var rowID: Int64
    var hash: UInt64
    var generation: UInt64
    /// Last read, in whole seconds.
    var accessed: WallTime
    var valueBytes: Int
    /// Allocated bytes of the value file; 0: inline.
    var fileBytes: Int
}

/// One step of a walk through all rows in row order.
struct TrimPage: Sendable, Equatable {
    /// The matching rows among those examined.
    var candidates: [TrimCandidate]
    /// Where the next step goes on (`after:`); nil when the walk has reached the end.
    var next: Int64?
}

/// One step of an enumeration.
struct ScanPage: Sendable, Equatable {
    /// The intact entries among the rows examined.
    var entries: [ScannedEntry]
    /// Where the next step goes on (`after:`); nil when the walk has reached the end.
    var next: Int64?
}

/// One entry as an enumeration sees it: no value.
struct ScannedEntry: Sendable, Equatable {
    var rowID: Int64
    var hash: UInt64
    var key: [UInt8]
    var metadata: EntryMetadata
    /// Allocated bytes of the value file; 0: inline.
    var fileBytes: Int
}
