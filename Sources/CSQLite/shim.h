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
