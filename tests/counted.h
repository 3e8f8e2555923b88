/* counted.h - arithmetic that counts itself: each call performs one operation and adds one to one term.
 *
 * What is one operation is the rule of the cost model's document: a multiplication, an addition or subtraction, a division, a maximum, a
 * root, an exponential (or tanh, erf), a rounding, a change of sign. Copies, comparisons of indices and magnitudes |x| are none. */
#ifndef TALLY_TESTS_COUNTED_H
#define TALLY_TESTS_COUNTED_H

#include <math.h>

#include "kernels/terms.h"

typedef struct {
    uint64_t *n; /* [N_TERMS] */
    term to;     /* where the next operations are counted */
} counter;

static inline double did(counter *c, double result) {
    c->n[c->to]++;
    return result;
}
static inline double mul(counter *c, double a, double b) {
    return did(c, a * b);
}
static inline double add(counter *c, double a, double b) {
    return did(c, a + b);
}
static inline double sub(counter *c, double a, double b) {
    return did(c, a - b);
}
static inline double divide(counter *c, double a, double b) {
    return did(c, a / b);
}
static inline double negate(counter *c, double a) {
    return did(c, -a);
}
static inline double larger(counter *c, double a, double b) {
    return did(c, a > b ? a : b);
}
static inline double root(counter *c, double a) {
    return did(c, sqrt(a));
}
static inline double power_of_e(counter *c, double a) {
    return did(c, exp(a));
}
static inline double tangent_h(counter *c, double a) {
    return did(c, tanh(a));
}
static inline double error_function(counter *c, double a) {
    return did(c, erf(a));
}
static inline double round_even(counter *c, double a) {
    return did(c, rint(a));
}

#endif
