// Changes of the index: put, delete, touch. All inside the caller's transaction, none of them reads or writes a value
// file: whoever puts one has written it before, and removes the replaced one after the commit.

import Primitives
import SQLite

extension DiskIndex {
    /// Puts an entry with its value in the row, in place of what the hash's row holds.
    ///
    /// The old entry is of the same generation when a journal record is applied a second time.
    /// `metadata.valueBytes` must be the value's length; `metadata.valueSum` is ignored, the sum is computed here. With
    /// `isNew` the caller knows that there is no row.
    func putInline(
        hash: UInt64, key: Span<UInt8>, metadata: EntryMetadata, extended: Span<UInt8>, value: Span<UInt8>,
        isNew: Bool = false
    ) throws(DiskError) -> Replaced? {
        invariant(
            metadata.valueBytes == value.count, "\(metadata.valueBytes) value bytes claimed, \(value.count) given")
        var metadata = metadata
        let seed = EntrySum.seed(key: key, generation: metadata.generation)
        metadata.valueSum = EntrySum.value(value, seed: seed)
        let sum = EntrySum.row(hash: hash, metadata, fileBytes: 0, extended: extended, seed: seed)
        let row = EntryRow(metadata: metadata, fileBytes: 0, sum: sum)
        return try put(row, hash: hash, key: key, extended: extended, value: value, isNew: isNew)
    }

    /// Puts an entry whose value is in the file of its generation, in place of what the hash's row holds.
    ///
    /// `metadata.valueBytes`, `metadata.valueSum` and `fileBytes` are those of `ValueFileWriter.finish`. With `isNew`
    /// the caller knows that there is no row.
    func putFile(
        hash: UInt64, key: Span<UInt8>, metadata: EntryMetadata, extended: Span<UInt8>, fileBytes: Int,
        isNew: Bool = false
    ) throws(DiskError) -> Replaced? {
        invariant(fileBytes > 0, "a value file of \(fileBytes) bytes")
        let seed = EntrySum.seed(key: key, generation: metadata.generation)
        let sum = EntrySum.row(hash: hash, metadata, fileBytes: fileBytes, extended: extended, seed: seed)
        let row = EntryRow(metadata: metadata, fileBytes: fileBytes, sum: sum)
        return try put(row, hash: hash, key: key, extended: extended, value: Span(), isNew: isNew)
    }

    /// Updates the hash's row, or inserts one.
    ///
    /// An update leaves the index over hashes as it is, and those over times where the deadline is the same and the
    /// access time hardly differs.
    private func put(
        _ row: EntryRow, hash: UInt64, key: Span<UInt8>, extended: Span<UInt8>, value: Span<UInt8>, isNew: Bool
    ) throws(DiskError) -> Replaced? {
        let open = try writing("put")
        do throws(SQLiteError) {
            let valueBytes = row.metadata.valueBytes
            if isNew, try insertNew(row, hash, key, extended, value, open) { return nil }
            guard let old = try presentRow(&open.present, hash) else {
                try run(&open.insert, Int64(bitPattern: hash), row, key, extended, value)
                hints?.note(hash, open.connection.lastInsertedRow)
                count(valueBytes, fileBytes: row.fileBytes, sign: 1)
                return nil
            }
            let age = row.metadata.accessed.seconds &- old.accessed
            if old.deadline == row.deadline, age >= 0, age <= accessSlack {
                try run(&open.rewrite, old.rowID, row, key, extended, value)
            } else {
                try run(&open.replace, old.rowID, row, key, extended, value)
            }
            count(old.valueBytes, fileBytes: old.fileBytes, sign: -1)
            count(valueBytes, fileBytes: row.fileBytes, sign: 1)
            counting?.replace(old, valueBytes: valueBytes, fileBytes: row.fileBytes)
            return Replaced(generation: old.generation, fileBytes: old.fileBytes)
        } catch {
            throw DiskError(error)
        }
    }

    /// Deletes the entry of `key`, if its generation is the given one (nil: any).
    ///
    /// Nil if there is no such entry.
    func delete(hash: UInt64, key: Span<UInt8>, ifGeneration: UInt64? = nil) throws(DiskError) -> Replaced? {
        let open = try writing("delete")
        do throws(SQLiteError) {
            try open.deleteKey.bind(key, at: 3)
            return try deleteReturning(&open.deleteKey, hash: hash, ifGeneration: ifGeneration)
        } catch {
            throw DiskError(error)
        }
    }

