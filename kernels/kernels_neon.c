/* kernels_neon.c - the kernels in NEON: 32 registers of 4 floats, so a chunk of outputs takes four. */
#if defined(__aarch64__)

#include "kernels/vector_neon.h"

/* At most 24 registers of sums, 4 of weights, 1 x. */
enum { TILE_ROWS = 6, TILE_MOST_CHUNKS = 4 };
#define TILE_CHUNKS(n_t) ((n_t) == 1 ? 4 : (n_t) <= 3 ? 2 : 1)
enum { Q8_TILE_ROWS = 4, Q8_TILE_PANELS = 2 };
#define Q8_PANELS(n_t) ((n_t) == 1 ? 2 : 1)
enum { PREFETCH_ROWS = 6, PREFETCH_BYTES = 1024, BLOCK_K = 256, BLOCK_CHUNKS = 4 };

#include "kernels/simd_set.h"

extern const kernel_set kernels_neon;
const kernel_set kernels_neon = KERNEL_SET("neon", product_q8);

#else
typedef int no_neon_here;
#endif
