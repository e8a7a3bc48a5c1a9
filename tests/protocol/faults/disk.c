/* A disk that fails: some calls on some files give an error, from the n-th on. For LD_PRELOAD, in tests.

   OPD_FAULT_PATH    files whose name holds this text
   OPD_FAULT_CALL    open, write, fsync or read
   OPD_FAULT_ERRNO   the number that the call fails with; 0: a read succeeds and gives other bytes
   OPD_FAULT_FROM    the first of these calls that fails, counted from 1 in each process; 1 when it isn't set
   OPD_FAULT_LAST    the last that fails; none when it isn't set
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long number(const char *name, long otherwise) {
    const char *value = getenv(name);
    return value && *value ? strtol(value, NULL, 10) : otherwise;
}

static int fails(const char *call, const char *path) {
    static long calls;
    const char *asked = getenv("OPD_FAULT_CALL"), *part = getenv("OPD_FAULT_PATH");
    if (!asked || !part || !path || strcmp(asked, call) != 0 || !strstr(path, part)) return 0;
    long now = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    return now >= number("OPD_FAULT_FROM", 1) && now <= number("OPD_FAULT_LAST", LONG_MAX);
}

static int descriptor_fails(const char *call, int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return fails(call, path);
}

#define FAIL_IF(condition) \
    do { if (condition) { errno = (int)number("OPD_FAULT_ERRNO", EIO); return -1; } } while (0)
#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        NEXT(name); FAIL_IF(fails("open", path)); return next(path, flags, mode); }
#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        NEXT(name); FAIL_IF(fails("open", path)); return next(folder, path, flags, mode); }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void *bytes, size_t size) {
    NEXT(write); FAIL_IF(descriptor_fails("write", file)); return next(file, bytes, size);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
    NEXT(writev); FAIL_IF(descriptor_fails("write", file)); return next(file, parts, count);
}
ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t offset) {
    NEXT(pwrite64); FAIL_IF(descriptor_fails("write", file)); return next(file, bytes, size, offset);
}
int fsync(int file) {
    NEXT(fsync); FAIL_IF(descriptor_fails("fsync", file)); return next(file);
}
int fdatasync(int file) {
    NEXT(fdatasync); FAIL_IF(descriptor_fails("fsync", file)); return next(file);
}
ssize_t pread64(int file, void *bytes, size_t size, off64_t offset) {
    NEXT(pread64);
    if (!descriptor_fails("read", file)) return next(file, bytes, size, offset);
    FAIL_IF(number("OPD_FAULT_ERRNO", EIO) != 0);
    ssize_t found = next(file, bytes, size, offset);
    if (found > 0) ((unsigned char *)bytes)[0] ^= 1;
    return found;
}
