/* Faults of a disk, for one program: a library that stands before the C library's file calls (LD_PRELOAD).
 *
 * Only files below the folder $CHAOS_UNDER are concerned. How often a call fails, and in which way, stands in the file $CHAOS_CONTROL, which
 * bench/chaos/run changes while the program runs; the same file counts the faults. Without these variables every call goes through. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The order of bench/chaos/faults.py. */
enum fault { WRITE_ERROR, READ_ERROR, SHORT_WRITE, FAILED_SYNC, NO_SPACE, FAILED_RENAME, FAULTS };

struct control {
    _Atomic uint32_t seed;
    _Atomic uint32_t share[FAULTS]; /* of 65536 calls */
    _Atomic uint64_t count[FAULTS];
};

#define MOST_FILES 65536

static struct control *control;
static const char *under;
static _Atomic unsigned char is_ours[MOST_FILES];

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CHAOS_CONTROL");
    under = getenv("CHAOS_UNDER");
    if (!path || !under) return;
    int file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR);
    if (file < 0) return;
    void *place = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (place != MAP_FAILED) control = place;
}

/* splitmix64: every thread has numbers of its own, which follow from the seed, its id and its calls. */
static uint64_t next_random(void) {
    static _Thread_local uint64_t state;
    if (!state) state = ((uint64_t)atomic_load(&control->seed) << 32) ^ ((uint64_t)syscall(SYS_gettid) * 0x9e3779b9u) ^ 1;
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int happens(enum fault fault) {
    if (!control) return 0;
    uint32_t share = atomic_load(&control->share[fault]);
    if (!share || (next_random() & 0xffff) >= share) return 0;
    atomic_fetch_add(&control->count[fault], 1);
    return 1;
}

static int concerns(int file) { return control && file >= 0 && file < MOST_FILES && atomic_load(&is_ours[file]); }

static int concerns_path(const char *path) { return control && path && strncmp(path, under, strlen(under)) == 0; }

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int opened(int file, const char *path) {
    if (file >= 0 && file < MOST_FILES) atomic_store(&is_ours[file], concerns_path(path));
    return file;
}

/* A new file needs space, too. */
static int may_open(const char *path, int flags) {
    if ((flags & O_CREAT) && concerns_path(path) && access(path, F_OK) != 0 && happens(NO_SPACE)) {
        errno = ENOSPC;
        return 0;
    }
    return 1;
}

static mode_t mode_of(int flags, va_list rest) { return (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; }

#define OPEN(name)                                                              \
    int name(const char *path, int flags, ...) {                                \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        mode_t mode = mode_of(flags, rest);                                     \
        va_end(rest);                                                           \
        if (!may_open(path, flags)) return -1;                                  \
        return opened(NEXT(name)(path, flags, mode), path);                     \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                                           \
    int name(int folder, const char *path, int flags, ...) {                    \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        mode_t mode = mode_of(flags, rest);                                     \
        va_end(rest);                                                           \
        if (!may_open(path, flags)) return -1;                                  \
        return opened(NEXT(name)(folder, path, flags, mode), path);             \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

int close(int file) {
    if (file >= 0 && file < MOST_FILES) atomic_store(&is_ours[file], 0);
    return NEXT(close)(file);
}

/* How many bytes may be written: -1 none, with errno. */
static ssize_t may_write(int file, size_t bytes) {
    if (!concerns(file)) return bytes;
    if (happens(NO_SPACE)) {
        errno = ENOSPC;
        return -1;
    }
    if (happens(WRITE_ERROR)) {
        errno = EIO;
        return -1;
    }
    return bytes > 1 && happens(SHORT_WRITE) ? (ssize_t)(bytes / 2) : (ssize_t)bytes;
}

ssize_t write(int file, const void *from, size_t bytes) {
    ssize_t may = may_write(file, bytes);
    return may < 0 ? -1 : NEXT(write)(file, from, may);
}

#define PWRITE(name)                                                            \
    ssize_t name(int file, const void *from, size_t bytes, off_t place) {       \
        ssize_t may = may_write(file, bytes);                                   \
        return may < 0 ? -1 : NEXT(name)(file, from, may, place);               \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

/* The first piece stands for a short write. */
ssize_t writev(int file, const struct iovec *pieces, int count) {
    ssize_t may = may_write(file, 2);
    if (may < 0) return -1;
    return NEXT(writev)(file, pieces, may < 2 && count > 1 ? 1 : count);
}

static int may_read(int file) {
    if (!concerns(file) || !happens(READ_ERROR)) return 1;
    errno = EIO;
    return 0;
}

ssize_t read(int file, void *to, size_t bytes) { return may_read(file) ? NEXT(read)(file, to, bytes) : -1; }

#define PREAD(name) \
    ssize_t name(int file, void *to, size_t bytes, off_t place) { return may_read(file) ? NEXT(name)(file, to, bytes, place) : -1; }
PREAD(pread)
PREAD(pread64)

/* The bytes may or may not be on the disk then: here they are. */
static int after_sync(int file, int done) {
    if (done != 0 || !concerns(file) || !happens(FAILED_SYNC)) return done;
    errno = EIO;
    return -1;
}

int fsync(int file) { return after_sync(file, NEXT(fsync)(file)); }
int fdatasync(int file) { return after_sync(file, NEXT(fdatasync)(file)); }

int rename(const char *from, const char *to) {
    if (concerns_path(to) && happens(FAILED_RENAME)) {
        errno = EIO;
        return -1;
    }
    return NEXT(rename)(from, to);
}
