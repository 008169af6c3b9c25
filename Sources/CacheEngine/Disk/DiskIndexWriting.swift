// Changes of the index: put, delete, touch. All inside the caller's transaction, none of them reads or writes a value
// file: whoever puts one has written it before, and removes the replaced one after the commit.

import Primitives
import SQLite

extension DiskIndex {
    /// Puts an entry with its value in the row, replacing the hash's old row.
    ///
    /// The old row is of the same generation when a journal record is applied a second time.
    /// `metadata.valueBytes` must be the value's length; `metadata.valueSum` is ignored, the sum is computed here.
    func putInline(
        hash: UInt64, key: Span<UInt8>, metadata: EntryMetadata, extended: Span<UInt8>, value: Span<UInt8>
    ) throws(DiskError) -> Replaced? {
        invariant(
            metadata.valueBytes == value.count, "\(metadata.valueBytes) value bytes claimed, \(value.count) given")
        let open = try writing("put")
        var metadata = metadata
        let seed = EntrySum.seed(key: key, generation: metadata.generation)
        metadata.valueSum = EntrySum.value(value, seed: seed)
        let sum = EntrySum.row(hash: hash, metadata, fileBytes: 0, extended: extended, seed: seed)
        do throws(SQLiteError) {
            let replaced = try deleteReturning(&open.deleteHash, hash: hash, ifGeneration: nil)
            bindEntry(&open.insert, hash, metadata, fileBytes: 0, sum: sum)
            try open.insert.bind(key, at: 13)
            try open.insert.bind(extended, at: 14)
            try open.insert.run(borrowing: value, at: 15)
            count(metadata.valueBytes, fileBytes: 0, sign: 1)
            return replaced
        } catch {
            throw DiskError(error)
        }
    }

    /// Puts an entry whose value is in the file of its generation, replacing the hash's old row.
    ///
    /// `metadata.valueBytes`, `metadata.valueSum` and `fileBytes` are those of `ValueFileWriter.finish`.
    func putFile(
        hash: UInt64, key: Span<UInt8>, metadata: EntryMetadata, extended: Span<UInt8>, fileBytes: Int
    ) throws(DiskError) -> Replaced? {
        invariant(fileBytes > 0, "a value file of \(fileBytes) bytes")
        let open = try writing("put")
        let seed = EntrySum.seed(key: key, generation: metadata.generation)
        let sum = EntrySum.row(hash: hash, metadata, fileBytes: fileBytes, extended: extended, seed: seed)
        do throws(SQLiteError) {
            let replaced = try deleteReturning(&open.deleteHash, hash: hash, ifGeneration: nil)
            bindEntry(&open.insert, hash, metadata, fileBytes: fileBytes, sum: sum)
            try open.insert.bind(key, at: 13)
            try open.insert.bind(extended, at: 14)
            open.insert.bindNull(at: 15)
            try open.insert.run()
            count(metadata.valueBytes, fileBytes: fileBytes, sign: 1)
            return replaced
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
            var change = EntryChange(deadline: deadline, marks: marks, cas: cas, accessed: accessed)
            guard let (rowID, sum) = try touched(&open.find, hash, key, ifGeneration, &change) else { return false }
            open.touch.bind(rowID, at: 1)
            open.touch.bind(bits: cas, at: 2)
            open.touch.bind(Int64(marks.rawValue), at: 3)
            open.touch.bind(deadline == .never ? nil : deadline.milliseconds, at: 4)
            open.touch.bind(accessed.seconds, at: 5)
            open.touch.bind(bits: sum, at: 6)
            open.touch.bind(change.written.milliseconds, at: 7)
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
        _ change: inout EntryChange
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
            // A clock that was set back since must not count against the new deadline.
            change.written = min(metadata.written, change.accessed)
            metadata.written = change.written
            let seed = EntrySum.seed(key: key, generation: metadata.generation)
            let sum = EntrySum.row(hash: hash, metadata, fileBytes: columns.fileBytes, extended: extended, seed: seed)
            return (columns.rowID, sum)
        }
    }

    private func bindEntry(
        _ insert: inout Statement, _ hash: UInt64, _ metadata: EntryMetadata, fileBytes: Int, sum: UInt64
    ) {
        insert.bind(bits: hash, at: 1)
        insert.bind(bits: metadata.generation, at: 2)
        insert.bind(bits: metadata.cas, at: 3)
        insert.bind(Int64(metadata.flags), at: 4)
        insert.bind(Int64(metadata.marks.rawValue), at: 5)
        insert.bind(metadata.deadline == .never ? nil : metadata.deadline.milliseconds, at: 6)
        insert.bind(metadata.written.milliseconds, at: 7)
        insert.bind(metadata.accessed.seconds, at: 8)
        insert.bind(Int64(metadata.valueBytes), at: 9)
        insert.bind(Int64(fileBytes), at: 10)
        insert.bind(bits: metadata.valueSum, at: 11)
        insert.bind(bits: sum, at: 12)
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
    /// When the value was stored; no later than the touch.
    var written = WallTime.never
}
