/* Faults at the border between a program and the kernel: loaded with LD_PRELOAD, directed through a mapped file.
 *
 * Counts the calls that touch files below one directory, and makes the N-th of the chosen kinds (or each from the N-th
 * on) fail, be cut short, or be the last thing the process does. It also shifts the civil clock and shows another boot
 * id. Everything else passes unchanged: sockets, event descriptors, files elsewhere. What a program does through a
 * shared mapping is no call and is not seen here.
 *
 * Environment: TORTURE_CONTROL names the file that `faults.py` has made, TORTURE_ROOT the directory. The layout of the
 * file is the enumeration below, 64-bit words. Thread-safe: words are read and counted atomically.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum word {
    ACTION, KINDS, WHEN, FOREVER, ERRNO, COUNT, HITS, SHIFT_NS, BOOT_SHOWN,
    BOOT_TEXT = 10,
    TOTALS = 20,
    WORDS = 64
};
enum action { NOTHING, KILL, FAIL, SHORT, TEAR };
enum kind { OPEN, READ, WRITE, SYNC, RENAME, UNLINK, TRUNCATE, ALLOCATE, MAKE };
#define DESCRIPTORS 65536
#define CUT_SHORT (-1)
#define CUT_AND_DIE (-2)

static volatile int64_t *words;
static char root[PATH_MAX];
static size_t root_bytes;
static unsigned char is_ours[DESCRIPTORS];

__attribute__((constructor)) static void attach(void) {
    const char *control = getenv("TORTURE_CONTROL"), *directory = getenv("TORTURE_ROOT");
    if (!control || !directory) return;
    int file = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) _exit(99);
    void *mapped = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (mapped == MAP_FAILED) _exit(99);
    strncpy(root, directory, sizeof root - 1);
    root_bytes = strlen(root);
    words = mapped;
}

/* What is to happen to this call: 0, an errno, CUT_SHORT or CUT_AND_DIE. */
static int verdict(enum kind kind) {
    __atomic_add_fetch(&words[TOTALS + kind], 1, __ATOMIC_SEQ_CST);
    int64_t action = __atomic_load_n(&words[ACTION], __ATOMIC_SEQ_CST);
    if (action == NOTHING || !(words[KINDS] >> kind & 1)) return 0;
    int64_t number = __atomic_add_fetch(&words[COUNT], 1, __ATOMIC_SEQ_CST);
    if (number != words[WHEN] && !(words[FOREVER] && number > words[WHEN])) return 0;
    __atomic_add_fetch(&words[HITS], 1, __ATOMIC_SEQ_CST);
    if (action == KILL) kill(getpid(), SIGKILL);
    if (action == TEAR) return CUT_AND_DIE;
    return action == SHORT ? CUT_SHORT : (int)words[ERRNO];
}

static int is_below_root(const char *path) {
    return root_bytes && strncmp(path, root, root_bytes) == 0 && (path[root_bytes] == '/' || !path[root_bytes]);
}

static int names_ours(int directory, const char *path) {
    if (!words || !path) return 0;
    if (path[0] == '/') return is_below_root(path);
    return directory >= 0 && directory < DESCRIPTORS && is_ours[directory];
}

