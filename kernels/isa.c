/* isa.c - which set of kernels this machine runs. A set that was not compiled in (another architecture) is not listed. */
#include <string.h>

#include "kernels/amx.h"
#include "kernels/kernels.h"

typedef struct {
    const char *name;
    const kernel_set *set;
    bool runs;
} candidate;

#if defined(__x86_64__)
extern const kernel_set kernels_avx512, kernels_avx512_amx, kernels_avx2;

/* F16C came before AVX2, and clang 14 cannot ask for it. */
static bool runs_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
/* The whole file is compiled for VNNI: the few processors with AVX-512 and without VNNI take AVX2. */
static bool runs_avx512(void) {
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}
#elif defined(__aarch64__)
extern const kernel_set kernels_neon;
#endif

const kernel_set *kernel_set_choose(const char *name) {
    /* Best first; portable runs everywhere. */
    const candidate list[] = {
#if defined(__x86_64__)
        {"avx512", &kernels_avx512_amx, runs_avx512() && amx_usable()},
        {"avx512", &kernels_avx512, runs_avx512()},
        {"avx512-vnni", &kernels_avx512, runs_avx512()}, /* without AMX where there is AMX: to compare, and to test */
        {"avx2", &kernels_avx2, runs_avx2()},
#elif defined(__aarch64__)
        {"neon", &kernels_neon, true},
#endif
        {"portable", &kernels_portable, true},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (list[i].runs && (strcmp(name, "auto") == 0 || strcmp(name, list[i].name) == 0)) return list[i].set;
    }
    return NULL;
}
