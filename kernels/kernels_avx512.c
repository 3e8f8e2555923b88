/* kernels_avx512.c - the kernels in AVX-512 with VNNI: 32 registers of 16 floats. */
#if defined(__x86_64__)

#include "kernels/amx.h"
#include "kernels/vector_avx512.h"

/* 24 sums and 4 weights, or 2, and 1 x. One row: 8 chunks, or each multiply-add would wait for the one before. Two chunks by 12 rows convert a
 * weight of fp16 once for 12 multiply-adds: 80% of the peak where 4 by 6 gives 70%, and 7 to 12 rows read the weights once. */
enum { TILE_ROWS = 12, TILE_MOST_CHUNKS = 8 };
#define TILE_CHUNKS(n_t) ((n_t) == 1 ? 8 : (n_t) <= 6 ? 4 : 2)
enum { Q8_TILE_ROWS = 4, Q8_TILE_PANELS = 4 };
#define Q8_PANELS(n_t) 4
enum { PREFETCH_ROWS = 12, PREFETCH_BYTES = 4096, BLOCK_K = 256, BLOCK_CHUNKS = 8 };

#include "kernels/simd_set.h"

/* Whole tiles of many rows go through AMX, the rows and outputs that are left through VNNI: the same bits either way. */
static void product_q8_tiles(const q8_product *p) {
    int rows = p->n_t / AMX_ROWS * AMX_ROWS, width = p->width / (16 * AMX_PANELS) * (16 * AMX_PANELS);
    if (rows == 0 || width == 0) {
        product_q8(p);
        return;
    }
    q8_product tiles = *p, right = *p, below = *p;
    tiles.n_t = rows;
    tiles.width = width;
    amx_product_q8(&tiles);
    right.n_t = rows;
    right.width -= width;
    right.y += width;
    right.w = (const unsigned char *)p->w + (size_t)(width / 16) * p->panel_stride;
    if (right.width > 0) product_q8(&right);
    below.n_t -= rows;
    below.y += (size_t)rows * p->ldy;
    below.q += (size_t)rows * p->q_stride;
    below.scale += (size_t)rows * p->scale_stride;
    below.sum += (size_t)rows * p->scale_stride;
    if (below.n_t > 0) product_q8(&below);
}

extern const kernel_set kernels_avx512, kernels_avx512_amx;
const kernel_set kernels_avx512 = KERNEL_SET("avx512", product_q8);
const kernel_set kernels_avx512_amx = KERNEL_SET("avx512", product_q8_tiles);

#else
typedef int no_avx512_here;
#endif
