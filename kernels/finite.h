/* finite.h - is every number of a row finite? By bits: an exponent of all ones is an infinity or a NaN. A sum of floats would have an order, and
 * would not be vectorised. */
#ifndef TALLY_FINITE_H
#define TALLY_FINITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool all_finite(const float *x, size_t n) {
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

#endif
