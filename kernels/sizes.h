/* sizes.h - sizes that come from a file, checked in 64 bits before they are used.
 *
 * Every count, shape and offset of a checkpoint may be hostile. These return false on overflow and leave *out alone. */
#ifndef TALLY_SIZES_H
#define TALLY_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool size_mul(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool size_add(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* offset + length <= limit, without overflow: is this span inside the file? */
static inline bool span_fits(uint64_t offset, uint64_t length, uint64_t limit) {
    return offset <= limit && length <= limit - offset;
}

static inline size_t ceil_div(size_t a, size_t b) {
    return a / b + (a % b != 0);
}

static inline size_t round_up(size_t a, size_t to) {
    return ceil_div(a, to) * to;
}

#endif
