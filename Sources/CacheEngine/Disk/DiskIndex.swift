// The index's write connection: transactions, the meta row, and opening.
//
//   index.db   entry  one row per entry: metadata, key and (up to the inline limit) value
//              meta   one row: sequence, flush, totals; written in the same transaction as what it describes
//
// Owned by the disk writer thread, which makes all commits and all checkpoints: Debian's SQLite 3.40.1 can corrupt a
// database when two connections do (fixed in 3.51.3). Readers have read-only connections (IndexReader). No lock, no
// clock, no policy: what to put, trim and flush is the caller's. A failed commit leaves the outcome unknown, so the
// index then refuses to go on until it is closed and opened anew. Never wipes anything.

import Primitives
import SQLite

/// How the index is opened.
struct IndexOptions: Sendable {
    /// What survives a power loss.
    ///
    /// See sqlite.org/pragma.html#pragma_synchronous.
    enum Synchronous: Int, Sendable { case off = 0, normal = 1, full = 2 }

    /// Bytes per page of a new index; an existing one keeps its own.
    var pageSize = 8192
    var synchronous = Synchronous.off
    /// Page cache of the connection.
    var cacheBytes = 16 << 20
}

/// The index as the disk writer thread sees it.
final class DiskIndex {
    let directory: StoreDirectory
    var open: DiskIndexStatements?
    /// The meta row as the open transaction leaves it.
    var state: IndexState
    /// The meta row as of the last commit.
    private var committed: IndexState
    private var isInTransaction = false
    private var failedCommit = false
    /// Seconds by which a row's access time may stay behind when the row is overwritten.
    var accessSlack: Int64 = 0
    /// A count of all rows under way, because the totals are in doubt.
    var counting: Recounting?
    var lastPageCount = 0
    var lastFreePages = 0
    /// Bytes written to log and database that `takeWrittenBytes` has not told yet, and the log's frames when last seen.
    var writtenBytes = 0
    var lastLogFrames = 0
    let pageSize: Int
    /// Told of each commit; nil: nobody holds snapshots.
    var commitCount: CommitCount?
    /// Told of rows; nil: nobody asks.
    var hints: RowHints?

    /// Opens the index of `directory`, making it if there is none.
    ///
    /// - Throws: `.corrupt` if it is damaged, none of ours, or older than the anchor: quarantine. Every other kind
    ///   says nothing about the content: leave it alone and try again later.
    init(directory: StoreDirectory, options: IndexOptions) throws(DiskError) {
        self.directory = directory
        let opened = try DiskIndexOpening.open(directory: directory, options: options)
        open = opened.statements
        state = opened.state
        committed = opened.state
        pageSize = opened.pageSize
    }

    /// Closes the connection.
    ///
    /// An open transaction is rolled back. Done by deinit, too.
    func close() {
        if isInTransaction { rollback() }
        open = nil
    }

    deinit { close() }

    // MARK: transactions

    /// Begins a transaction.
    ///
    /// All changes happen between `begin` and `commit` or `rollback`.
    func begin() throws(DiskError) {
        let open = try ready("begin")
        invariant(!isInTransaction, "a transaction is open")
        try DiskError.wrapping { () throws(SQLiteError) in try open.begin.run() }
        isInTransaction = true
    }

    /// Writes the meta row and commits.
    ///
    /// - Throws: whatever happened, the outcome is unknown: `close`, then open a new `DiskIndex`.
    func commit() throws(DiskError) {
        let open = try ready("commit")
        invariant(isInTransaction, "no transaction is open")
        do throws(SQLiteError) {
            if state != committed {
                state.bind(to: &open.updateState)
                try open.updateState.run()
            }
            try open.commit.run()
        } catch {
            commitCount?.advance()
            rollback()
            failedCommit = true
            throw DiskError(error)
        }
        commitCount?.advance()
        isInTransaction = false
        committed = state
    }

    /// Gives up the transaction.
    func rollback() {
        state = committed
        // It may have counted what is undone.
        if counting != nil { counting = Recounting() }
        isInTransaction = false
        guard let open, open.connection.isInTransaction else { return }
        do throws(SQLiteError) {
            try open.connection.execute("ROLLBACK")
        } catch {
            // The connection is in no known state any more.
            failedCommit = true
        }
    }

    /// Whether the connection is open and in a known state.
    var isUsable: Bool { open != nil && !failedCommit }

    /// The open connection, or an error that says why there is none.
    func ready(_ operation: String) throws(DiskError) -> DiskIndexStatements {
        guard let open else {
            throw DiskError(kind: .other, operation: operation, code: 0, message: "the index is closed")
        }
        guard !failedCommit else {
            throw DiskError(kind: .other, operation: operation, code: 0, message: "a commit failed: reopen the index")
        }
        return open
    }

    /// Like `ready`, for what may happen only inside a transaction.
    func writing(_ operation: String) throws(DiskError) -> DiskIndexStatements {
        invariant(isInTransaction, "a change outside a transaction")
        let open = try ready(operation)
        // SQLite itself ends a transaction when it meets some errors; a change now would be a commit of its own.
        guard open.connection.isInTransaction else {
            throw DiskError(kind: .other, operation: operation, code: 0, message: "the transaction was rolled back")
        }
        return open
    }

    // MARK: the meta row

    /// The highest journal sequence that the index contains.
    var sequence: UInt64 { state.sequence }
    /// Entries of this generation and older are flushed.
    var flushGeneration: UInt64 { state.flushGeneration }
    /// When a delayed flush falls due.
    var flushAt: WallTime? { state.flushAt == 0 ? nil : WallTime(milliseconds: state.flushAt) }
    /// What the index holds.
    var totals: DiskTotals { state.totals }

    /// Sets the sequence that the open transaction reaches.
    func setSequence(_ sequence: UInt64) {
        invariant(isInTransaction, "a change outside a transaction")
        state.sequence = sequence
    }

    /// Sets the flush mark and the due time of a delayed flush (nil: none).
    func setFlush(generation: UInt64, at time: WallTime?) {
        invariant(isInTransaction, "a change outside a transaction")
        state.flushGeneration = generation
        state.flushAt = time?.milliseconds ?? 0
    }
}

extension DiskError {
    /// Whether the device failed to sync.
    var isSyncFailure: Bool { SQLiteError.isSyncFailure(code: code) }

    /// What `error` means for the index.
    init(_ error: SQLiteError) {
        let kind: Kind =
            switch error.cause {
            case .full: .full
            case .readOnly: .readOnly
            // A broken constraint: an index disagrees with its table, for we never put what breaks one.
            case .corrupt, .constraint: .corrupt
            case .io: .io
            case .busy, .cannotOpen, .other: .other
            }
        self.init(kind: kind, operation: error.operation, code: error.code, message: error.message)
    }

    /// Runs `body`, turning SQLite's errors into ours.
    @inline(__always)
    static func wrapping<Result>(_ body: () throws(SQLiteError) -> Result) throws(DiskError) -> Result {
        do throws(SQLiteError) { return try body() } catch { throw DiskError(error) }
    }
}
