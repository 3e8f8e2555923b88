#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights/container.h"

status file_map(const char *path, const uint8_t **data, size_t *size, error *e) {
    *data = NULL;
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    if (fd < 0) return error_set(e, ERR_IO, "%s", strerror(errno));
    status result = OK;
    struct stat info;
    if (fstat(fd, &info) != 0) {
        result = error_set(e, ERR_IO, "%s", strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        result = error_set(e, ERR_IO, "is not a regular file");
    } else if (info.st_size > 0) {
        void *map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) {
            result = error_set(e, ERR_IO, "cannot be mapped: %s", strerror(errno));
        } else {
            *data = map;
            *size = (size_t)info.st_size;
        }
    }
    close(fd);
    return result;
}

void file_unmap(const uint8_t *data, size_t size) {
    if (data != NULL) munmap((void *)(uintptr_t)data, size);
}

/* A look at one page of a file makes its cached neighbours present too, as far as this. */
enum { FAULT_AROUND = 64 << 10 };

void file_forget(const void *map, const void *data, size_t n) {
    if (map == NULL || n == 0) return;
    size_t before = (size_t)((uintptr_t)data - (uintptr_t)map), page = (size_t)sysconf(_SC_PAGESIZE);
    if (before > FAULT_AROUND) before = FAULT_AROUND;
    uintptr_t first = ((uintptr_t)data - before) / page * page, end = (uintptr_t)data + n;
    madvise((void *)first, (size_t)(end - first), MADV_DONTNEED); /* a private mapping that nobody writes: nothing is lost */
}
