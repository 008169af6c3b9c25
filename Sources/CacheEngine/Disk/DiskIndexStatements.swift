// The prepared statements of the write connection, and the connection itself: one thing, closed at once.

import SQLite

/// An open write connection with everything prepared on it.
///
/// Statements go before the connection.
final class DiskIndexStatements {
    var insert: Statement
    var present: Statement
    var replace: Statement
    var rewrite: Statement
    var deleteHash: Statement
    var deleteKey: Statement
    var deleteRow: Statement
    var find: Statement
    var touch: Statement
    var setAccessed: Statement
    var updateState: Statement
    var leastRecent: Statement
    var expired: Statement
    var idle: Statement
    var walk: Statement
    var scan: Statement
    var hashes: Statement
    var hasFile: Statement
    var fileGenerations: Statement
    var begin: Statement
    var commit: Statement
    var pageCount: Statement
    var freePages: Statement
    let connection: Connection

    init(_ connection: Connection) throws(SQLiteError) {
        typealias Schema = DiskIndexSchema
        let returned = "RETURNING \(Schema.replacedColumns)"
        let candidates = "SELECT \(Schema.candidateColumns) FROM entry"
        self.connection = connection
        insert = try connection.prepare(Schema.insertEntry, name: "insert entry")
        present = try connection.prepare(
            "SELECT \(Schema.presentColumns) FROM entry WHERE hash = ?1", name: "find present entry")
        replace = try connection.prepare(
            "UPDATE entry SET \(Schema.rewritten), deadline = ?6, accessed = ?8 WHERE id = ?1", name: "replace entry")
        rewrite = try connection.prepare("UPDATE entry SET \(Schema.rewritten) WHERE id = ?1", name: "rewrite entry")
        deleteHash = try connection.prepare(
            "DELETE FROM entry WHERE hash = ?1 AND (?2 IS NULL OR generation = ?2) \(returned)", name: "delete by hash")
        deleteKey = try connection.prepare(
            "DELETE FROM entry WHERE hash = ?1 AND (?2 IS NULL OR generation = ?2) AND key = ?3 \(returned)",
            name: "delete entry")
        deleteRow = try connection.prepare(
            "DELETE FROM entry WHERE id = ?1 AND generation = ?2 \(returned)", name: "delete row")
        find = try connection.prepare(
            "SELECT \(Schema.entryColumns) FROM entry WHERE hash = ?1", name: "find entry")
        touch = try connection.prepare(
            "UPDATE entry SET cas = ?2, marks = ?3, deadline = ?4, accessed = ?5, sum = ?6 WHERE id = ?1",
            name: "touch entry")
        setAccessed = try connection.prepare(
            "UPDATE entry SET accessed = ?2 WHERE hash = ?1 AND accessed < ?2", name: "set access time")
        updateState = try connection.prepare(
            "REPLACE INTO meta (id, \(IndexState.columns)) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            name: "update meta row")
        leastRecent = try connection.prepare("\(candidates) ORDER BY accessed LIMIT ?1", name: "least recent entries")
        expired = try connection.prepare(
            "\(candidates) WHERE deadline <= ?2 ORDER BY deadline LIMIT ?1", name: "expired entries")
        idle = try connection.prepare(
            "\(candidates) WHERE accessed < ?2 ORDER BY accessed LIMIT ?1", name: "idle entries")
        walk = try connection.prepare(
            "SELECT \(Schema.candidateColumns), written FROM entry WHERE id > ?2 ORDER BY id LIMIT ?1",
            name: "walk entries")
        scan = try connection.prepare(
            "SELECT \(Schema.entryColumns) FROM entry WHERE id > ?2 ORDER BY id LIMIT ?1", name: "scan entries")
        hashes = try connection.prepare(
            "SELECT hash, id FROM entry WHERE hash >= ?2 ORDER BY hash LIMIT ?1", name: "list hashes")
        hasFile = try connection.prepare(
            "SELECT 1 FROM entry WHERE generation = ?1 AND fileBytes > 0", name: "find value file")
        fileGenerations = try connection.prepare(
            "SELECT generation FROM entry WHERE generation > ?2 AND fileBytes > 0 ORDER BY generation LIMIT ?1",
            name: "list value files")
        begin = try connection.prepare("BEGIN IMMEDIATE", name: "begin")
        commit = try connection.prepare("COMMIT", name: "commit")
        pageCount = try connection.prepare("PRAGMA page_count", name: "page count")
        freePages = try connection.prepare("PRAGMA freelist_count", name: "free pages")
    }
}
