// One connection to one database file.
//
// Opened without SQLite's own mutex (SQLITE_OPEN_NOMUTEX): a connection and its statements belong to one thread, and
// the type is not Sendable, so the compiler holds callers to it. No policy here: pragmas and SQL are the caller's.
// Never open() and close() a database file by other means while a connection to it is open in the process: closing any
// descriptor of the file drops the connection's POSIX locks (sqlite.org/howtocorrupt.html).

internal import CSQLite

/// Owns one database connection; closes it on deinit.
@safe
public final class Connection {
    /// How a database is opened.
    public enum Access: Sendable { case create, readWrite, readOnly }

    // SAFETY: closed once, in deinit; never leaves this module.
    private let raw: OpaquePointer
    // SAFETY: allocated once, freed after the hook that writes there was taken off.
    private let frames: UnsafeMutablePointer<Int32>
    /// The path that the connection was opened with.
    public let path: String

    /// Opens `path`, which must not contain a symbolic link in any component.
    ///
    /// - Throws: SQLITE_CANTOPEN and so on. SQLite reads the file only later, with the first statement.
    public init(path: String, access: Access) throws(SQLiteError) {
        self.path = path
        unsafe frames = .allocate(capacity: 1)
        unsafe frames.initialize(to: 0)
        let mode =
            switch access {
            case .create: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
            case .readWrite: SQLITE_OPEN_READWRITE
            case .readOnly: SQLITE_OPEN_READONLY
            }
        var handle: OpaquePointer?
        let flags = mode | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE
        let code = unsafe sqlite3_open_v2(path, &handle, flags, nil)
        // SAFETY: SQLite returns a handle even on failure, which must be closed all the same; without memory it is nil.
        guard code == SQLITE_OK, let handle = unsafe handle else {
            let error = unsafe lastFailure(of: handle, operation: "open \(path)", code)
            unsafe sqlite3_close_v2(handle)
            unsafe frames.deallocate()
            throw error
        }
        unsafe raw = handle
    }

    deinit {
        // A statement that outlives its connection keeps it alive as a zombie (close_v2): safe, but a mistake.
        assert(busyStatements == 0, "a busy statement at close of \(path)")
        unsafe sqlite3_wal_hook(raw, nil, nil)
        unsafe sqlite3_close_v2(raw)
        unsafe frames.deallocate()
    }

    /// Counts the frames of the write-ahead log from now on.
    ///
    /// After `PRAGMA wal_autocheckpoint`, which takes the same hook. See sqlite.org/c3ref/wal_hook.html.
    public func watchLog() { unsafe csqlite_watch_log(raw, frames) }

    /// Frames in use of the write-ahead log after the last commit of this connection; 0 before the first.
    public var logFrames: Int { unsafe Int(frames.pointee) }

    /// All frames were copied into the database: the next commit begins the log anew.
    public func forgetLog() { unsafe frames.pointee = 0 }

    /// Prepares `sql` for many runs.
    ///
    /// `name` says in error messages what it does.
    public func prepare(_ sql: String, name: StaticString) throws(SQLiteError) -> Statement {
        var statement: OpaquePointer?
        let code = unsafe sqlite3_prepare_v3(raw, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
        guard code == SQLITE_OK, let statement = unsafe statement else { throw failure("prepare \(name)", code) }
        return unsafe Statement(raw: statement, name: name)
    }

    /// Runs one or more statements without parameters, ignoring rows.
    public func execute(_ sql: String) throws(SQLiteError) {
        let code = unsafe sqlite3_exec(raw, sql, nil, nil, nil)
        if code != SQLITE_OK { throw failure(sql, code) }
    }

    /// The number in the first column of the first row of `sql`; nil without a row.
    public func integer(_ sql: String) throws(SQLiteError) -> Int64? {
        var statement = try prepare(sql, name: "query")
        defer { statement.reset() }
        return try statement.step() ? statement.integer(at: 0) : nil
    }

    /// The text in the first column of the first row of `sql`; nil without a row.
    public func text(_ sql: String) throws(SQLiteError) -> String? {
        var statement = try prepare(sql, name: "query")
        defer { statement.reset() }
        return try statement.step() ? statement.text(at: 0) : nil
    }

    /// Rows that the last INSERT, UPDATE or DELETE changed.
    public var changes: Int { unsafe Int(sqlite3_changes64(raw)) }

    /// Row id of the last INSERT.
    public var lastInsertedRow: Int64 { unsafe sqlite3_last_insert_rowid(raw) }

    /// Whether a transaction is open.
    public var isInTransaction: Bool { unsafe sqlite3_get_autocommit(raw) == 0 }

    /// Statements that were begun and neither completed nor reset.
    public var busyStatements: Int {
        var count = 0
        var statement = unsafe sqlite3_next_stmt(raw, nil)
        while unsafe statement != nil {
            if unsafe sqlite3_stmt_busy(statement) != 0 { count += 1 }
            unsafe statement = unsafe sqlite3_next_stmt(raw, statement)
        }
        return count
    }

    /// How long a call waits for a lock that another connection holds, in milliseconds; 0: not at all.
    public func setBusyTimeout(milliseconds: Int32) {
        mustBeOK(unsafe sqlite3_busy_timeout(raw, milliseconds), "sqlite3_busy_timeout")
    }

    /// The longest row, blob or SQL text that the connection accepts, in bytes.
    public func setLengthLimit(_ bytes: Int32) {
        _ = unsafe sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, bytes)
    }

