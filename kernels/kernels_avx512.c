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

/* Rows [t, t + n_t) of outputs [at, at + width). */
static q8_product part_of(const q8_product *p, int t, int n_t, int at, int width) {
    q8_product part = *p;
    part.n_t = n_t;
    part.width = width;
    part.y += (size_t)t * p->ldy + (size_t)at;
    part.q += (size_t)t * p->q_stride;
    part.scale += (size_t)t * p->scale_stride;
    part.sum += (size_t)t * p->scale_stride;
    part.w = (const unsigned char *)p->w + (size_t)(at / 16) * p->panel_stride;
    return part;
}

/* Sixteens of rows, then eight, go through AMX; the rows that are left, and the outputs of a short panel, through VNNI: the same bits either way. */
static void product_q8_tiles(const q8_product *p) {
    int width = p->width / 16 * 16, sixteens = p->n_t / 16 * 16, rows = p->n_t / 8 * 8;
    q8_product parts[] = {part_of(p, 0, sixteens, 0, width), part_of(p, sixteens, rows - sixteens, 0, width),
                          part_of(p, 0, rows, width, p->width - width), part_of(p, rows, p->n_t - rows, 0, p->width)};
    for (int i = 0; i < 4; i++) {
        if (parts[i].n_t == 0 || parts[i].width == 0) continue;
        if (i < 2) {
            amx_product_q8(&parts[i]);
        } else {
            product_q8(&parts[i]);
        }
    }
}

extern const kernel_set kernels_avx512, kernels_avx512_amx;
const kernel_set kernels_avx512 = KERNEL_SET("avx512", product_q8);
const kernel_set kernels_avx512_amx = KERNEL_SET("avx512", product_q8_tiles);

#else
typedef int no_avx512_here;
#endif
