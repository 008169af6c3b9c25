import Foundation
import Testing

@testable import SQLite

/// A database file in a directory of its own, which goes away with it.
final class ScratchDatabase {
    let directory: URL

    init() throws {
        directory = FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
            .appendingPathComponent("sqlite-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    deinit {
        do { try FileManager.default.removeItem(at: directory) } catch { Issue.record(error) }
    }

    var path: String { directory.appendingPathComponent("test.db").path }

    func connect(_ access: Connection.Access = .create) throws -> Connection {
        try Connection(path: path, access: access)
    }
}

/// The error that `body` throws.
func failure(_ body: () throws -> Void) -> SQLiteError? {
    do {
        try body()
    } catch let error as SQLiteError {
        return error
    } catch {
        Issue.record(error)
    }
    return nil
}

@Suite struct ConnectionTests {
    @Test func readsWhatItWrote() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        try connection.execute("CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'one'), (2, 'two')")
        #expect(connection.changes == 2)
        #expect(connection.lastInsertedRow == 2)
        #expect(try connection.integer("SELECT sum(a) FROM t") == 3)
        #expect(try connection.text("SELECT b FROM t WHERE a = 2") == "two")
        #expect(try connection.integer("SELECT a FROM t WHERE a = 3") == nil)
        #expect(try connection.text("SELECT b FROM t WHERE a = 3") == nil)
        #expect(connection.busyStatements == 0)
    }

    @Test func aMissingDatabaseCannotBeOpenedForReading() throws {
        let scratch = try ScratchDatabase()
        let error = failure { _ = try scratch.connect(.readOnly) }
        #expect(error?.cause == .cannotOpen)
        #expect(error?.operation.contains("test.db") == true)
        #expect(failure { _ = try scratch.connect(.readWrite) }?.cause == .cannotOpen)
        #expect(!FileManager.default.fileExists(atPath: scratch.path))
    }

    @Test func aSymbolicLinkIsRefused() throws {
        let scratch = try ScratchDatabase()
        try scratch.connect().execute("CREATE TABLE t (a)")
        let link = scratch.directory.appendingPathComponent("link.db").path
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: scratch.path)
        #expect(failure { _ = try Connection(path: link, access: .readWrite) }?.cause == .cannotOpen)
    }

    @Test func aReadOnlyConnectionRefusesToWrite() throws {
        let scratch = try ScratchDatabase()
        try scratch.connect().execute("CREATE TABLE t (a)")
        let error = failure { try scratch.connect(.readOnly).execute("INSERT INTO t VALUES (1)") }
        #expect(error?.cause == .readOnly)
    }

    @Test func whatIsNoDatabaseIsCorrupt() throws {
        let scratch = try ScratchDatabase()
        try Data(repeating: 0x58, count: 8192).write(to: URL(fileURLWithPath: scratch.path))
        let connection = try scratch.connect(.readWrite)
        #expect(failure { _ = try connection.integer("SELECT count(*) FROM sqlite_schema") }?.cause == .corrupt)
    }

    @Test func aLockedDatabaseIsBusyNotCorrupt() throws {
        let scratch = try ScratchDatabase()
        let holder = try scratch.connect()
        try holder.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)")
        let other = try scratch.connect(.readWrite)
        other.setBusyTimeout(milliseconds: 0)
        #expect(failure { try other.execute("BEGIN IMMEDIATE") }?.cause == .busy)
        try holder.execute("COMMIT")
        try other.execute("BEGIN IMMEDIATE")
        #expect(other.isInTransaction)
        try other.execute("ROLLBACK")
        #expect(!other.isInTransaction)
    }

    @Test func aFullDatabaseSaysSo() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        try connection.execute("CREATE TABLE t (a); PRAGMA max_page_count = 10")
        let error = failure {
            for _ in 0..<100 { try connection.execute("INSERT INTO t VALUES (randomblob(4000))") }
        }
        #expect(error?.cause == .full)
        #expect(error?.message.isEmpty == false)
    }

    /// SQLite reports only ENOSPC as full; the other errors of a file system without room come as SQLITE_IOERR.
    @Test(arguments: [
        (ENOSPC, SQLiteError.Cause.full), (EDQUOT, .full), (EFBIG, .full), (EROFS, .readOnly), (EIO, .io),
    ])
    func theSystemsErrorDecides(_ code: Int32, _ cause: SQLiteError.Cause) {
        let ioError: Int32 = 10 | 3 << 8
        #expect(SQLiteError(code: ioError, operation: "write", message: "", systemError: code).cause == cause)
    }

    @Test(arguments: [
        (Int32(13), SQLiteError.Cause.full), (8, .readOnly), (264, .readOnly), (11, .corrupt), (267, .corrupt),
        (26, .corrupt), (10, .io), (5, .busy), (261, .busy), (6, .busy), (14, .cannotOpen), (19, .constraint),
        (2067, .constraint), (7, .other), (18, .other),
    ])
    func everyCodeHasItsCause(_ code: Int32, _ cause: SQLiteError.Cause) {
        #expect(SQLiteError(code: code, operation: "", message: "").cause == cause)
    }

    @Test func checkpointTruncatesTheLog() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        try connection.execute("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (a)")
        try connection.execute("INSERT INTO t VALUES (1)")
        let passive = try connection.checkpoint(.passive)
        #expect(passive.walFrames > 0 && passive.copiedFrames == passive.walFrames && !passive.wasBusy)
        _ = try connection.checkpoint(.truncate)
        let attributes = try FileManager.default.attributesOfItem(atPath: scratch.path + "-wal")
        #expect(attributes[.size] as? Int == 0)
    }

    @Test func aReaderHoldsACheckpointBackWithoutAnError() throws {
        let scratch = try ScratchDatabase()
        let writer = try scratch.connect()
        try writer.execute("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (a)")
        try writer.execute("INSERT INTO t VALUES (1)")
        let reader = try scratch.connect(.readOnly)
        var statement = try reader.prepare("SELECT a FROM t", name: "read")
        let hasRow = try statement.step()
        #expect(hasRow)
        #expect(reader.busyStatements == 1)
        try writer.execute("INSERT INTO t VALUES (2)")
        let held = try writer.checkpoint(.truncate)
        #expect(held.wasBusy)
        statement.reset()
        #expect(reader.busyStatements == 0)
        #expect(try !writer.checkpoint(.truncate).wasBusy)
    }

    @Test func theLogStaysAtCloseWhereAsked() throws {
        let scratch = try ScratchDatabase()
        do {
            let connection = try scratch.connect()
            connection.setNoCheckpointOnClose()
            try connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (7)")
        }
        let attributes = try FileManager.default.attributesOfItem(atPath: scratch.path + "-wal")
        #expect((attributes[.size] as? Int ?? 0) > 0)
        #expect(try scratch.connect().integer("SELECT a FROM t") == 7)
    }

    @Test func aDefensiveConnectionRefusesToEditTheSchema() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        try connection.execute("CREATE TABLE t (a)")
        connection.setDefensive()
        try connection.execute("PRAGMA writable_schema = ON")
        #expect(failure { try connection.execute("UPDATE sqlite_schema SET sql = 'x'") } != nil)
    }

    @Test func anErrorNamesOperationAndCause() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        let error = failure { _ = try connection.prepare("SELECT * FROM missing", name: "find it") }
        #expect(error?.description == "prepare find it: no such table: missing (SQLite code 1)")
    }

    @Test func theLibraryTellsItsVersion() {
        #expect(SQLiteLibrary.version.hasPrefix("3."))
    }
}
