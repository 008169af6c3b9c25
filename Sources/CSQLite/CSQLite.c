// What the header promises, over SQLite's own interface. No policy here: see Sources/SQLite.

#define _GNU_SOURCE 1

#include "CSQLite.h"

#include <errno.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

int csqlite_db_config_flag(sqlite3 *db, int option, int on) { return sqlite3_db_config(db, option, on, (int *)0); }

int csqlite_config_memstatus(int on) { return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, on); }

int csqlite_bind_copied(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
    return sqlite3_bind_blob64(statement, index, bytes, count, SQLITE_TRANSIENT);
}

int csqlite_bind_borrowed(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
    return sqlite3_bind_blob64(statement, index, bytes, count, SQLITE_STATIC);
}

static int note_frames(void *frames, sqlite3 *db, const char *name, int count) {
    (void)db;
    (void)name;
    *(int *)frames = count;
    return SQLITE_OK;
}

void csqlite_watch_log(sqlite3 *db, int *frames) { sqlite3_wal_hook(db, note_frames, frames); }

int csqlite_wal_errno(sqlite3 *db) {
    sqlite3_file *file = 0;
    int code = 0;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) != SQLITE_OK) return 0;
    if (file == 0 || file->pMethods == 0) return 0;
    file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &code);
    return code;
}

// Whether reads of this thread may only take what the page cache holds, and what came of that: 1: one would have had to
// wait, -1: the file system does not know such reads.
static _Thread_local int takes_cached_only;
static _Thread_local int obstacle;

// Like pread(2). The page cache may hold a part only; SQLite asks for the rest then, which fails.
static ssize_t read_at(int file, void *bytes, size_t count, off_t offset) {
    if (!takes_cached_only) return pread(file, bytes, count, offset);
    struct iovec part = {bytes, count};
    ssize_t got = preadv2(file, &part, 1, offset, RWF_NOWAIT);
    if (got < 0 && errno == EAGAIN) obstacle = 1;
    if (got < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) obstacle = -1;
    return got;
}

void csqlite_install_read(void) {
    sqlite3_vfs *vfs = sqlite3_vfs_find(0);
    if (vfs == 0 || vfs->iVersion < 3 || vfs->xSetSystemCall == 0) return;
    // Which of the two there is depends on how SQLite was built; the other one is refused.
    vfs->xSetSystemCall(vfs, "pread", (sqlite3_syscall_ptr)read_at);
    vfs->xSetSystemCall(vfs, "pread64", (sqlite3_syscall_ptr)read_at);
}

void csqlite_begin_cached_reads(void) {
    takes_cached_only = 1;
    obstacle = 0;
}

int csqlite_end_cached_reads(void) {
    takes_cached_only = 0;
    return obstacle;
}
