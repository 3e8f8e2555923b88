/* kernels_avx512.c - the kernels in AVX-512 with VNNI: 32 registers of 16 floats. */
#if defined(__x86_64__)

#include "kernels/vector_avx512.h"

/* 24 sums, 4 weights, 1 x. One row: 8 chunks, or each multiply-add would wait for the one before. */
enum { TILE_ROWS = 6, TILE_MOST_CHUNKS = 8 };
#define TILE_CHUNKS(n_t) ((n_t) == 1 ? 8 : 4)
enum { Q8_TILE_ROWS = 4, Q8_TILE_PANELS = 4 };
#define Q8_PANELS(n_t) 4
enum { PREFETCH_ROWS = 6, PREFETCH_BYTES = 1536, BLOCK_K = 256 };

#include "kernels/simd_set.h"

extern const kernel_set kernels_avx512;
const kernel_set kernels_avx512 = KERNEL_SET("avx512");

#else
typedef int no_avx512_here;
#endif
