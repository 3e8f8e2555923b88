/* kernels_avx2.c - the kernels in AVX2, FMA and F16C: 16 registers of 8 floats, so a chunk of outputs takes two. */
#if defined(__x86_64__)

#include "kernels/vector_avx2.h"

/* At most 12 registers of sums, 2 of weights, 1 x. */
enum { TILE_ROWS = 6, TILE_MOST_CHUNKS = 4 };
#define TILE_CHUNKS(n_t) ((n_t) == 1 ? 4 : (n_t) <= 3 ? 2 : 1)
enum { Q8_TILE_ROWS = 4, Q8_TILE_PANELS = 4 };
#define Q8_PANELS(n_t) ((n_t) == 1 ? 4 : 1)
enum { PREFETCH_ROWS = 2, PREFETCH_BYTES = 1536, BLOCK_K = 256, BLOCK_CHUNKS = 4 };

#include "kernels/simd_set.h"

extern const kernel_set kernels_avx2;
const kernel_set kernels_avx2 = KERNEL_SET("avx2", product_q8);

#else
typedef int no_avx2_here;
#endif
