// One prepared statement.
//
// Bind, step, read, reset: whoever steps a statement resets it before returning, so that no statement stays open and
// holds back a checkpoint. Stepping and binding are mutating, reading a row is not: the compiler refuses to step while
// a blob is being read. Not thread-safe: a statement belongs to the thread that owns its connection.
// See sqlite.org/c3ref/stmt.html.

internal import CSQLite

/// Owns one prepared statement.
@safe
public struct Statement: ~Copyable {
    // SAFETY: `raw` is finalized once, in deinit; the type cannot be copied.
    private let raw: OpaquePointer
    /// What the statement does, for error messages.
    public let name: StaticString

    init(raw: OpaquePointer, name: StaticString) {
        unsafe self.raw = raw
        self.name = name
    }

    deinit { unsafe sqlite3_finalize(raw) }

    /// Binds a number to parameter `index` (from 1).
    public mutating func bind(_ value: Int64, at index: Int32) {
        mustBeOK(unsafe sqlite3_bind_int64(raw, index, value), "sqlite3_bind_int64")
    }

    /// Binds a number, or NULL for nil.
    public mutating func bind(_ value: Int64?, at index: Int32) {
        if let value { bind(value, at: index) } else { bindNull(at: index) }
    }

    /// Binds the 64 bits of `bits` as a signed number.
    public mutating func bind(bits: UInt64, at index: Int32) {
        bind(Int64(bitPattern: bits), at: index)
    }

    /// Binds NULL.
    public mutating func bindNull(at index: Int32) {
        mustBeOK(unsafe sqlite3_bind_null(raw, index), "sqlite3_bind_null")
    }

    /// Binds a copy of `bytes` as a blob; an empty span is an empty blob, not NULL.
    ///
    /// - Throws: SQLITE_TOOBIG above the connection's length limit, SQLITE_NOMEM.
    public mutating func bind(_ bytes: Span<UInt8>, at index: Int32) throws(SQLiteError) {
        if bytes.isEmpty {
            mustBeOK(unsafe sqlite3_bind_zeroblob(raw, index, 0), "sqlite3_bind_zeroblob")
            return
        }
        let code = unsafe bytes.withUnsafeBytes { bytes in
            unsafe csqlite_bind_copied(raw, index, bytes.baseAddress, UInt64(bytes.count))
        }
        if code != SQLITE_OK { throw failure(code) }
    }

    /// Goes on to the next row; false when there is none.
    ///
    /// On failure the statement is reset.
    ///
    /// - Throws: what SQLite answered, with its extended code. See sqlite.org/c3ref/step.html.
    public mutating func step() throws(SQLiteError) -> Bool {
        let code = unsafe sqlite3_step(raw)
        if code == SQLITE_ROW { return true }
        if code == SQLITE_DONE { return false }
        let error = failure(code)
        reset()
        throw error
    }

    /// Ends the run, keeping the bindings.
    ///
    /// The statement can be bound and stepped anew.
    public mutating func reset() {
        // The code repeats the last step's failure, which was thrown already.
        _ = unsafe sqlite3_reset(raw)
    }

    /// Runs to completion, ignoring rows, and resets.
    public mutating func run() throws(SQLiteError) {
        while try step() {}
        reset()
    }

    /// Like `run`, with `bytes` bound at `index` without a copy, for this run only.
    public mutating func run(borrowing bytes: Span<UInt8>, at index: Int32) throws(SQLiteError) {
        if bytes.isEmpty {
            try bind(bytes, at: index)
            try run()
            return
        }
        // SAFETY: SQLite keeps the pointer until the parameter is bound anew, which happens before the bytes go away.
        let result: Result<Void, SQLiteError> = unsafe bytes.withUnsafeBytes { bytes in
            let code = unsafe csqlite_bind_borrowed(raw, index, bytes.baseAddress, UInt64(bytes.count))
            guard code == SQLITE_OK else { return .failure(failure(code)) }
            defer { bindNull(at: index) }
            do throws(SQLiteError) {
                try run()
                return .success(())
            } catch {
                return .failure(error)
            }
        }
        try result.get()
    }

    /// Whether a run was begun and neither completed nor reset.
    public var isBusy: Bool { unsafe sqlite3_stmt_busy(raw) != 0 }

    // MARK: the current row

    /// The number in column `index` (from 0); 0 for NULL.
    public func integer(at index: Int32) -> Int64 { unsafe sqlite3_column_int64(raw, index) }

    /// The number in column `index` as 64 bits.
    public func bits(at index: Int32) -> UInt64 { UInt64(bitPattern: integer(at: index)) }

    /// The storage class of a column's value.
    public enum StorageClass: Sendable, Equatable { case null, integer, real, text, blob }

    /// What is in column `index`.
    ///
    /// Call it before reading the column.
    public func storageClass(at index: Int32) -> StorageClass {
        switch unsafe sqlite3_column_type(raw, index) {
        case SQLITE_INTEGER: .integer
        case SQLITE_BLOB: .blob
        case SQLITE_NULL: .null
        case SQLITE_FLOAT: .real
        default: .text
        }
    }

    /// Runs `body` with the blob in column `index`; empty for NULL.
    ///
    /// The bytes are valid during the call only.
    public func withBlob<Result, Failure: Error>(
        at index: Int32, _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        // SAFETY: the pointer stays valid until the next step, reset or conversion, all of which need `mutating`
        // access or another column call on this column; the count is asked for after the pointer, as SQLite demands.
        let base = unsafe sqlite3_column_blob(raw, index)
        let count = unsafe base == nil ? 0 : Int(sqlite3_column_bytes(raw, index))
        let bytes = unsafe UnsafeBufferPointer(start: base?.assumingMemoryBound(to: UInt8.self), count: count)
        return try unsafe body(Span(_unsafeElements: bytes))
    }

    /// The text in column `index`; empty for NULL.
    public func text(at index: Int32) -> String {
        // SAFETY: SQLite returns a C string that is valid until the next call; it is copied here.
        guard let text = unsafe sqlite3_column_text(raw, index) else { return "" }
        return unsafe String(cString: text)
    }

    private func failure(_ code: Int32) -> SQLiteError {
        // SAFETY: the handle is valid while the statement is.
        unsafe lastFailure(of: sqlite3_db_handle(raw), operation: "\(name)", code)
    }
}
