#include "tests/guarded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

guarded guarded_make(size_t room) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    room = (room + page - 1) / page * page;
    unsigned char *p = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(mprotect(p + page, room, PROT_READ | PROT_WRITE), 0);
    return (guarded){p + page, room};
}

void guarded_free(guarded *g) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    munmap(g->base - page, g->room + 2 * page);
}

void *guarded_end(const guarded *g, size_t bytes) {
    assert_true(bytes <= g->room);
    return g->base + g->room - bytes;
}
