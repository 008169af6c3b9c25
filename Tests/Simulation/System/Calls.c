/* The C library's file calls, for the simulated disk and, where it is not meant, for the kernel's.
 *
 * A program's own definitions come before the library's, also for the libraries that it loads: so the engine and SQLite
 * run unchanged. Descriptors from `FIRST` on are the disk's. Locks of fcntl(2) are a process' own and always free;
 * flock(2) is kept for each file. What waits or sleeps asks the hook to let others run. x86_64 and arm64 Linux.
 */
#define _GNU_SOURCE
#include "Disk.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FIRST (1 << 20)
#define DESCRIPTORS 4096

struct sink {
    unsigned char *bytes;
    size_t count, capacity;
    int64_t room;
};

static struct { struct inode *inode; struct sink *sink; int64_t at; } open_files[DESCRIPTORS];
static sim_hook hook;
static char boot_name[64];
static uint64_t random_state;

void sim_set_hook(sim_hook new_hook) { hook = new_hook; }

void sim_boot(const char *name, uint64_t seed) {
    memset(boot_name, 0, sizeof boot_name);
    strncpy(boot_name, name, sizeof boot_name - 1);
    random_state = seed;
}

static int failed(int code) {
    errno = code;
    return -1;
}

static int is_ours(int file) {
    if (file < FIRST || file >= FIRST + DESCRIPTORS) return 0;
    return open_files[file - FIRST].inode || open_files[file - FIRST].sink;
}

static struct inode *inode_of(int file) { return is_ours(file) ? open_files[file - FIRST].inode : NULL; }

static int64_t ask(int call, const char *name, int64_t offset, int64_t count) {
    return hook ? hook(call, name, offset, count) : count;
}

/* Fails where the hook says so; for calls that cannot be cut. */
#define ASK(call, name, offset, count)                             \
    do {                                                           \
        int64_t said_ = ask(call, name, offset, count);            \
        if (said_ < 0) return failed((int)-said_);                 \
    } while (0)

/* MARK: paths */

static int is_path(int directory, const char *path) {
    if (!path) return 0;
    if (path[0] == '/') return strncmp(path, "/sim", 4) == 0 && (path[4] == '/' || !path[4]);
    return is_ours(directory);
}

/* Walks to the last name of a path; `name` gets it, empty for the directory itself. NULL with errno if that fails. */
static struct inode *walk(int directory, const char *path, char name[NAME_BYTES]) {
    struct inode *at = sim_disk->root;
    if (path[0] == '/') path += 4; else at = inode_of(directory);
    name[0] = 0;
    while (at) {
        while (*path == '/') path++;
        size_t count = strcspn(path, "/");
        if (count >= NAME_BYTES) return errno = ENAMETOOLONG, NULL;
        if (count == 0) return at;
        memcpy(name, path, count);
        name[count] = 0;
        path += count;
        if (strcmp(name, ".") == 0) { name[0] = 0; continue; }
        if (!path[strspn(path, "/")]) return at->is_directory ? at : (errno = ENOTDIR, NULL);
        at = at->is_directory ? sim_find(at, name) : (errno = ENOTDIR, NULL);
        name[0] = 0;
        if (!at) errno = ENOENT;
    }
    return NULL;
}

static struct inode *look_up(int directory, const char *path) {
    char name[NAME_BYTES];
    struct inode *parent = walk(directory, path, name);
    if (!parent || !name[0]) return parent;
    struct inode *found = sim_find(parent, name);
    if (!found) errno = ENOENT;
    return found;
}

/* MARK: opening and closing */

static int place(struct inode *inode, struct sink *sink) {
    for (int i = 0; i < DESCRIPTORS; i++) {
        if (open_files[i].inode || open_files[i].sink) continue;
        open_files[i].inode = inode;
        open_files[i].sink = sink;
        open_files[i].at = 0;
        if (inode) inode->opens++;
        if (inode && inode->disk) inode->disk->opens++;
        return FIRST + i;
    }
    return failed(EMFILE);
}

