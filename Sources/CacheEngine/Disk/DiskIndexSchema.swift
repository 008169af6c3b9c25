// The index's tables, and the row that says how far it got.
//
// The narrow columns come first: a trim reads a row's head and never its key or value. Row ids grow with each put, so
// new keys append. The schema's text is compared at open byte for byte: what differs is damaged or not ours.

import Hashing
import Primitives
import SQLite

enum DiskIndexSchema {
    /// "cche" in PRAGMA application_id, so that file(1) and others can tell the file.
    static let applicationID: Int64 = 0x6363_6865
    /// PRAGMA user_version.
    static let version: Int64 = 1

    /// The objects in the order of their creation, as sqlite_schema keeps them.
    static let objects = [
        """
        CREATE TABLE entry (
            id INTEGER PRIMARY KEY,
            hash INTEGER NOT NULL,
            generation INTEGER NOT NULL,
            cas INTEGER NOT NULL,
            flags INTEGER NOT NULL,
            marks INTEGER NOT NULL,
            deadline INTEGER,
            written INTEGER NOT NULL,
            accessed INTEGER NOT NULL,
            valueBytes INTEGER NOT NULL,
            fileBytes INTEGER NOT NULL,
            valueSum INTEGER NOT NULL,
            sum INTEGER NOT NULL,
            key BLOB NOT NULL,
            extended BLOB,
            value BLOB)
        """,
        "CREATE UNIQUE INDEX entry_hash ON entry (hash)",
        "CREATE INDEX entry_accessed ON entry (accessed)",
        "CREATE INDEX entry_deadline ON entry (deadline) WHERE deadline IS NOT NULL",
        "CREATE UNIQUE INDEX entry_file ON entry (generation) WHERE fileBytes > 0",
        """
        CREATE TABLE meta (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            epoch INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            flushGeneration INTEGER NOT NULL,
            flushAt INTEGER NOT NULL,
            entries INTEGER NOT NULL,
            valueBytes INTEGER NOT NULL,
            inlineBytes INTEGER NOT NULL,
            fileEntries INTEGER NOT NULL,
            fileBytes INTEGER NOT NULL,
            sum INTEGER NOT NULL)
        """,
    ]

    static let insertEntry = """
        INSERT INTO entry (hash, generation, cas, flags, marks, deadline, written, accessed, valueBytes, fileBytes,
            valueSum, sum, key, extended, value)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
        """
    /// The assignments of an update that leaves alone what indexes but that of files are over; parameters as in
    /// `insertEntry`.
    static let rewritten = """
        generation = ?2, cas = ?3, flags = ?4, marks = ?5, written = ?7, valueBytes = ?9, fileBytes = ?10,
        valueSum = ?11, sum = ?12, key = ?13, extended = ?14, value = ?15
        """
    static let presentColumns = "id, generation, valueBytes, fileBytes, deadline, accessed"
    /// The columns of `EntryColumns`, with extended at 12, key at 13 and hash at 14.
    static let entryColumns = """
        id, generation, cas, flags, marks, deadline, written, accessed, valueBytes, fileBytes, valueSum, sum, extended,
        key, hash
        """
    static let candidateColumns = "id, hash, generation, accessed, valueBytes, fileBytes"
    static let replacedColumns = "generation, valueBytes, fileBytes, id"
}

/// The meta row: one, written by each transaction that changes anything.
struct IndexState: Sendable, Equatable {
    /// The start that last opened the index.
    var epoch: UInt32 = 0
    /// The highest journal sequence that the index contains.
    var sequence: UInt64 = 0
    /// Entries of this generation and older are flushed.
    var flushGeneration: UInt64 = 0
    /// When a delayed flush falls due, in wall milliseconds; 0: none.
    var flushAt: Int64 = 0
    var totals = DiskTotals()

    static let columns =
        "epoch, sequence, flushGeneration, flushAt, entries, valueBytes, inlineBytes, fileEntries, fileBytes, sum"

