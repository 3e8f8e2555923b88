/* kernel_sets.h - the kernel sets that this machine runs, for tests that go over all of them. */
#ifndef TALLY_TESTS_KERNEL_SETS_H
#define TALLY_TESTS_KERNEL_SETS_H

#include "kernels/kernels.h"

enum { MOST_SETS = 5 };

/* Fills sets and returns how many there are; portable is the last. */
int kernel_sets(const kernel_set *sets[MOST_SETS]);

/* Uniform in [-1, 1), from a state that is moved on. */
float random_unit(uint64_t *state);
int random_below(uint64_t *state, int n);

#endif