static int create(struct inode *parent, const char *name, int is_directory) {
    ASK(is_directory ? SIM_MAKE : SIM_CREATE, name, 0, 0);
    if (sim_find(parent, name)) return 0;
    if (sim_disk->files >= sim_disk->files_max) return failed(ENOSPC);
    sim_make(parent, name, is_directory);
    return 0;
}

static int open_simulated(int directory, const char *path, int flags) {
    char name[NAME_BYTES];
    struct inode *parent = walk(directory, path, name);
    if (!parent) return -1;
    struct inode *found = name[0] ? sim_find(parent, name) : parent;
    if (found && (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) return failed(EEXIST);
    if (!found) {
        if (!(flags & O_CREAT)) return failed(ENOENT);
        if (create(parent, name, 0) != 0) return -1;
        found = sim_find(parent, name);
    } else {
        ASK(SIM_OPEN, found->name, 0, 0);
    }
    if (flags & O_DIRECTORY && !found->is_directory) return failed(ENOTDIR);
    if (found->is_directory && (flags & O_ACCMODE) != O_RDONLY) return failed(EISDIR);
    if (flags & O_TRUNC && (flags & O_ACCMODE) != O_RDONLY) sim_resize(found, 0);
    return place(found, NULL);
}

static int open_any(int directory, const char *path, int flags, mode_t mode) {
    if (hook && path && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
        return place(sim_special(boot_name, 0), NULL);
    if (hook && path && strcmp(path, "/dev/urandom") == 0) return place(sim_special("", 1), NULL);
    if (is_path(directory, path)) return open_simulated(directory, path, flags);
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}

static mode_t mode_of(int flags, va_list list) {
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? (mode_t)va_arg(list, int) : 0;
}

#define OPENER(name, parameters, directory)            \
    int name parameters {                              \
        va_list list;                                  \
        va_start(list, flags);                         \
        mode_t mode = mode_of(flags, list);            \
        va_end(list);                                  \
        return open_any(directory, path, flags, mode); \
    }
OPENER(open, (const char *path, int flags, ...), AT_FDCWD)
OPENER(open64, (const char *path, int flags, ...), AT_FDCWD)
OPENER(openat, (int directory, const char *path, int flags, ...), directory)
OPENER(openat64, (int directory, const char *path, int flags, ...), directory)

int close(int file) {
    struct inode *inode = inode_of(file);
    if (!inode) return (int)syscall(SYS_close, file);
    open_files[file - FIRST].inode = NULL;
    if (inode->locker == file) inode->locker = 0;
    if (inode->disk) inode->disk->opens--;
    sim_release(inode);
    return 0;
}

const char *sim_open_name(int64_t index) {
    for (int i = 0; i < DESCRIPTORS; i++) {
        struct inode *inode = open_files[i].inode;
        if (inode && inode->disk && index-- == 0) return inode->name;
    }
    return NULL;
}

/* MARK: reading and writing */

static ssize_t read_at(struct inode *inode, void *buffer, size_t count, int64_t at) {
    if (inode->is_directory) return failed(EISDIR);
    if (inode->is_random) {
        for (size_t i = 0; i < count; i++) {
            random_state = random_state * 6364136223846793005u + 1442695040888963407u;
            ((unsigned char *)buffer)[i] = (unsigned char)(random_state >> 56);
        }
        return (ssize_t)count;
    }
    if (inode->number) {
        int64_t said = ask(SIM_READ, inode->name, at, (int64_t)count);
        if (said < 0) return failed((int)-said);
        if ((size_t)said < count) count = (size_t)said;
    }
    if (at >= inode->size) return 0;
    if ((int64_t)count > inode->size - at) count = (size_t)(inode->size - at);
    memcpy(buffer, inode->bytes + at, count);
    return (ssize_t)count;
}

static ssize_t write_at(struct inode *inode, const void *buffer, size_t count, int64_t at) {
    int64_t said = ask(SIM_WRITE, inode->name, at, (int64_t)count);
    if (said < 0) return failed((int)-said);
    if ((size_t)said < count) count = (size_t)said;
    if (at + (int64_t)count > inode->size) {
        int code = sim_resize(inode, at + (int64_t)count);
        if (code != 0) return failed(code);
    }
    memcpy(inode->bytes + at, buffer, count);
    return (ssize_t)count;
}

ssize_t read(int file, void *buffer, size_t count) {
    struct inode *inode = inode_of(file);
    if (!inode) return syscall(SYS_read, file, buffer, count);
    ssize_t done = read_at(inode, buffer, count, open_files[file - FIRST].at);
    if (done > 0) open_files[file - FIRST].at += done;
    return done;
}

ssize_t write(int file, const void *buffer, size_t count) {
    struct inode *inode = inode_of(file);
    if (!inode) return syscall(SYS_write, file, buffer, count);
    ssize_t done = write_at(inode, buffer, count, open_files[file - FIRST].at);
    if (done > 0) open_files[file - FIRST].at += done;
    return done;
}

ssize_t pread64(int file, void *buffer, size_t count, off64_t at) {
    struct inode *inode = inode_of(file);
    return inode ? read_at(inode, buffer, count, at) : syscall(SYS_pread64, file, buffer, count, at);
}
ssize_t pread(int file, void *buffer, size_t count, off_t at) { return pread64(file, buffer, count, at); }

/* Reads that must not wait: of one part, as SQLite's are; here nothing is ever far away. */
ssize_t preadv2(int file, const struct iovec *parts, int count, off_t at, int flags) {
    if (count == 1) return pread64(file, parts->iov_base, parts->iov_len, at);
    return syscall(SYS_preadv2, file, parts, count, at, 0, flags);
}

ssize_t pwrite64(int file, const void *buffer, size_t count, off64_t at) {
    struct inode *inode = inode_of(file);
    return inode ? write_at(inode, buffer, count, at) : syscall(SYS_pwrite64, file, buffer, count, at);
}
ssize_t pwrite(int file, const void *buffer, size_t count, off_t at) { return pwrite64(file, buffer, count, at); }

static int sync_any(int file, long number) {
    struct inode *inode = inode_of(file);
    if (!inode) return (int)syscall(number, file);
    ASK(SIM_SYNC, inode->name, 0, 0);
    sim_sync_inode(inode);
    return 0;
}
int fsync(int file) { return sync_any(file, SYS_fsync); }
int fdatasync(int file) { return sync_any(file, SYS_fdatasync); }

int ftruncate64(int file, off64_t bytes) {
    struct inode *inode = inode_of(file);
    if (!inode) return (int)syscall(SYS_ftruncate, file, bytes);
    ASK(SIM_TRUNCATE, inode->name, bytes, 0);
    int code = sim_resize(inode, bytes);
    return code ? failed(code) : 0;
}
int ftruncate(int file, off_t bytes) { return ftruncate64(file, bytes); }

int posix_fallocate64(int file, off64_t from, off64_t bytes) {
    struct inode *inode = inode_of(file);
    if (!inode) return syscall(SYS_fallocate, file, 0, from, bytes) == 0 ? 0 : errno;
    int64_t said = ask(SIM_ALLOCATE, inode->name, from, bytes);
    if (said < 0) return (int)-said;
    return from + bytes > inode->size ? sim_resize(inode, from + bytes) : 0;
}
int posix_fallocate(int file, off_t from, off_t bytes) { return posix_fallocate64(file, from, bytes); }

/* MARK: names */

int mkdirat(int directory, const char *path, mode_t mode) {
    if (!is_path(directory, path)) return (int)syscall(SYS_mkdirat, directory, path, mode);
    char name[NAME_BYTES];
    struct inode *parent = walk(directory, path, name);
    if (!parent) return -1;
    if (!name[0] || sim_find(parent, name)) return failed(EEXIST);
    return create(parent, name, 1);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int unlinkat(int directory, const char *path, int flags) {
    if (!is_path(directory, path)) return (int)syscall(SYS_unlinkat, directory, path, flags);
    char name[NAME_BYTES];
    struct inode *parent = walk(directory, path, name);
    if (!parent) return -1;
    if (!sim_find(parent, name)) return failed(ENOENT);
    ASK(SIM_UNLINK, name, 0, 0);
    struct inode *found = sim_find(parent, name);
    if (!found) return failed(ENOENT);
    if (!(flags & AT_REMOVEDIR) != !found->is_directory) return failed(found->is_directory ? EISDIR : ENOTDIR);
    if (found->names.count) return failed(ENOTEMPTY);
    sim_remove(parent, name);
    return 0;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int renameat(int from, const char *old, int to, const char *new) {
    if (!is_path(from, old)) return (int)syscall(SYS_renameat2, from, old, to, new, 0);
    char name[NAME_BYTES], other[NAME_BYTES];
    struct inode *parent = walk(from, old, name), *target = walk(to, new, other);
    if (!parent || !target) return -1;
    if (parent != target) return failed(EXDEV);
    if (!sim_find(parent, name)) return failed(ENOENT);
    ASK(SIM_RENAME, name, 0, 0);
    sim_move(parent, name, other);
    return 0;
}
int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

static int tell(const struct inode *inode, struct stat *status) {
    memset(status, 0, sizeof *status);
    status->st_dev = inode->disk ? inode->disk->device : 1;
    status->st_ino = inode->number;
    status->st_nlink = (nlink_t)inode->links;
    status->st_mode = inode->is_directory ? S_IFDIR | 0700 : S_IFREG | 0600;
    status->st_uid = geteuid();
    status->st_gid = getegid();
    status->st_size = inode->size;
    status->st_blksize = BLOCK;
    status->st_blocks = (inode->size + BLOCK - 1) / BLOCK * (BLOCK / 512);
    return 0;
}

int fstatat(int directory, const char *restrict path, struct stat *restrict status, int flags) {
    if (flags & AT_EMPTY_PATH && !path[0] && is_ours(directory)) return tell(inode_of(directory), status);
    if (!is_path(directory, path)) return (int)syscall(SYS_newfstatat, directory, path, status, flags);
    struct inode *found = look_up(directory, path);
    return found ? tell(found, status) : -1;
}
int fstat(int file, struct stat *status) {
    struct inode *inode = inode_of(file);
    return inode ? tell(inode, status) : (int)syscall(SYS_newfstatat, file, "", status, AT_EMPTY_PATH);
}
int stat(const char *restrict path, struct stat *restrict status) { return fstatat(AT_FDCWD, path, status, 0); }
int lstat(const char *restrict path, struct stat *restrict status) {
    return fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
int fstat64(int file, struct stat64 *status) { return fstat(file, (struct stat *)status); }
int stat64(const char *restrict path, struct stat64 *restrict status) { return stat(path, (struct stat *)status); }
int lstat64(const char *restrict path, struct stat64 *restrict status) { return lstat(path, (struct stat *)status); }
int fstatat64(int directory, const char *restrict path, struct stat64 *restrict status, int flags) {
    return fstatat(directory, path, (struct stat *)status, flags);
}

int access(const char *path, int mode) {
    if (!is_path(AT_FDCWD, path)) return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
    return look_up(AT_FDCWD, path) ? 0 : -1;
}

ssize_t readlink(const char *restrict path, char *restrict buffer, size_t count) {
    if (!is_path(AT_FDCWD, path)) return syscall(SYS_readlinkat, AT_FDCWD, path, buffer, count);
    return look_up(AT_FDCWD, path) ? failed(EINVAL) : -1;
}

static void *next_of(const char *name) { return dlsym(RTLD_NEXT, name); }

char *realpath(const char *restrict path, char *restrict resolved) {
    if (is_path(AT_FDCWD, path)) {
        if (!look_up(AT_FDCWD, path)) return NULL;
        return resolved ? strcpy(resolved, path) : strdup(path);
    }
    static char *(*kernels)(const char *, char *);
    if (!kernels) kernels = (char *(*)(const char *, char *))next_of("realpath");
    return kernels(path, resolved);
}

int fstatvfs(int file, struct statvfs *status) {
    if (!is_ours(file)) {
        static int (*kernels)(int, struct statvfs *);
        if (!kernels) kernels = (int (*)(int, struct statvfs *))next_of("fstatvfs");
        return kernels(file, status);
    }
    memset(status, 0, sizeof *status);
    status->f_bsize = status->f_frsize = BLOCK;
    status->f_blocks = (fsblkcnt_t)sim_disk->blocks_max;
    int64_t left = sim_disk->blocks_max - sim_disk->blocks;
    status->f_bavail = status->f_bfree = (fsblkcnt_t)(left > 0 ? left : 0);
    return 0;
}
int fstatvfs64(int file, struct statvfs64 *status) { return fstatvfs(file, (struct statvfs *)status); }

int fchmod(int file, mode_t mode) { return is_ours(file) ? 0 : (int)syscall(SYS_fchmod, file, mode); }
int fchown(int file, uid_t user, gid_t group) {
    return is_ours(file) ? 0 : (int)syscall(SYS_fchown, file, user, group);
}

static int control(int file, int command, long argument) {
    if (!is_ours(file)) return (int)syscall(SYS_fcntl, file, command, argument);
    if (command == F_GETLK) ((struct flock *)argument)->l_type = F_UNLCK;
    return 0;
}
int fcntl(int file, int command, ...) {
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    return control(file, command, argument);
}
int fcntl64(int file, int command, ...) {
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    return control(file, command, argument);
}

int flock(int file, int operation) {
    struct inode *inode = inode_of(file);
    if (!inode) return (int)syscall(SYS_flock, file, operation);
    if (operation & LOCK_UN) {
        if (inode->locker == file) inode->locker = 0;
        return 0;
    }
    if (inode->locker && inode->locker != file) return failed(EWOULDBLOCK);
    inode->locker = file;
    return 0;
}

/* MARK: lists of names */

#define STREAMS 64
static struct stream { int is_used; int file; int count, next; char (*names)[NAME_BYTES]; struct dirent entry; }
    streams[STREAMS];

static struct stream *stream_of(DIR *directory) {
    struct stream *stream = (struct stream *)(void *)directory;
    return stream >= streams && stream < streams + STREAMS ? stream : NULL;
}

DIR *fdopendir(int file) {
    struct inode *inode = inode_of(file);
    if (!inode) {
        static DIR *(*kernels)(int);
        if (!kernels) kernels = (DIR * (*)(int)) next_of("fdopendir");
        return kernels(file);
    }
    for (int i = 0; i < STREAMS; i++) {
        struct stream *stream = &streams[i];
        if (stream->is_used) continue;
        *stream = (struct stream){.is_used = 1, .file = file, .count = inode->names.count};
        stream->names = malloc((size_t)(stream->count + 1) * NAME_BYTES);
        if (!stream->names) abort();
        for (int n = 0; n < stream->count; n++) memcpy(stream->names[n], inode->names.list[n].name, NAME_BYTES);
        return (DIR *)(void *)stream;
    }
    errno = EMFILE;
    return NULL;
}

struct dirent *readdir(DIR *directory) {
    struct stream *stream = stream_of(directory);
    if (!stream) {
        static struct dirent *(*kernels)(DIR *);
        if (!kernels) kernels = (struct dirent * (*)(DIR *)) next_of("readdir");
        return kernels(directory);
    }
    if (stream->next >= stream->count) return NULL;
    strcpy(stream->entry.d_name, stream->names[stream->next++]);
    return &stream->entry;
}

int closedir(DIR *directory) {
    struct stream *stream = stream_of(directory);
    if (!stream) {
        static int (*kernels)(DIR *);
        if (!kernels) kernels = (int (*)(DIR *))next_of("closedir");
        return kernels(directory);
    }
    free(stream->names);
    stream->is_used = 0;
    return close(stream->file);
}

/* MARK: mapped files */

void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off64_t offset) {
    struct inode *inode = inode_of(file);
    if (!inode) return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
    unsigned char *base = sim_map(inode, flags & MAP_FIXED ? address : NULL);
    if (!base) return errno = ENOMEM, MAP_FAILED;
    return base + offset;
}
void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    return mmap64(address, bytes, protection, flags, file, offset);
}
int munmap(void *address, size_t bytes) {
    return sim_mapped(address) ? 0 : (int)syscall(SYS_munmap, address, bytes);
}
int madvise(void *address, size_t bytes, int advice) {
    return sim_mapped(address) ? 0 : (int)syscall(SYS_madvise, address, bytes, advice);
}
int msync(void *address, size_t bytes, int flags) {
    struct inode *inode = sim_mapped(address);
    if (!inode) return (int)syscall(SYS_msync, address, bytes, flags);
    ASK(SIM_MSYNC, inode->name, 0, (int64_t)bytes);
    sim_sync_inode(inode);
    return 0;
}

/* MARK: waiting */

int usleep(useconds_t microseconds) {
    if (hook) return (void)ask(SIM_SLEEP, "", 0, 0), 0;
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    return (int)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, NULL);
}
int poll(struct pollfd *files, nfds_t count, int milliseconds) {
    if (hook && count == 0) return (void)ask(SIM_SLEEP, "window", 0, 0), 0;
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    return (int)syscall(SYS_ppoll, files, count, milliseconds < 0 ? NULL : &time, NULL, 0);
}
int sem_wait(sem_t *semaphore) {
    while (hook) {
        if (sem_trywait(semaphore) == 0) return 0;
        if (ask(SIM_WAIT, "", 0, 0) == 0) abort();
    }
    static int (*kernels)(sem_t *);
    if (!kernels) kernels = (int (*)(sem_t *))next_of("sem_wait");
    return kernels(semaphore);
}

/* MARK: sockets */

int32_t sim_sink(void) {
    struct sink *sink = calloc(1, sizeof *sink);
    if (!sink) abort();
    sink->room = INT64_MAX;
    return place(NULL, sink);
}

static struct sink *sink_of(int file) { return is_ours(file) ? open_files[file - FIRST].sink : NULL; }

void sim_sink_room(int32_t file, int64_t room) { sink_of(file)->room = room; }

int64_t sim_sink_take(int32_t file, void *bytes, int64_t room) {
    struct sink *sink = sink_of(file);
    size_t count = sink->count < (size_t)room ? sink->count : (size_t)room;
    memcpy(bytes, sink->bytes, count);
    memmove(sink->bytes, sink->bytes + count, sink->count - count);
    sink->count -= count;
    return (int64_t)count;
}

void sim_sink_close(int32_t file) {
    struct sink *sink = sink_of(file);
    open_files[file - FIRST].sink = NULL;
    free(sink->bytes);
    free(sink);
}

static size_t pour(struct sink *sink, const void *bytes, size_t count) {
    if ((int64_t)count > sink->room) count = (size_t)sink->room;
    if (sink->count + count > sink->capacity) {
        sink->capacity = (sink->count + count) * 2;
        sink->bytes = realloc(sink->bytes, sink->capacity);
        if (!sink->bytes) abort();
    }
    memcpy(sink->bytes + sink->count, bytes, count);
    sink->count += count;
    sink->room -= (int64_t)count;
    return count;
}

ssize_t send(int file, const void *bytes, size_t count, int flags) {
    struct sink *sink = sink_of(file);
    if (!sink) return syscall(SYS_sendto, file, bytes, count, flags, NULL, 0);
    if (sink->room == 0 && count) return failed(EAGAIN);
    return (ssize_t)pour(sink, bytes, count);
}
ssize_t sendmsg(int file, const struct msghdr *message, int flags) {
    struct sink *sink = sink_of(file);
    if (!sink) return syscall(SYS_sendmsg, file, message, flags);
    if (sink->room == 0) return failed(EAGAIN);
    size_t total = 0;
    for (size_t i = 0; i < (size_t)message->msg_iovlen; i++) {
        size_t wanted = message->msg_iov[i].iov_len, done = pour(sink, message->msg_iov[i].iov_base, wanted);
        total += done;
        if (done < wanted) break;
    }
    return (ssize_t)total;
}

/* MARK: the process */

/* How many digits it has is how many bytes the lock file gets. */
pid_t getpid(void) { return hook ? 4711 : (pid_t)syscall(SYS_getpid); }

/* MARK: random numbers */

int getentropy(void *buffer, size_t count) {
    if (!hook) return syscall(SYS_getrandom, buffer, count, 0) == (long)count ? 0 : -1;
    struct inode source = {.is_random = 1};
    return read_at(&source, buffer, count, 0) == (ssize_t)count ? 0 : -1;
}
