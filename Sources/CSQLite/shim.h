#include <sqlite3.h>

// Swift cannot call variadic functions: one wrapper for each use of sqlite3_db_config and sqlite3_config.
static inline int csqlite_db_config_flag(sqlite3 *db, int option, int on) {
    return sqlite3_db_config(db, option, on, (int *)0);
}
static inline int csqlite_config_memstatus(int on) {
    return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, on);
}

// Swift cannot import cast macros: the two destructors of sqlite3_bind_blob.
static inline int csqlite_bind_copied(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
    return sqlite3_bind_blob64(statement, index, bytes, count, SQLITE_TRANSIENT);
}
static inline int csqlite_bind_borrowed(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
    return sqlite3_bind_blob64(statement, index, bytes, count, SQLITE_STATIC);
}

// The frames of the write-ahead log after each commit: only a hook is told.
static inline int csqlite_note_frames(void *frames, sqlite3 *db, const char *name, int count) {
    (void)db;
    (void)name;
    *(int *)frames = count;
    return SQLITE_OK;
}
static inline void csqlite_watch_log(sqlite3 *db, int *frames) { sqlite3_wal_hook(db, csqlite_note_frames, frames); }

// Swift would need four nested pointers for this: the errno of the last failed call on the write-ahead log. A failed
// COMMIT does not set sqlite3_system_errno (SQLite 3.40).
static inline int csqlite_wal_errno(sqlite3 *db) {
    sqlite3_file *file = 0;
    int code = 0;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) != SQLITE_OK) return 0;
    if (file == 0 || file->pMethods == 0) return 0;
    file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &code);
    return code;
}
