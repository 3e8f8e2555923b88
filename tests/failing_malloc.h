/* failing_malloc.h - malloc and its family for one test program, which count blocks and fail when they are told to. Include it in the
 * program's one source file, after the system's headers. Under a sanitizer, or without glibc, OWN_MALLOC is 0 and nothing is replaced. */
#ifndef TALLY_TESTS_FAILING_MALLOC_H
#define TALLY_TESTS_FAILING_MALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OWN_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_MALLOC 0
#endif
#endif
#ifndef OWN_MALLOC
#define OWN_MALLOC 1
#endif

static long countdown;   /* 0: nothing fails; n: the n-th allocation from now fails */
static long live;        /* blocks, since counting started */
static long allocations; /* taken, since counting started */
static int counting;

#if OWN_MALLOC
/* These stand in front of the C library's own for the whole program, other libraries included. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static int fails(void) {
    return countdown > 0 && --countdown == 0;
}

static void *taken(void *p) {
    if (counting && p != NULL) live++, allocations++;
    return p;
}

void *malloc(size_t n) {
    return fails() ? NULL : taken(__libc_malloc(n));
}

void *calloc(size_t n, size_t size) {
    return fails() ? NULL : taken(__libc_calloc(n, size));
}

void *realloc(void *old, size_t n) {
    if (fails()) return NULL;
    void *p = __libc_realloc(old, n);
    return old == NULL ? taken(p) : p;
}

void free(void *p) {
    if (counting && p != NULL) live--;
    __libc_free(p);
}
#endif

/* The test should be skipped, and the reason has been printed. */
static inline bool not_possible(void) {
    (void)countdown, (void)live, (void)allocations, (void)counting;
    if (OWN_MALLOC) return false;
    printf("SKIP: allocations are not failed under a sanitizer\n");
    return true;
}

#endif