    /// Refuses what could corrupt the file from SQL, and does not trust functions named in the schema.
    public func setDefensive() {
        setFlag(SQLITE_DBCONFIG_DEFENSIVE, true)
        setFlag(SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)
        setFlag(SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        setFlag(SQLITE_DBCONFIG_ENABLE_VIEW, false)
        setFlag(SQLITE_DBCONFIG_DQS_DML, false)
        setFlag(SQLITE_DBCONFIG_DQS_DDL, false)
    }

    /// Leaves the write-ahead log as it is when the last connection closes.
    public func setNoCheckpointOnClose() { setFlag(SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) }

    private func setFlag(_ option: Int32, _ on: Bool) {
        mustBeOK(unsafe csqlite_db_config_flag(raw, option, on ? 1 : 0), "sqlite3_db_config")
    }

    /// Ways to move the write-ahead log's content into the database.
    public enum CheckpointMode: Sendable {
        /// What is possible without waiting for readers.
        case passive
        /// Everything, waiting for readers up to the busy timeout, and the log is cut to length 0.
        case truncate
    }

    /// What a checkpoint did.
    public struct Checkpoint: Sendable, Equatable {
        /// Frames in the log.
        public let walFrames: Int
        /// Frames that are in the database now.
        public let copiedFrames: Int
        /// Whether readers kept it from completing.
        public let wasBusy: Bool
    }

    /// Runs a checkpoint.
    ///
    /// See sqlite.org/c3ref/wal_checkpoint_v2.html.
    ///
    /// - Throws: I/O errors; that readers were in the way is no error but `wasBusy`.
    public func checkpoint(_ mode: CheckpointMode) throws(SQLiteError) -> Checkpoint {
        var frames: Int32 = 0
        var copied: Int32 = 0
        let value = mode == .passive ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_TRUNCATE
        let code = unsafe sqlite3_wal_checkpoint_v2(raw, nil, value, &frames, &copied)
        if code != SQLITE_OK, code & 0xff != SQLITE_BUSY { throw failure("checkpoint", code) }
        return Checkpoint(walFrames: Int(frames), copiedFrames: Int(copied), wasBusy: code != SQLITE_OK)
    }

    private func failure(_ operation: String, _ code: Int32) -> SQLiteError {
        // SAFETY: `raw` is open.
        unsafe lastFailure(of: raw, operation: operation, code)
    }
}

/// The error that a call on `connection` has just answered with `code`.
func lastFailure(of connection: OpaquePointer?, operation: String, _ code: Int32) -> SQLiteError {
    // SQLITE_MISUSE and SQLITE_RANGE are our bugs, never the world's.
    let primary = code & 0xff
    precondition(primary != SQLITE_MISUSE && primary != SQLITE_RANGE, "\(operation): SQLite code \(code)")
    // SAFETY: `connection` is open; the message is copied at once. The errno is a leftover unless I/O has failed.
    let message = unsafe String(cString: sqlite3_errmsg(connection))
    var systemError: Int32 = 0
    if [SQLITE_IOERR, SQLITE_CANTOPEN, SQLITE_FULL].contains(primary) {
        systemError = unsafe sqlite3_system_errno(connection)
        if systemError == 0, primary == SQLITE_IOERR { systemError = unsafe csqlite_wal_errno(connection) }
    }
    return SQLiteError(code: code, operation: operation, message: message, systemError: systemError)
}

/// What concerns the whole library, not one connection.
public enum SQLiteLibrary {
    /// The version in use, such as "3.40.1".
    public static var version: String { unsafe String(cString: sqlite3_libversion()) }

    /// Prepares the library for this process; to be called before the first connection is opened.
    ///
    /// Turns off its count of allocated bytes, which takes a process-wide lock for each allocation, and lets
    /// `CachedReads` have a say in reads.
    public static func prepare() { isPrepared }

    private static let isPrepared: Void = {
        _ = csqlite_config_memstatus(0)
        csqlite_install_read()
    }()
}
