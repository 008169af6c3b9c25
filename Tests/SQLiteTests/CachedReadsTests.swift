import Foundation
import Testing

@testable import SQLite

@Suite struct CachedReadsTests {
    /// A database of some MiB; what the page cache held of it is dropped.
    private func coldDatabase() throws -> ScratchDatabase {
        SQLiteLibrary.prepare()
        let scratch = try ScratchDatabase()
        do {
            let connection = try scratch.connect()
            try connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)")
            try connection.execute(
                """
                WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 8000)
                INSERT INTO t SELECT a, randomblob(1000) FROM n
                """)
        }
        // No connection is open: closing a descriptor drops no lock.
        let file = open(scratch.path, O_RDONLY)
        #expect(fsync(file) == 0)
        #expect(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0)
        close(file)
        return scratch
    }

    @Test func whatIsNotInMemoryIsRefusedAndThenReadByWhoMayWait() throws {
        let scratch = try coldDatabase()
        let connection = try scratch.connect(.readOnly)
        let sum = "SELECT sum(length(b)) FROM t"
        #expect(try connection.integer("SELECT count(*) FROM sqlite_schema") == 1)
        var refused: SQLiteError?
        let cold = CachedReads.run { refused = failure { _ = try connection.integer(sum) } }
        switch cold {
        case .unsupported:
            // A file system in memory: every such read fails, and the outcome says that it is no use to go on.
            #expect(refused?.cause == .io)
            return
        // The page cache would not let go.
        case .complete: #expect(refused == nil)
        case .wouldWait: #expect(refused?.cause == .io)
        }
        #expect(try connection.integer(sum) == 8_000_000)
        let fresh = try scratch.connect(.readOnly)
        var found: Int64?
        let warm = CachedReads.run {
            do { found = try fresh.integer("SELECT length(b) FROM t WHERE a = 7999") } catch { Issue.record(error) }
        }
        #expect(warm == .complete)
        #expect(found == 1000)
    }

    @Test func anIOErrorOfAThreadThatMayWaitStaysAnError() throws {
        let scratch = try coldDatabase()
        let connection = try scratch.connect(.readOnly)
        #expect(CachedReads.run {} == .complete)
        #expect(try connection.integer("SELECT count(*) FROM t") == 8000)
    }
}
