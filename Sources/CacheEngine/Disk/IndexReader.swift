// The index as a reader thread sees it: one read-only connection, lookups, enumeration.
//
// Sees the last commit as of each call, or, between `holdSnapshot` and `releaseSnapshot`, that of the snapshot; who
// holds one lets it go soon, because it holds back checkpoints. Verifies what it reads: key, row sum, and the sum of an
// inline value. Whether an entry is flushed or expired is the caller's judgement. One per thread; not Sendable.

import Primitives
import SQLite

/// What a lookup found.
enum IndexLookup: Sendable, Equatable {
    case found
    /// No row, or the row of another key with the same hash.
    case absent
    /// A row that fails its sum: treat it as a miss and delete it, if it is still of this generation.
    case damaged(generation: UInt64)
}

/// Names an index to open.
///
/// Sendable: reader threads open their own connection with it.
struct IndexLocation: Sendable, Equatable {
    /// Absolute path of the database file.
    var path: String
}

/// A read-only connection with its statements.
final class IndexReader {
    private var open: Statements?
    /// The number of the commit that the snapshot is at least as new as; nil: none is held.
    private var heldCommit: UInt64?
    /// Where rows are likely to be.
    private let hints: RowHints?

    /// The statements go before the connection.
    private final class Statements {
        var find: Statement
        var findByID: Statement
        var scan: Statement
        var scanByHash: Statement
        var hashes: Statement
        var begin: Statement
        var end: Statement
        let connection: Connection

        init(_ connection: Connection) throws(SQLiteError) {
            self.connection = connection
            let columns = DiskIndexSchema.entryColumns
            find = try connection.prepare(
                "SELECT \(columns), value FROM entry WHERE hash = ?1", name: "read entry")
            findByID = try connection.prepare(
                "SELECT \(columns), value FROM entry WHERE id = ?1", name: "read entry by id")
            scan = try connection.prepare(
                "SELECT \(columns) FROM entry WHERE id > ?2 ORDER BY id LIMIT ?1", name: "scan entries")
            scanByHash = try connection.prepare(
                "SELECT \(columns) FROM entry WHERE hash >= ?2 ORDER BY hash LIMIT ?1", name: "scan entries by hash")
            hashes = try connection.prepare(
                "SELECT hash FROM entry WHERE hash >= ?2 ORDER BY hash LIMIT ?1", name: "list hashes")
            begin = try connection.prepare("BEGIN", name: "begin snapshot")
            end = try connection.prepare("COMMIT", name: "end snapshot")
        }
    }

    /// Opens a connection to the index at `location`, which a `DiskIndex` must have opened before.
    ///
    /// `busyMilliseconds` is how long a call waits for a lock that another process holds.
    init(
        location: IndexLocation, cacheBytes: Int = 4 << 20, busyMilliseconds: Int32 = 200, hints: RowHints? = nil
    ) throws(DiskError) {
        self.hints = hints
        SQLiteLibrary.prepare()
        open = try DiskError.wrapping { () throws(SQLiteError) in
            let connection = try Connection(path: location.path, access: .readOnly)
            connection.setBusyTimeout(milliseconds: busyMilliseconds)
            connection.setDefensive()
            // Only the writer checkpoints (see DiskIndex).
            connection.setNoCheckpointOnClose()
            // No cell_size_check, which looks at hundreds of cells of each page that is read: what a row says is
            // believed for its sums, and SQLite checks a cell when it uses it.
            try connection.execute(
                """
                PRAGMA query_only = ON; PRAGMA mmap_size = 0;
                PRAGMA temp_store = MEMORY; PRAGMA cache_size = -\(max(cacheBytes / 1024, 64));
                """)
            return try Statements(connection)
        }
    }

    /// False after `close`, and after a snapshot that could not be ended.
    var isOpen: Bool { open != nil }

    /// Closes the connection.
    ///
    /// Done by deinit, too.
    func close() {
        heldCommit = nil
        open = nil
    }

