#include "tests/kernel_sets.h"

int kernel_sets(const kernel_set *sets[MOST_SETS]) {
    static const char *const names[MOST_SETS] = {"avx512", "avx512-vnni", "avx2", "neon", "portable"};
    int n = 0;
    for (int i = 0; i < MOST_SETS; i++) {
        sets[n] = kernel_set_choose(names[i]);
        if (sets[n] != NULL) n++;
    }
    return n;
}

static uint32_t random_bits(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

float random_unit(uint64_t *state) {
    return (float)(int32_t)random_bits(state) * 0x1p-31f;
}

int random_below(uint64_t *state, int n) {
    return (int)(random_bits(state) % (uint32_t)n);
}