    /// Covers everything: a flipped bit in the flush generation would bring flushed entries back.
    var sum: UInt64 {
        let fields: [9 of Int64] = [
            Int64(epoch).littleEndian, Int64(bitPattern: sequence).littleEndian,
            Int64(bitPattern: flushGeneration).littleEndian, flushAt.littleEndian,
            Int64(totals.entries).littleEndian, Int64(totals.valueBytes).littleEndian,
            Int64(totals.inlineBytes).littleEndian, Int64(totals.fileEntries).littleEndian,
            Int64(totals.fileBytes).littleEndian,
        ]
        // SAFETY: xxh3 reads the span's own bytes and keeps nothing.
        return unsafe fields.span.bytes.withUnsafeBytes { unsafe xxh3($0, seed: UInt64(DiskIndexSchema.version)) }
    }

    init() {}

    /// Reads the row that `row` stands on; nil if its sum does not fit.
    init?(_ row: borrowing Statement) {
        guard let epoch = UInt32(exactly: row.integer(at: 0)) else { return nil }
        self.epoch = epoch
        sequence = row.bits(at: 1)
        flushGeneration = row.bits(at: 2)
        flushAt = row.integer(at: 3)
        totals.entries = Int(row.integer(at: 4))
        totals.valueBytes = Int(row.integer(at: 5))
        totals.inlineBytes = Int(row.integer(at: 6))
        totals.fileEntries = Int(row.integer(at: 7))
        totals.fileBytes = Int(row.integer(at: 8))
        guard row.bits(at: 9) == sum else { return nil }
    }

    /// Binds the row's columns to parameters 1 to 10.
    func bind(to statement: inout Statement) {
        statement.bind(Int64(epoch), at: 1)
        statement.bind(bits: sequence, at: 2)
        statement.bind(bits: flushGeneration, at: 3)
        statement.bind(flushAt, at: 4)
        statement.bind(Int64(totals.entries), at: 5)
        statement.bind(Int64(totals.valueBytes), at: 6)
        statement.bind(Int64(totals.inlineBytes), at: 7)
        statement.bind(Int64(totals.fileEntries), at: 8)
        statement.bind(Int64(totals.fileBytes), at: 9)
        statement.bind(bits: sum, at: 10)
    }
}

/// The narrow part of a row, selected with `DiskIndexSchema.entryColumns`.
struct EntryColumns {
    var rowID: Int64
    var hash: UInt64
    var metadata: EntryMetadata
    var fileBytes: Int
    var sum: UInt64

    /// Reads the row that `row` stands on; nil if a column holds what was never written there.
    init?(_ row: borrowing Statement) {
        rowID = row.integer(at: 0)
        hash = row.bits(at: 14)
        guard let flags = UInt32(exactly: row.integer(at: 3)), let marks = UInt8(exactly: row.integer(at: 4)) else {
            return nil
        }
        let (accessed, overflow) = row.integer(at: 7).multipliedReportingOverflow(by: 1000)
        metadata = EntryMetadata(
            generation: row.bits(at: 1), cas: row.bits(at: 2), flags: flags, marks: EntryMarks(rawValue: marks),
            deadline: row.storageClass(at: 5) == .null ? .never : WallTime(milliseconds: row.integer(at: 5)),
            written: WallTime(milliseconds: row.integer(at: 6)),
            accessed: WallTime(milliseconds: overflow ? 0 : accessed),
            valueBytes: Int(row.integer(at: 8)), valueSum: row.bits(at: 10))
        fileBytes = Int(row.integer(at: 9))
        sum = row.bits(at: 11)
        guard metadata.valueBytes >= 0, fileBytes >= 0 else { return nil }
    }

    /// Whether the row's sum fits its metadata, its extended metadata and `key`.
    func isIntact(key: Span<UInt8>, extended: Span<UInt8>) -> Bool {
        let seed = EntrySum.seed(key: key, generation: metadata.generation)
        return EntrySum.row(hash: hash, metadata, fileBytes: fileBytes, extended: extended, seed: seed) == sum
    }
}
