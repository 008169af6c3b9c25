import Testing

@testable import SQLite

@Suite struct StatementTests {
    @Test(arguments: [Int64.min, -1, 0, 1, 1 << 40, .max])
    func numbersComeBack(_ number: Int64) throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        var echo = try connection.prepare("SELECT ?1, ?2", name: "echo")
        echo.bind(number, at: 1)
        echo.bind(bits: UInt64(bitPattern: number), at: 2)
        let echoHasRow = try echo.step()
        #expect(echoHasRow)
        let (value, bits, kind) = (echo.integer(at: 0), echo.bits(at: 1), echo.storageClass(at: 0))
        #expect(value == number)
        #expect(bits == UInt64(bitPattern: number))
        #expect(kind == .integer)
        echo.reset()
    }

    @Test(arguments: [0, 1, 250, 4096, 1_000_000])
    func blobsComeBack(_ count: Int) throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        var echo = try connection.prepare("SELECT ?1", name: "echo")
        try echo.bind(bytes.span, at: 1)
        let echoHasRow = try echo.step()
        #expect(echoHasRow)
        let kind = echo.storageClass(at: 0)
        #expect(kind == .blob)
        let back = echo.withBlob(at: 0) { span in span.indices.map { span[$0] } }
        #expect(back == bytes)
        echo.reset()
    }

    @Test func anEmptyBlobIsNotNull() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        var echo = try connection.prepare("SELECT ?1 IS NULL, ?2 IS NULL, ?3", name: "echo")
        try echo.bind([UInt8]().span, at: 1)
        echo.bindNull(at: 2)
        echo.bind(Int64?.none, at: 3)
        let echoHasRow = try echo.step()
        #expect(echoHasRow)
        let isNull = [echo.integer(at: 0), echo.integer(at: 1)]
        let (kind, count) = (echo.storageClass(at: 2), echo.withBlob(at: 2) { $0.count })
        #expect(isNull == [0, 1])
        #expect(kind == .null)
        #expect(count == 0)
        echo.reset()
    }

    @Test func boundBytesAreCopied() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        var echo = try connection.prepare("SELECT ?1", name: "echo")
        var bytes: [UInt8] = [1, 2, 3]
        try echo.bind(bytes.span, at: 1)
        bytes = [9, 9, 9]
        let echoHasRow = try echo.step()
        #expect(echoHasRow)
        let first = echo.withBlob(at: 0) { $0[0] }
        #expect(first == 1)
        echo.reset()
    }

    @Test func borrowedBytesAreGoneAfterTheRun() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        try connection.execute("CREATE TABLE t (a)")
        var insert = try connection.prepare("INSERT INTO t VALUES (?1)", name: "insert")
        try insert.run(borrowing: [UInt8(7), 8].span, at: 1)
        try insert.run(borrowing: [UInt8]().span, at: 1)
        insert.bindNull(at: 1)
        try insert.run(borrowing: [UInt8(5)].span, at: 1)
        // The parameter was unbound after the run: this one stores NULL.
        try insert.run()
        #expect(try connection.text("SELECT group_concat(quote(a)) FROM t") == "X'0708',X'',X'05',NULL")
        #expect(connection.busyStatements == 0)
    }

    @Test func aFailedRunIsResetAndCanBeRepeated() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        try connection.execute("CREATE TABLE t (a UNIQUE)")
        var insert = try connection.prepare("INSERT INTO t VALUES (?1)", name: "insert row")
        insert.bind(1, at: 1)
        try insert.run()
        let error = failure { try insert.run() }
        #expect(error?.cause == .constraint)
        #expect(error?.operation == "insert row")
        #expect(connection.busyStatements == 0)
        let borrowed = [UInt8(1), 2]
        try insert.run(borrowing: borrowed.span, at: 1)
        #expect(failure { try insert.run(borrowing: borrowed.span, at: 1) }?.cause == .constraint)
        insert.bind(2, at: 1)
        try insert.run()
        #expect(try connection.integer("SELECT count(*) FROM t") == 3)
    }

    @Test func aBlobAboveTheLimitIsAnErrorNotATrap() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        connection.setLengthLimit(1000)
        var echo = try connection.prepare("SELECT ?1", name: "echo")
        let bytes = [UInt8](repeating: 1, count: 2000)
        #expect(failure { try echo.bind(bytes.span, at: 1) }?.cause == .other)
        #expect(failure { try echo.run(borrowing: bytes.span, at: 1) }?.cause == .other)
    }

    @Test func aStatementIsBusyUntilItEndsOrIsReset() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        var rows = try connection.prepare("SELECT 1 UNION ALL SELECT 2", name: "rows")
        let rowsHasRow = try rows.step()
        #expect(rowsHasRow)
        let whileRunning = rows.isBusy
        rows.reset()
        let afterReset = rows.isBusy
        try rows.run()
        let afterRun = rows.isBusy
        #expect([whileRunning, afterReset, afterRun] == [true, false, false])
    }

    @Test func textAndOtherClasses() throws {
        let scratch = try ScratchDatabase()
        let connection = try scratch.connect()
        var row = try connection.prepare("SELECT 'häß', 1.5, NULL", name: "row")
        let rowHasRow = try row.step()
        #expect(rowHasRow)
        let (text, nothing) = (row.text(at: 0), row.text(at: 2))
        let kinds = [row.storageClass(at: 0), row.storageClass(at: 1)]
        #expect(text == "häß")
        #expect(nothing == "")
        #expect(kinds == [.text, .real])
        row.reset()
    }
}
