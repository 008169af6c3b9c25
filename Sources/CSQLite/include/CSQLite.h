/* SQLite as Swift can call it, and reads that do not wait for the device. Called from Sources/SQLite only. */
#ifndef CSQLITE_H
#define CSQLITE_H

#include <sqlite3.h>

/* Swift cannot call variadic functions: one wrapper for each use of sqlite3_db_config and sqlite3_config. */
int csqlite_db_config_flag(sqlite3 *db, int option, int on);
int csqlite_config_memstatus(int on);

/* Swift cannot import cast macros: the two destructors of sqlite3_bind_blob. */
int csqlite_bind_copied(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count);
int csqlite_bind_borrowed(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count);

/* Keeps the frames of the write-ahead log after each commit in `frames`: only a hook is told. */
void csqlite_watch_log(sqlite3 *db, int *frames);

/*
 * The errno of the last failed call on the write-ahead log, for which Swift would need four nested pointers. A failed
 * COMMIT does not set sqlite3_system_errno (SQLite 3.40).
 */
int csqlite_wal_errno(sqlite3 *db);

/* Puts the function below in the place of pread(2) for all connections; before the first one is opened. */
void csqlite_install_read(void);

/*
 * From `begin` to `end`, SQLite's reads on this thread fail instead of waiting for the device. `end` says whether one
 * did; negative: the file system cannot do without waiting.
 */
void csqlite_begin_cached_reads(void);
int csqlite_end_cached_reads(void);

#endif