    /// Lets lookups see one state of the index until `releaseSnapshot`: that of commit number `commit`, or a newer one.
    ///
    /// A snapshot that is held and new enough stays. Saves each lookup the cost of its own read transaction: two
    /// fcntl(2) calls and a look at the log's header. `commit` must be counted after the request was registered: a
    /// change that was acknowledged before is in the commits up to it, or still pending.
    func holdSnapshot(asOf commit: UInt64) throws(DiskError) {
        guard let open else {
            throw DiskError(kind: .other, operation: "begin snapshot", code: 0, message: "the index is closed")
        }
        if heldCommit != nil, open.connection.isInTransaction {
            if heldCommit == commit { return }
            #if DEBUG
                if SeededBug.isActive(.snapshotKept) { return }
            #endif
            releaseSnapshot()
            guard isOpen else { return try holdSnapshot(asOf: commit) }
        }
        try DiskError.wrapping { () throws(SQLiteError) in try open.begin.run() }
        heldCommit = commit
    }

    /// Ends what `holdSnapshot` began, if it has not ended by itself, as an I/O error makes it.
    func releaseSnapshot() {
        guard heldCommit != nil else { return }
        heldCommit = nil
        guard let open, open.connection.isInTransaction else { return }
        do throws(SQLiteError) {
            try open.end.run()
        } catch {
            // The transaction cannot be left open: without a connection every later call tells so.
            close()
        }
    }

    /// Looks up `key` and, if its row is intact, runs `body` once with what it holds.
    ///
    /// `inlineValue` is nil where the value is in the file of `metadata.generation`; that file is not looked at. The
    /// pointers are valid during the call only. The caller compares the generation with the flush mark.
    ///
    /// - Throws: SQLite's errors; `.corrupt` is damage of the index as a whole: quarantine.
    func read(
        hash: UInt64, key: Span<UInt8>,
        _ body: (EntryMetadata, _ extended: UnsafeRawBufferPointer, _ inlineValue: UnsafeRawBufferPointer?) -> Void
    ) throws(DiskError) -> IndexLookup {
        guard let open else {
            throw DiskError(kind: .other, operation: "read entry", code: 0, message: "the index is closed")
        }
        // SAFETY: `body` gets pointers into the current row, which stays until the statement is reset afterwards.
        do throws(SQLiteError) {
            if let rowID = hints?.find(hash) {
                open.findByID.bind(rowID, at: 1)
                defer { open.findByID.reset() }
                if try open.findByID.step(), open.findByID.bits(at: 14) == hash {
                    return unsafe Self.read(open.findByID, hash, key, body)
                }
            }
            open.find.bind(bits: hash, at: 1)
            defer { open.find.reset() }
            guard try open.find.step() else { return .absent }
            hints?.note(hash, open.find.integer(at: 0))
            return unsafe Self.read(open.find, hash, key, body)
        } catch {
            throw DiskError(error)
        }
    }

    /// Verifies the row that `row` stands on, and shows it.
    private static func read(
        _ row: borrowing Statement, _ hash: UInt64, _ key: Span<UInt8>,
        _ body: (EntryMetadata, UnsafeRawBufferPointer, UnsafeRawBufferPointer?) -> Void
    ) -> IndexLookup {
        guard row.withBlob(at: 13, { areEqual($0, key) }) else { return .absent }
        guard let columns = EntryColumns(row) else { return .damaged(generation: row.bits(at: 1)) }
        let metadata = columns.metadata
        let seed = EntrySum.seed(key: key, generation: metadata.generation)
        let isIntact = row.withBlob(at: 12) { extended in
            #if DEBUG
                if SeededBug.isActive(.rowSumUnchecked), columns.fileBytes == 0 {
                    return row.withBlob(at: 15) { value in
                        unsafe extended.withUnsafeBytes { extended in
                            unsafe value.withUnsafeBytes { unsafe body(metadata, extended, $0) }
                        }
                        return true
                    }
                }
            #endif
            guard columns.hash == hash,
                EntrySum.row(hash: hash, metadata, fileBytes: columns.fileBytes, extended: extended, seed: seed)
                    == columns.sum
            else { return false }
            let isFile = columns.fileBytes > 0
            guard row.storageClass(at: 15) == (isFile ? .null : .blob) else { return false }
            if isFile {
                unsafe extended.withUnsafeBytes { unsafe body(metadata, $0, nil) }
                return true
            }
            return row.withBlob(at: 15) { value in
                guard value.count == metadata.valueBytes, EntrySum.value(value, seed: seed) == metadata.valueSum
                else { return false }
                unsafe extended.withUnsafeBytes { extended in
                    unsafe value.withUnsafeBytes { unsafe body(metadata, extended, $0) }
                }
                return true
            }
        }
        return isIntact ? .found : .damaged(generation: metadata.generation)
    }

