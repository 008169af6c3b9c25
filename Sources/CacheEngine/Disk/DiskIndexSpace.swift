// Space and health of the index: pages, write-ahead log, checkpoints, vacuum, full counts and checks.
//
// Sizes come from SQLite and from fstatat(2): opening the database file by other means would drop its POSIX locks.

import Primitives
import SQLite

/// How hard a checkpoint tries.
enum CheckpointMode: Sendable {
    /// What is possible without waiting for readers.
    case passive
    /// Everything, and the log is cut to nothing.
    case truncate
}

/// What a checkpoint did.
struct CheckpointResult: Sendable, Equatable {
    /// Frames in the log.
    var walFrames: Int
    /// Frames that are in the database now.
    var copiedFrames: Int
    /// Whether the whole log is in the database.
    var isComplete: Bool
}

extension DiskIndex {
    /// Bytes of the database: all its pages, used and free.
    ///
    /// The last known figure if SQLite cannot tell.
    var pageBytes: Int {
        if let open, let count = read(&open.pageCount) { lastPageCount = count }
        return lastPageCount * pageSize
    }

    /// Pages that `incrementalVacuum` can give back.
    var freePages: Int {
        if let open, let count = read(&open.freePages) { lastFreePages = count }
        return lastFreePages
    }

    /// Bytes of the write-ahead log file.
    var walBytes: Int { directory.indexFileBytes(suffix: "-wal") }

    /// Bytes of it that are in use: after a complete checkpoint the next commit begins at its start.
    var usedLogBytes: Int { (open?.connection.logFrames ?? 0) * frameBytes }

    /// A page and its header.
    private var frameBytes: Int { pageSize + 24 }

    /// Gives back at most `pages` free pages at the end of the file; the file shrinks at the next checkpoint.
    func incrementalVacuum(pages: Int) throws(DiskError) {
        let open = try ready("incremental vacuum")
        try DiskError.wrapping { () throws(SQLiteError) in
            try open.connection.execute("PRAGMA incremental_vacuum(\(pages))")
        }
    }

    /// Copies the log's pages into the database.
    ///
    /// Not inside a transaction.
    ///
    /// That readers were in the way is no error: the result says how far it came.
    func checkpoint(_ mode: CheckpointMode) throws(DiskError) -> CheckpointResult {
        let open = try ready("checkpoint")
        noteLogGrowth()
        return try DiskError.wrapping { () throws(SQLiteError) in
            let done = try open.connection.checkpoint(mode == .passive ? .passive : .truncate)
            // An emptied log reports no frames: what was in it has been copied, less pages that were in it twice.
            let isCut = mode == .truncate && done.walFrames == 0
            writtenBytes += (isCut ? lastLogFrames : done.copiedFrames) * pageSize
            let isComplete = !done.wasBusy && done.walFrames == done.copiedFrames
            if isComplete {
                open.connection.forgetLog()
                lastLogFrames = 0
            }
            return CheckpointResult(
                walFrames: done.walFrames, copiedFrames: done.copiedFrames, isComplete: isComplete)
        }
    }

    /// Bytes written to log and database since the last call.
    ///
    /// Pages that a checkpoint copied once for several commits are counted with each: an upper bound.
    func takeWrittenBytes() -> Int {
        noteLogGrowth()
        defer { writtenBytes = 0 }
        return writtenBytes
    }

    private func noteLogGrowth() {
        let frames = open?.connection.logFrames ?? 0
        // Fewer than before: the log was begun anew.
        writtenBytes += (frames >= lastLogFrames ? frames - lastLogFrames : frames) * frameBytes
        lastLogFrames = frames
    }

    /// Copies everything into the database file and waits until it is on disk, for a clean stop.
    func sync() throws(DiskError) {
        let open = try ready("sync")
        try DiskError.wrapping { () throws(SQLiteError) in
            try open.connection.execute("PRAGMA synchronous = FULL")
            // At least one page must be copied, or SQLite sees no need to sync what it copied before without syncing.
            state.bind(to: &open.updateState)
            try open.updateState.run()
            _ = try open.connection.checkpoint(.truncate)
        }
    }

    /// Counts every row.
    ///
    /// O(entries): for checks, not for running.
    func recount() throws(DiskError) -> DiskTotals {
        let open = try ready("recount")
        return try DiskError.wrapping { () throws(SQLiteError) in
            var totals = DiskTotals()
            var rows = try open.connection.prepare("SELECT valueBytes, fileBytes FROM entry", name: "recount")
            defer { rows.reset() }
            while try rows.step() {
                totals.add(valueBytes: Int(rows.integer(at: 0)), fileBytes: Int(rows.integer(at: 1)), sign: 1)
            }
            return totals
        }
    }

    /// Sets the totals to what `recount` found, in the open transaction: after damaged rows were deleted.
    func setTotals(_ totals: DiskTotals) throws(DiskError) {
        _ = try writing("set totals")
        state.totals = totals
    }

    /// Builds all indexes anew from the rows; not inside a transaction.
    ///
    /// - Throws: `.corrupt` if two rows have the same hash.
    func rebuildIndexes() throws(DiskError) {
        let open = try ready("rebuild indexes")
        try DiskError.wrapping { () throws(SQLiteError) in try open.connection.execute("REINDEX") }
    }

    /// PRAGMA quick_check.
    ///
    /// O(pages): for --check and for a start that trusts nothing.
    ///
    /// - Throws: `.corrupt` with the first finding.
    func quickCheck() throws(DiskError) {
        let open = try ready("quick check")
        let finding = try DiskError.wrapping { () throws(SQLiteError) in
            try open.connection.text("PRAGMA quick_check(1)")
        }
        guard finding == "ok" else {
            throw DiskError(
                kind: .corrupt, operation: "quick check", code: SQLiteError.corruptCode, message: finding ?? "no answer"
            )
        }
    }

    /// The number that a pragma answers; nil on failure, which the next transaction will meet, too.
    private func read(_ pragma: inout Statement) -> Int? {
        defer { pragma.reset() }
        do throws(SQLiteError) {
            return try pragma.step() ? Int(pragma.integer(at: 0)) : nil
        } catch {
            return nil
        }
    }
}