    /// Deletes a damaged row, whose key cannot be trusted, if its generation is still the given one.
    func delete(hash: UInt64, ifGeneration: UInt64?) throws(DiskError) -> Replaced? {
        let open = try writing("delete")
        return try DiskError.wrapping { () throws(SQLiteError) in
            try deleteReturning(&open.deleteHash, hash: hash, ifGeneration: ifGeneration)
        }
    }

    /// Deletes a row that a trim chose, if it is still the same version.
    func deleteRow(_ rowID: Int64, ifGeneration: UInt64) throws(DiskError) -> Replaced? {
        let open = try writing("delete row")
        return try DiskError.wrapping { () throws(SQLiteError) in
            open.deleteRow.bind(rowID, at: 1)
            open.deleteRow.bind(bits: ifGeneration, at: 2)
            return try runReturning(&open.deleteRow)
        }
    }

    /// Changes an entry's metadata, leaving its value alone.
    ///
    /// False if there is no such entry of that generation (nil: any), or its row is damaged.
    func touch(
        hash: UInt64, key: Span<UInt8>, ifGeneration: UInt64? = nil, deadline: WallTime, marks: EntryMarks, cas: UInt64,
        accessed: WallTime
    ) throws(DiskError) -> Bool {
        let open = try writing("touch")
        do throws(SQLiteError) {
            let change = EntryChange(deadline: deadline, marks: marks, cas: cas, accessed: accessed)
            guard let (rowID, sum) = try touched(&open.find, hash, key, ifGeneration, change) else { return false }
            open.touch.bind(rowID, at: 1)
            open.touch.bind(bits: cas, at: 2)
            open.touch.bind(Int64(marks.rawValue), at: 3)
            open.touch.bind(deadline == .never ? nil : deadline.milliseconds, at: 4)
            open.touch.bind(accessed.seconds, at: 5)
            open.touch.bind(bits: sum, at: 6)
            try open.touch.run()
            return true
        } catch {
            throw DiskError(error)
        }
    }

    /// Moves the time of the last read forward, in whole seconds.
    ///
    /// Does nothing if it is no later, or without a row.
    func setAccessed(hash: UInt64, _ accessed: WallTime) throws(DiskError) {
        let open = try writing("set access time")
        try DiskError.wrapping { () throws(SQLiteError) in
            open.setAccessed.bind(bits: hash, at: 1)
            open.setAccessed.bind(accessed.seconds, at: 2)
            try open.setAccessed.run()
        }
    }

    // MARK: parts

    /// The row to touch and its new sum; nil if there is none that is ours and intact.
    private func touched(
        _ find: inout Statement, _ hash: UInt64, _ key: Span<UInt8>, _ ifGeneration: UInt64?,
        _ change: EntryChange
    ) throws(SQLiteError) -> (rowID: Int64, sum: UInt64)? {
        find.bind(bits: hash, at: 1)
        defer { find.reset() }
        guard try find.step(), let columns = EntryColumns(find) else { return nil }
        guard ifGeneration == nil || ifGeneration == columns.metadata.generation else { return nil }
        guard find.withBlob(at: 13, { areEqual($0, key) }) else { return nil }
        return find.withBlob(at: 12) { extended in
            guard columns.isIntact(key: key, extended: extended) else { return nil }
            var metadata = columns.metadata
            metadata.deadline = change.deadline
            metadata.marks = change.marks
            metadata.cas = change.cas
            let seed = EntrySum.seed(key: key, generation: metadata.generation)
            let sum = EntrySum.row(hash: hash, metadata, fileBytes: columns.fileBytes, extended: extended, seed: seed)
            return (columns.rowID, sum)
        }
    }

    /// Inserts a row whose hash should have none; false if it has one after all, as after damage it may.
    private func insertNew(
        _ row: EntryRow, _ hash: UInt64, _ key: Span<UInt8>, _ extended: Span<UInt8>, _ value: Span<UInt8>,
        _ open: DiskIndexStatements
    ) throws(SQLiteError) -> Bool {
        do throws(SQLiteError) {
            try run(&open.insert, Int64(bitPattern: hash), row, key, extended, value)
        } catch {
            guard error.cause == .constraint else { throw error }
            return false
        }
        hints?.note(hash, open.connection.lastInsertedRow)
        count(row.metadata.valueBytes, fileBytes: row.fileBytes, sign: 1)
        return true
    }