    /// The key of the row with this hash, and the size of its value; nil if there is none.
    ///
    /// Not verified: `read` with this key tells whether the row is sound.
    func key(hash: UInt64) throws(DiskError) -> (key: [UInt8], valueBytes: Int)? {
        guard let open else {
            throw DiskError(kind: .other, operation: "read key", code: 0, message: "the index is closed")
        }
        return try DiskError.wrapping { () throws(SQLiteError) in
            open.find.bind(bits: hash, at: 1)
            defer { open.find.reset() }
            guard try open.find.step() else { return nil }
            return (open.find.withBlob(at: 13) { Array(copying: $0) }, Int(open.find.integer(at: 8)))
        }
    }

    /// The next `limit` rows after `rowID` with key and metadata.
    ///
    /// Damaged rows are left out.
    func scan(after rowID: Int64, limit: Int) throws(DiskError) -> ScanPage {
        guard let open else {
            throw DiskError(kind: .other, operation: "scan entries", code: 0, message: "the index is closed")
        }
        return try DiskError.wrapping { () throws(SQLiteError) in
            try open.scan.scanPage(after: rowID, limit: limit)
        }
    }

    /// The next `limit` rows from the signed hash `start` on, in the order of signed hashes, with key and metadata.
    ///
    /// Begin with `.min`; `next` is where to go on. An entry keeps its hash, and a transaction that overwrites it never
    /// shows it missing: a walk sees each entry that is there all the while exactly once. Damaged rows are left out.
    func scan(fromHash start: Int64, limit: Int) throws(DiskError) -> ScanPage {
        guard let open else {
            throw DiskError(kind: .other, operation: "scan entries by hash", code: 0, message: "the index is closed")
        }
        var page = try DiskError.wrapping { () throws(SQLiteError) in
            try open.scanByHash.scanPage(after: start, limit: limit, cursor: 14)
        }
        page.next = page.next.flatMap { $0 == .max ? nil : $0 + 1 }
        return page
    }

    /// Whether there is a row of this hash, by the hash index alone.
    func hasRow(hash: UInt64) throws(DiskError) -> Bool {
        var found: [UInt64] = []
        _ = try hashes(from: Int64(bitPattern: hash), limit: 1, into: &found)
        return found.first == hash
    }

    /// Appends the next `limit` hashes to `hashes`, read from the hash index alone, in the order of their signed
    /// values.
    ///
    /// Begin with `.min`. Returns where to go on; nil at the end.
    func hashes(from start: Int64, limit: Int, into hashes: inout [UInt64]) throws(DiskError) -> Int64? {
        guard let open else {
            throw DiskError(kind: .other, operation: "list hashes", code: 0, message: "the index is closed")
        }
        do throws(SQLiteError) {
            open.hashes.bind(Int64(limit), at: 1)
            open.hashes.bind(start, at: 2)
            defer { open.hashes.reset() }
            var last = start
            var found = 0
            while try open.hashes.step() {
                last = open.hashes.integer(at: 0)
                hashes.append(UInt64(bitPattern: last))
                found += 1
            }
            return found == limit && last < .max ? last + 1 : nil
        } catch {
            throw DiskError(error)
        }
    }
}
