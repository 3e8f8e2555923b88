/* guarded.h - memory whose last byte lies before a page that cannot be touched, and whose first lies after one: a kernel that reads or
 * writes past either end of what it was given stops the test. */
#ifndef TALLY_TESTS_GUARDED_H
#define TALLY_TESTS_GUARDED_H

#include <stddef.h>

typedef struct {
    unsigned char *base;
    size_t room; /* bytes between the two guards */
} guarded;

/* Fails the running test where there is no memory. */
guarded guarded_make(size_t room);
void guarded_free(guarded *g);
/* `bytes` of it that end at the upper guard; at most room. */
void *guarded_end(const guarded *g, size_t bytes);

#endif
