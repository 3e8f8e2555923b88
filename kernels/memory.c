#include "kernels/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGES_FROM = 8 << 20 };

void *pages_alloc(size_t bytes) {
    void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (bytes >= HUGE_PAGES_FROM) madvise(p, bytes, MADV_HUGEPAGE); /* a wish: the answer does not matter */
    return p;
}

void pages_free(void *p, size_t bytes) {
    if (p != NULL) munmap(p, bytes ? bytes : 1);
}

/* The number after `key` in a text file of the kernel; SIZE_MAX where it is not there (or is the word "max"). */
static size_t file_number(const char *path, const char *key) {
    FILE *f = fopen(path, "r");
    if (f == NULL) return SIZE_MAX;
    char line[256];
    size_t value = SIZE_MAX, n = strlen(key);
    while (value == SIZE_MAX && fgets(line, sizeof line, f) != NULL) {
        unsigned long long x;
        if (strncmp(line, key, n) == 0 && sscanf(line + n, " %llu", &x) == 1) value = (size_t)x;
    }
    fclose(f);
    return value;
}

size_t memory_available(void) {
    size_t kib = file_number("/proc/meminfo", "MemAvailable:");
    size_t free_bytes = kib > SIZE_MAX / 1024 ? SIZE_MAX : kib * 1024;
    size_t limit = file_number("/sys/fs/cgroup/memory.max", ""), used = file_number("/sys/fs/cgroup/memory.current", "");
    if (limit == SIZE_MAX || used == SIZE_MAX) return free_bytes;
    size_t left = limit > used ? limit - used : 0; /* page cache counts as used: a low estimate */
    return left < free_bytes ? left : free_bytes;
}

/* Below this a failed mmap is answer enough, and asking the system would cost more than the block. */
enum { ASK_FROM = 64 << 20 };

void *pages_take(size_t bytes) {
    return bytes >= ASK_FROM && bytes > memory_available() ? NULL : pages_alloc(bytes);
}
