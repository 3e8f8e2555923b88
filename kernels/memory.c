#include "kernels/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

size_t memory_available(void) {
    FILE *f = fopen("/proc/meminfo", "r");
    if (f == NULL) return SIZE_MAX;
    char line[256];
    unsigned long long kib = 0;
    size_t bytes = SIZE_MAX;
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) {
            bytes = (size_t)kib * 1024;
            break;
        }
    }
    fclose(f);
    return bytes;
}

/* Below this a failed mmap is answer enough, and reading /proc would cost more than the block. */
enum { CHECK_FROM = 64 << 20, HUGE_FROM = 4 << 20 };

void *memory_take(size_t bytes) {
    if (bytes >= CHECK_FROM && bytes > memory_available()) return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (bytes >= HUGE_FROM) madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

void memory_give_back(void *memory, size_t bytes) {
    if (memory != NULL) munmap(memory, bytes);
}