    private func presentRow(_ present: inout Statement, _ hash: UInt64) throws(SQLiteError) -> PresentRow? {
        present.bind(bits: hash, at: 1)
        defer { present.reset() }
        return try present.step() ? PresentRow(present) : nil
    }

    /// Runs an insert, `first` being the hash, or an update, `first` being the row's id.
    private func run(
        _ statement: inout Statement, _ first: Int64, _ row: EntryRow, _ key: Span<UInt8>, _ extended: Span<UInt8>,
        _ value: Span<UInt8>
    ) throws(SQLiteError) {
        let metadata = row.metadata
        statement.bind(first, at: 1)
        statement.bind(bits: metadata.generation, at: 2)
        statement.bind(bits: metadata.cas, at: 3)
        statement.bind(Int64(metadata.flags), at: 4)
        statement.bind(Int64(metadata.marks.rawValue), at: 5)
        statement.bind(row.deadline, at: 6)
        statement.bind(metadata.written.milliseconds, at: 7)
        statement.bind(metadata.accessed.seconds, at: 8)
        statement.bind(Int64(metadata.valueBytes), at: 9)
        statement.bind(Int64(row.fileBytes), at: 10)
        statement.bind(bits: metadata.valueSum, at: 11)
        statement.bind(bits: row.sum, at: 12)
        try statement.bind(key, at: 13)
        try statement.bind(extended, at: 14)
        guard row.fileBytes > 0 else { return try statement.run(borrowing: value, at: 15) }
        statement.bindNull(at: 15)
        try statement.run()
    }

    /// Runs a delete whose first parameters are the hash and the generation.
    private func deleteReturning(
        _ statement: inout Statement, hash: UInt64, ifGeneration: UInt64?
    ) throws(SQLiteError) -> Replaced? {
        statement.bind(bits: hash, at: 1)
        statement.bind(ifGeneration.map { Int64(bitPattern: $0) }, at: 2)
        return try runReturning(&statement)
    }

    /// Runs a delete of at most one row and takes the row out of the totals.
    private func runReturning(_ statement: inout Statement) throws(SQLiteError) -> Replaced? {
        guard try statement.step() else {
            statement.reset()
            return nil
        }
        let replaced = Replaced(generation: statement.bits(at: 0), fileBytes: Int(statement.integer(at: 2)))
        let valueBytes = Int(statement.integer(at: 1))
        let rowID = statement.integer(at: 3)
        try statement.run()
        count(valueBytes, fileBytes: replaced.fileBytes, sign: -1)
        counting?.forget(rowID, valueBytes: valueBytes, fileBytes: replaced.fileBytes)
        return replaced
    }

    /// Adds a row to the totals, or takes it out.
    private func count(_ valueBytes: Int, fileBytes: Int, sign: Int) {
        state.totals.add(valueBytes: valueBytes, fileBytes: fileBytes, sign: sign)
    }
}

/// What a touch changes in a row.
private struct EntryChange {
    let deadline: WallTime
    let marks: EntryMarks
    let cas: UInt64
    let accessed: WallTime
}

/// What a put gives a row, but for key, extended data and value.
private struct EntryRow {
    let metadata: EntryMetadata
    let fileBytes: Int
    let sum: UInt64

    /// As the column has it: NULL is never.
    var deadline: Int64? { metadata.deadline == .never ? nil : metadata.deadline.milliseconds }
}

/// What a put finds of the row that it changes.
struct PresentRow {
    let rowID: Int64
    let generation: UInt64
    let valueBytes: Int
    let fileBytes: Int
    let deadline: Int64?
    let accessed: Int64

    /// Reads the row that `row` stands on, selected with `DiskIndexSchema.presentColumns`.
    init(_ row: borrowing Statement) {
        rowID = row.integer(at: 0)
        generation = row.bits(at: 1)
        valueBytes = Int(row.integer(at: 2))
        fileBytes = Int(row.integer(at: 3))
        deadline = row.storageClass(at: 4) == .null ? nil : row.integer(at: 4)
        accessed = row.integer(at: 5)
    }
}
