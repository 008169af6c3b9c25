// What trims and enumerations read: rows in a given order, a bounded number at a time, never a value.
//
// Orders with an index behind them (accessed, deadline) return the first `limit` rows. The others walk the table by row
// id and examine at most `limit` rows per call, so that no call scans a large table; the caller keeps the place.

import Primitives
import SQLite

extension DiskIndex {
    /// The entries whose last read is longest ago, the oldest first.
    func leastRecent(limit: Int) throws(DiskError) -> [TrimCandidate] {
        let open = try ready("trim")
        return try DiskError.wrapping { () throws(SQLiteError) in try candidates(&open.leastRecent, limit) }
    }

    /// The entries whose deadline has come at `now`, the earliest first.
    func expired(before now: WallTime, limit: Int) throws(DiskError) -> [TrimCandidate] {
        let open = try ready("trim")
        return try DiskError.wrapping { () throws(SQLiteError) in
            open.expired.bind(now.milliseconds, at: 2)
            return try candidates(&open.expired, limit)
        }
    }

    /// The entries that were last read before `time`, in whole seconds, the oldest first.
    func idle(accessedBefore time: WallTime, limit: Int) throws(DiskError) -> [TrimCandidate] {
        let open = try ready("trim")
        return try DiskError.wrapping { () throws(SQLiteError) in
            open.idle.bind(time.seconds, at: 2)
            return try candidates(&open.idle, limit)
        }
    }

    /// Among the next `limit` rows after `rowID`: those stored before `time`.
    func writtenBefore(_ time: WallTime, after rowID: Int64, limit: Int) throws(DiskError) -> TrimPage {
        try walk(after: rowID, limit: limit) { _, written in written < time.milliseconds }
    }

    /// Among the next `limit` rows after `rowID`: those of `generation` and older.
    func flushed(upTo generation: UInt64, after rowID: Int64, limit: Int) throws(DiskError) -> TrimPage {
        try walk(after: rowID, limit: limit) { candidate, _ in candidate.generation <= generation }
    }

    /// Among the next `limit` rows after `rowID`: those whose value is longer than `bytes`.
    func larger(than bytes: Int, after rowID: Int64, limit: Int) throws(DiskError) -> TrimPage {
        try walk(after: rowID, limit: limit) { candidate, _ in candidate.valueBytes > bytes }
    }

    /// The next `limit` rows after `rowID` with key and metadata.
    ///
    /// Damaged rows are left out.
    func scan(after rowID: Int64, limit: Int) throws(DiskError) -> ScanPage {
        let open = try ready("scan")
        return try DiskError.wrapping { () throws(SQLiteError) in
            try open.scan.scanPage(after: rowID, limit: limit)
        }
    }

    /// The next `limit` hashes above `hash` in signed order; nil begins.
    ///
    /// Reads the hash index alone.
    func hashes(after hash: Int64?, limit: Int) throws(DiskError) -> [UInt64] {
        let open = try ready("list hashes")
        if hash == .max { return [] }
        return try DiskError.wrapping { () throws(SQLiteError) in
            open.hashes.bind(Int64(limit), at: 1)
            open.hashes.bind(hash.map { $0 + 1 } ?? .min, at: 2)
            defer { open.hashes.reset() }
            var hashes: [UInt64] = []
            hashes.reserveCapacity(limit)
            while try open.hashes.step() {
                let hash = open.hashes.bits(at: 0)
                hints?.note(hash, open.hashes.integer(at: 1))
                hashes.append(hash)
            }
            return hashes
        }
    }

    /// Whether an entry's value is in the file of `generation`.
    func hasFile(generation: UInt64) throws(DiskError) -> Bool {
        let open = try ready("find value file")
        return try DiskError.wrapping { () throws(SQLiteError) in
            open.hasFile.bind(bits: generation, at: 1)
            defer { open.hasFile.reset() }
            return try open.hasFile.step()
        }
    }

    /// The next `limit` generations above `generation` whose values are in files, in ascending order.
    func fileGenerations(after generation: UInt64, limit: Int) throws(DiskError) -> [UInt64] {
        let open = try ready("list value files")
        return try DiskError.wrapping { () throws(SQLiteError) in
            open.fileGenerations.bind(Int64(limit), at: 1)
            open.fileGenerations.bind(bits: generation, at: 2)
            defer { open.fileGenerations.reset() }
            var generations: [UInt64] = []
            while try open.fileGenerations.step() { generations.append(open.fileGenerations.bits(at: 0)) }
            return generations
        }
    }

    private func candidates(_ statement: inout Statement, _ limit: Int) throws(SQLiteError) -> [TrimCandidate] {
        statement.bind(Int64(limit), at: 1)
        defer { statement.reset() }
        var candidates: [TrimCandidate] = []
        candidates.reserveCapacity(min(limit, 4096))
        while try statement.step() { candidates.append(TrimCandidate(statement)) }
        return candidates
    }

    private func walk(
        after rowID: Int64, limit: Int, _ matches: (TrimCandidate, _ written: Int64) -> Bool
    ) throws(DiskError) -> TrimPage {
        let open = try ready("walk entries")
        return try DiskError.wrapping { () throws(SQLiteError) in
            open.walk.bind(Int64(limit), at: 1)
            open.walk.bind(rowID, at: 2)
            defer { open.walk.reset() }
            var page = TrimPage(candidates: [], next: nil)
            var examined = 0
            while try open.walk.step() {
                let candidate = TrimCandidate(open.walk)
                if matches(candidate, open.walk.integer(at: 6)) { page.candidates.append(candidate) }
                examined += 1
                if examined == limit { page.next = candidate.rowID }
            }
            return page
        }
    }
}

extension TrimCandidate {
    /// Reads the row that `row` stands on, selected with `DiskIndexSchema.candidateColumns`.
    init(_ row: borrowing Statement) {
        let (accessed, overflow) = row.integer(at: 3).multipliedReportingOverflow(by: 1000)
        self.init(
            rowID: row.integer(at: 0), hash: row.bits(at: 1), generation: row.bits(at: 2),
            accessed: WallTime(milliseconds: overflow ? 0 : accessed), valueBytes: Int(row.integer(at: 4)),
            fileBytes: Int(row.integer(at: 5)))
    }
}

extension Statement {
    /// Runs a "scan entries" statement: limit at 1, row to go on after at 2.
    ///
    /// `cursor` is the column that the walk is ordered by: `next` is its value in the last row.
    mutating func scanPage(
        after start: Int64, limit: Int, cursor: Int32 = 0
    ) throws(SQLiteError) -> ScanPage {
        bind(Int64(limit), at: 1)
        bind(start, at: 2)
        defer { reset() }
        var page = ScanPage(entries: [], next: nil)
        var examined = 0
        while try step() {
            examined += 1
            if examined == limit { page.next = integer(at: cursor) }
            guard let columns = EntryColumns(self) else { continue }
            let key = withBlob(at: 13) { key in
                withBlob(at: 12) { columns.isIntact(key: key, extended: $0) } ? Array(copying: key) : nil
            }
            guard let key else { continue }
            page.entries.append(
                ScannedEntry(
                    rowID: columns.rowID, hash: columns.hash, key: key, metadata: columns.metadata,
                    fileBytes: columns.fileBytes))
        }
        return page
    }
}

extension Array where Element == UInt8 {
    /// A copy of `bytes`.
    init(copying bytes: Span<UInt8>) {
        // SAFETY: the array copies the span's own elements.
        self = unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) }
    }
}
