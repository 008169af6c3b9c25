// Rows of the index: any types and values in any column; with a right sum too. Found, absent or damaged, never a trap.
//
// Each column takes its kind and its length from the input. The database is SQLite's own kind in memory, and both
// connections stay open: what is fuzzed is our reading, not SQLite's file format.

import CSQLite
import Primitives
import SQLite

@testable import CacheEngine

/// Connections of one process share it, since its name begins with a slash; see sqlite.org/c3ref/open.html.
private let path = "/fuzz"
private let hash: UInt64 = 0x1234_5678_9abc_def0

private final class Store {
    var begin: Statement
    var clear: Statement
    var insert: Statement
    var commit: Statement
    let reader: IndexReader
    let connection: Connection

    init() throws {
        precondition(sqlite3_vfs_register(sqlite3_vfs_find("memdb"), 1) == SQLITE_OK)
        connection = try Connection(path: path, access: .create)
        try connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        // Damage does not keep to constraints.
        try connection.execute(
            DiskIndexSchema.objects[0].replacing(" NOT NULL", with: "").replacing(" INTEGER,", with: ","))
        try connection.execute("CREATE INDEX entry_hash ON entry (hash)")
        begin = try connection.prepare("BEGIN", name: "begin")
        commit = try connection.prepare("COMMIT", name: "commit")
        clear = try connection.prepare("DELETE FROM entry", name: "clear")
        insert = try connection.prepare(DiskIndexSchema.insertEntry, name: "insert")
        reader = try IndexReader(location: IndexLocation(path: path))
    }
}

nonisolated(unsafe) private var store: Store = {
    do { return try Store() } catch { preconditionFailure("\(error)") }
}()

/// Fills a row from the input and reads it in every way.
func fuzz(_ bytes: UnsafeRawBufferPointer) {
    guard bytes.count > 2 else { return }
    var rest = Array(bytes)[...]
    let mode = rest.removeFirst()
    do {
        let key = try replaceRow(mode, &rest)
        let found = try store.reader.read(hash: hash, key: key.span) { metadata, extended, value in
            precondition(value == nil || value?.count == metadata.valueBytes)
            _ = extended.reduce(0) { $0 &+ Int($1) }
        }
        precondition(found != .found || mode & 1 == 1, "a row without a sum of ours was believed")
        _ = try store.reader.scan(after: 0, limit: 4)
        _ = try store.reader.scan(fromHash: .min, limit: 4)
        _ = try store.reader.hasRow(hash: hash)
    } catch {}
}

/// Puts a row of the input's in place of the one before, in one transaction.
private func replaceRow(_ mode: UInt8, _ rest: inout ArraySlice<UInt8>) throws -> [UInt8] {
    try store.begin.run()
    defer { do { try store.commit.run() } catch { preconditionFailure("\(error)") } }
    try store.clear.run()
    let key = try bind(mode, &rest)
    try store.insert.run()
    return key
}

/// Binds all columns from the input; returns the key to look for.
private func bind(_ mode: UInt8, _ rest: inout ArraySlice<UInt8>) throws -> [UInt8] {
    for column in Int32(1)...15 { try bindAny(column, &rest) }
    if mode & 8 == 0 { store.insert.bind(bits: hash, at: 1) }
    let key = Array(rest.prefix(Int(mode >> 4)))
    if mode & 4 == 0 { try store.insert.bind(key.span, at: 13) }
    guard mode & 1 == 1 else { return key }
    // A row as we would have written it, but for the numbers, which are the input's.
    let value = Array(rest.prefix(40))
    var metadata = EntryMetadata(
        generation: number(&rest), cas: number(&rest), flags: UInt32(truncatingIfNeeded: number(&rest)),
        marks: EntryMarks(rawValue: UInt8(truncatingIfNeeded: number(&rest))),
        deadline: WallTime(milliseconds: Int64(bitPattern: number(&rest))),
        written: WallTime(milliseconds: Int64(bitPattern: number(&rest))),
        accessed: WallTime(milliseconds: 0), valueBytes: mode & 2 == 2 ? Int(number(&rest) >> 1) : value.count,
        valueSum: 0)
    let seed = EntrySum.seed(key: key.span, generation: metadata.generation)
    metadata.valueSum = EntrySum.value(value.span, seed: seed)
    let fileBytes = mode & 2 == 2 ? Int(number(&rest) >> 1) : 0
    store.insert.bind(bits: metadata.generation, at: 2)
    store.insert.bind(bits: metadata.cas, at: 3)
    store.insert.bind(Int64(metadata.flags), at: 4)
    store.insert.bind(Int64(metadata.marks.rawValue), at: 5)
    store.insert.bind(metadata.deadline.milliseconds, at: 6)
    store.insert.bind(metadata.written.milliseconds, at: 7)
    store.insert.bind(Int64(bitPattern: number(&rest)), at: 8)
    store.insert.bind(Int64(metadata.valueBytes), at: 9)
    store.insert.bind(Int64(fileBytes), at: 10)
    store.insert.bind(bits: metadata.valueSum, at: 11)
    let sum = EntrySum.row(
        hash: hash, metadata, fileBytes: fileBytes, extended: [UInt8]().span, seed: seed)
    store.insert.bind(bits: sum, at: 12)
    store.insert.bindNull(at: 14)
    if mode & 2 == 0 { try store.insert.bind(value.span, at: 15) } else { store.insert.bindNull(at: 15) }
    return key
}

private func bindAny(_ column: Int32, _ rest: inout ArraySlice<UInt8>) throws {
    let kind = rest.popFirst() ?? 0
    switch kind % 4 {
    case 0: store.insert.bind(bits: number(&rest), at: column)
    case 1: store.insert.bindNull(at: column)
    case 2: store.insert.bind(Int64(Int8(bitPattern: rest.popFirst() ?? 0)), at: column)
    default:
        let bytes = Array(rest.prefix(Int(kind >> 2)))
        rest = rest.dropFirst(bytes.count)
        try store.insert.bind(bytes.span, at: column)
    }
}

private func number(_ rest: inout ArraySlice<UInt8>) -> UInt64 {
    var number: UInt64 = 0
    for _ in 0..<8 { number = number << 8 | UInt64(rest.popFirst() ?? 0) }
    return number
}
