// Opening the index: pragmas, the schema of a new one, and the checks that an existing one must pass.
//
// Only proven damage is `.corrupt`: SQLite's CORRUPT and NOTADB, a schema that is not ours, a meta row whose sum is
// wrong, an index that lags behind the anchor. BUSY, FULL, CANTOPEN and I/O errors say nothing about the content.

import Primitives
import SQLite

enum DiskIndexOpening {
    struct Opened {
        var statements: DiskIndexStatements
        var state: IndexState
        var pageSize: Int
    }

    /// Longest wait for a lock that a foreign process (an operator's sqlite3) holds.
    private static let busyMilliseconds: Int32 = 200
    /// The log is cut to this after a checkpoint that could reset it.
    private static let walBytesKept = 64 << 20
    /// Longest row: the largest inline value and key with room to spare.
    private static let rowBytesMax: Int32 = 64 << 20

    static func open(directory: StoreDirectory, options: IndexOptions) throws(DiskError) -> Opened {
        SQLiteLibrary.prepare()
        let path: String
        do throws(StoreError) {
            path = try directory.prepareIndexFile()
        } catch {
            throw DiskError(error)
        }
        do throws(DiskError) {
            return try open(path: path, directory: directory, options: options)
        } catch {
            // A damaged header can say that it is a format which may only be read.
            guard error.kind == .readOnly, directory.canWriteIndex else { throw error }
            throw DiskError(
                kind: .corrupt, operation: error.operation, code: error.code, message: "the header is damaged")
        }
    }

    private static func open(
        path: String, directory: StoreDirectory, options: IndexOptions
    ) throws(DiskError) -> Opened {
        try DiskError.wrapping { () throws(SQLiteError) in
            let connection = try Connection(path: path, access: .readWrite)
            connection.setBusyTimeout(milliseconds: busyMilliseconds)
            connection.setDefensive()
            connection.setLengthLimit(rowBytesMax)
            try connection.execute("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY")
            if try isEmpty(connection) {
                try refuse(
                    directory.anchorSequence > 0, "the index is empty, the anchor is at \(directory.anchorSequence)")
                try create(connection, pageSize: options.pageSize)
            }
            try tune(connection, options)
            var state = try check(connection, directory)
            let statements = try DiskIndexStatements(connection)
            // Before the row says so: if what follows fails, the next attempt must find its own epoch in order.
            directory.indexWasOpened()
            // Not again in the same epoch: a full disk would refuse it, and the index is reopened just then.
            if state.epoch != directory.epoch {
                state.epoch = directory.epoch
                state.bind(to: &statements.updateState)
                try statements.updateState.run()
            }
            let pageSize = try connection.integer("PRAGMA page_size") ?? 0
            return Opened(statements: statements, state: state, pageSize: Int(pageSize))
        }
    }

    private static func isEmpty(_ connection: Connection) throws(SQLiteError) -> Bool {
        let objects = try connection.integer("SELECT count(*) FROM sqlite_schema")
        let application = try connection.integer("PRAGMA application_id")
        return objects == 0 && application == 0
    }

    private static func create(_ connection: Connection, pageSize: Int) throws(SQLiteError) {
        // Both must be set before the first page is written.
        try connection.execute("PRAGMA page_size = \(pageSize); PRAGMA auto_vacuum = INCREMENTAL")
        try connection.execute("PRAGMA journal_mode = WAL")
        let objects = DiskIndexSchema.objects.joined(separator: ";\n")
        try connection.execute(
            """
            BEGIN IMMEDIATE;
            \(objects);
            INSERT INTO meta (id, \(IndexState.columns))
                VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, \(Int64(bitPattern: IndexState().sum)));
            PRAGMA application_id = \(DiskIndexSchema.applicationID);
            PRAGMA user_version = \(DiskIndexSchema.version);
            COMMIT;
            """)
        // The schema goes into the database file itself: a lost log alone must not look like a new index.
        _ = try connection.checkpoint(.truncate)
    }

    private static func tune(_ connection: Connection, _ options: IndexOptions) throws(SQLiteError) {
        let mode = try connection.text("PRAGMA journal_mode = WAL")
        try refuse(mode != "wal", "journal_mode is \(mode ?? "unknown")")
        try connection.execute(
            """
            PRAGMA synchronous = \(options.synchronous.rawValue);
            PRAGMA wal_autocheckpoint = 0;
            PRAGMA journal_size_limit = \(walBytesKept);
            PRAGMA secure_delete = OFF;
            PRAGMA cache_size = -\(max(options.cacheBytes / 1024, 64));
            """)
        connection.watchLog()
    }

    private static func check(_ connection: Connection, _ directory: StoreDirectory) throws(SQLiteError) -> IndexState {
        let state = try readState(connection)
        #if DEBUG
            let anchor = SeededBug.isActive(.anchorIgnored) ? 0 : directory.anchorSequence
        #else
            let anchor = directory.anchorSequence
        #endif
        try refuse(state.sequence < anchor, "the index is at sequence \(state.sequence), the anchor at \(anchor)")
        try refuse(
            !directory.admits(indexEpoch: state.epoch),
            "the index was opened in epoch \(state.epoch), this is \(directory.epoch)")
        return state
    }

    /// Checks that the database is an index of ours, and reads its meta row.
    static func readState(_ connection: Connection) throws(SQLiteError) -> IndexState {
        let application = try connection.integer("PRAGMA application_id") ?? 0
        try refuse(application != DiskIndexSchema.applicationID, "application_id is \(application)")
        let version = try connection.integer("PRAGMA user_version") ?? 0
        try refuse(version != DiskIndexSchema.version, "user_version is \(version)")
        var schema = try connection.prepare("SELECT sql FROM sqlite_schema ORDER BY rowid", name: "read schema")
        var objects: [String] = []
        while try schema.step() { objects.append(schema.text(at: 0)) }
        schema.reset()
        try refuse(objects != DiskIndexSchema.objects, "the schema is not ours")

        var row = try connection.prepare("SELECT \(IndexState.columns) FROM meta WHERE id = 1", name: "read meta row")
        defer { row.reset() }
        try refuse(try !row.step(), "there is no meta row")
        guard let state = IndexState(row) else { throw damaged("the meta row's sum is wrong") }
        return state
    }

    private static func refuse(_ isBad: Bool, _ reason: @autoclosure () -> String) throws(SQLiteError) {
        if isBad { throw damaged(reason()) }
    }

    /// Our own checks speak SQLite's language, so that there is one path for damage.
    private static func damaged(_ reason: String) -> SQLiteError {
        SQLiteError(code: SQLiteError.corruptCode, operation: "check index", message: reason)
    }
}