/* A number may have gone to something else through closedir(3), which closes on its own: that is no file of ours. */
static int is_file_of_ours(int file) {
    struct stat status;
    if (!words || file < 0 || file >= DESCRIPTORS || !is_ours[file]) return 0;
    return syscall(SYS_fstat, file, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
}

static int failed(int code) {
    errno = code;
    return -1;
}

/* Fails where the call would be carried out on something of ours and is to fail; for calls that cannot be cut. */
#define FAULT(condition, kind)                                     \
    do {                                                           \
        int code_ = (condition) ? verdict(kind) : 0;               \
        if (code_ > 0) return failed(code_);                       \
    } while (0)

static int open_any(int directory, const char *path, int flags, mode_t mode) {
    int mine = names_ours(directory, path);
    if (words && words[BOOT_SHOWN] && path && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0) {
        int file = (int)syscall(SYS_memfd_create, "boot_id", 0);
        if (file >= 0) {
            syscall(SYS_write, file, (const void *)&words[BOOT_TEXT], 37);
            syscall(SYS_lseek, file, 0, SEEK_SET);
        }
        return file;
    }
    FAULT(mine, OPEN);
    int file = (int)syscall(SYS_openat, directory, path, flags, mode);
    if (file >= 0 && file < DESCRIPTORS) is_ours[file] = (unsigned char)mine;
    return file;
}

static mode_t mode_of(int flags, va_list list) {
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? (mode_t)va_arg(list, int) : 0;
}

#define OPENER(name, parameters, directory)          \
    int name parameters {                            \
        va_list list;                                \
        va_start(list, flags);                       \
        mode_t mode = mode_of(flags, list);          \
        va_end(list);                                \
        return open_any(directory, path, flags, mode); \
    }
OPENER(open, (const char *path, int flags, ...), AT_FDCWD)
OPENER(open64, (const char *path, int flags, ...), AT_FDCWD)
OPENER(openat, (int directory, const char *path, int flags, ...), directory)
OPENER(openat64, (int directory, const char *path, int flags, ...), directory)

int close(int file) {
    if (file >= 0 && file < DESCRIPTORS) is_ours[file] = 0;
    return (int)syscall(SYS_close, file);
}

ssize_t read(int file, void *buffer, size_t count) {
    FAULT(is_file_of_ours(file), READ);
    return syscall(SYS_read, file, buffer, count);
}

static ssize_t pread_any(int file, void *buffer, size_t count, off_t at) {
    int code = is_file_of_ours(file) ? verdict(READ) : 0;
    if (code > 0) return failed(code);
    return syscall(SYS_pread64, file, buffer, code == CUT_SHORT ? count / 2 : count, at);
}
ssize_t pread(int file, void *buffer, size_t count, off_t at) { return pread_any(file, buffer, count, at); }
ssize_t pread64(int file, void *buffer, size_t count, off64_t at) { return pread_any(file, buffer, count, at); }
ssize_t preadv2(int file, const struct iovec *parts, int count, off_t at, int flags) {
    int code = is_file_of_ours(file) ? verdict(READ) : 0;
    if (code > 0) return failed(code);
    return syscall(SYS_preadv2, file, parts, count, at, 0, flags);
}

/* The bytes to write of `count`; 0 with errno set when the call fails. */
static size_t allowed(int file, size_t count, int *dies) {
    int code = is_file_of_ours(file) ? verdict(WRITE) : 0;
    if (code > 0) return (size_t)failed(code);
    *dies = code == CUT_AND_DIE;
    return code < 0 ? (count + 1) / 2 : count;
}

ssize_t write(int file, const void *buffer, size_t count) {
    int dies = 0;
    size_t some = allowed(file, count, &dies);
    if (some == (size_t)-1) return -1;
    ssize_t done = syscall(SYS_write, file, buffer, some);
    if (dies) kill(getpid(), SIGKILL);
    return done;
}

static ssize_t pwrite_any(int file, const void *buffer, size_t count, off_t at) {
    int dies = 0;
    size_t some = allowed(file, count, &dies);
    if (some == (size_t)-1) return -1;
    ssize_t done = syscall(SYS_pwrite64, file, buffer, some, at);
    if (dies) kill(getpid(), SIGKILL);
    return done;
}
ssize_t pwrite(int file, const void *buffer, size_t count, off_t at) { return pwrite_any(file, buffer, count, at); }
ssize_t pwrite64(int file, const void *buffer, size_t count, off64_t at) { return pwrite_any(file, buffer, count, at); }

static ssize_t writev_any(int file, const struct iovec *parts, int count, off_t at, int is_placed) {
    int dies = 0;
    size_t some = allowed(file, (size_t)count, &dies);
    if (some == (size_t)-1) return -1;
    ssize_t done = is_placed ? syscall(SYS_pwritev, file, parts, some, at, 0) : syscall(SYS_writev, file, parts, some);
    if (dies) kill(getpid(), SIGKILL);
    return done;
}
ssize_t writev(int file, const struct iovec *parts, int count) { return writev_any(file, parts, count, 0, 0); }
ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) {
    return writev_any(file, parts, count, at, 1);
}

int fsync(int file) {
    FAULT(is_file_of_ours(file), SYNC);
    return (int)syscall(SYS_fsync, file);
}
int fdatasync(int file) {
    FAULT(is_file_of_ours(file), SYNC);
    return (int)syscall(SYS_fdatasync, file);
}
int msync(void *start, size_t count, int flags) {
    /* The daemon maps nothing but its journal, and synchronises nothing else this way. */
    FAULT(words != NULL, SYNC);
    return (int)syscall(SYS_msync, start, count, flags);
}

static int rename_any(int from, const char *old, int to, const char *new, unsigned flags) {
    FAULT(names_ours(from, old) || names_ours(to, new), RENAME);
    return (int)syscall(SYS_renameat2, from, old, to, new, flags);
}
int rename(const char *old, const char *new) { return rename_any(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int to, const char *new) { return rename_any(from, old, to, new, 0); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    return rename_any(from, old, to, new, flags);
}

int unlinkat(int directory, const char *path, int flags) {
    FAULT(names_ours(directory, path), UNLINK);
    return (int)syscall(SYS_unlinkat, directory, path, flags);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

static int ftruncate_any(int file, off_t bytes) {
    FAULT(is_file_of_ours(file), TRUNCATE);
    return (int)syscall(SYS_ftruncate, file, bytes);
}
int ftruncate(int file, off_t bytes) { return ftruncate_any(file, bytes); }
int ftruncate64(int file, off64_t bytes) { return ftruncate_any(file, bytes); }

static int allocate_any(int file, off_t from, off_t bytes) {
    int code = is_file_of_ours(file) ? verdict(ALLOCATE) : 0;
    if (code > 0) return code;
    return syscall(SYS_fallocate, file, 0, from, bytes) == 0 ? 0 : errno;
}
int posix_fallocate(int file, off_t from, off_t bytes) { return allocate_any(file, from, bytes); }
int posix_fallocate64(int file, off64_t from, off64_t bytes) { return allocate_any(file, from, bytes); }

int mkdirat(int directory, const char *path, mode_t mode) {
    FAULT(names_ours(directory, path), MAKE);
    return (int)syscall(SYS_mkdirat, directory, path, mode);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* The civil clock; the boot clock and the monotonic one never jump. */
int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*kernels)(clockid_t, struct timespec *);
    if (!kernels) kernels = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = kernels(clock, time);
    if (result != 0 || !words || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
    __int128 now = (__int128)time->tv_sec * 1000000000 + time->tv_nsec + words[SHIFT_NS];
    time->tv_sec = (time_t)(now / 1000000000);
    time->tv_nsec = (long)(now % 1000000000);
    return 0;
}
time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *restrict result, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    result->tv_sec = now.tv_sec;
    result->tv_usec = now.tv_nsec / 1000;
    return 0;
}
