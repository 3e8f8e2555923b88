/* kernels_amx.c - see amx.h.
 *
 * A block of 32 along k, of 16 (or 8) rows of x by one panel of 16 outputs: one tile of x (a row's 32 bytes a line), one of weights (the panel's
 * block as it lies: 8 lines, each 4 k of 16 outputs), and one of sums (a row's 16 int32 a line). These are written out, read back as vectors,
 * scaled, and added to the rows' sums in fp32, which stay in registers; meanwhile the next block is multiplied.
 *
 *     x [16 x 32 int8]  .  weights [8 x 16 x 4 int8]  ->  [16 x 16 int32]  ->  16 registers of 16 fp32
 */
#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/amx.h"

bool amx_usable(void) {
    enum { TILE_BIT = 1 << 24, INT8_BIT = 1 << 25, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & TILE_BIT) == 0 || (d & INT8_BIT) == 0) return false;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* Tiles 0 and 1: sums of this block and the next; 2: x; 3: weights. */
static void tiles_configure(int rows) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    _Static_assert(sizeof config == 64, "as ldtilecfg reads it");
    for (int i = 0; i < 4; i++) {
        config.row_bytes[i] = i == 2 ? 32 : 64;
        config.rows[i] = i == 3 ? 8 : (uint8_t)rows;
    }
    _tile_loadconfig(&config);
}

enum { BLOCK_BYTES = 34 * 16, SCALE_BYTES = 2 * 16 }; /* of a panel: 16 scales, then 32 x 16 numbers */

typedef struct {
    _Alignas(64) int32_t n[16][16];
} block_sums;

/* Two blocks take turns, so that a tile is multiplied while the one before is written out. */
static inline void block_multiply(block_sums *out, int b, const int8_t *x, size_t x_stride, const unsigned char *w) {
    _tile_loadd(2, x, (int)x_stride);
    _tile_loadd(3, w + SCALE_BYTES, 64);
    if (b % 2 == 0) {
        _tile_zero(0);
        _tile_dpbssd(0, 2, 3);
        _tile_stored(0, out->n, 64);
    } else {
        _tile_zero(1);
        _tile_dpbssd(1, 2, 3);
        _tile_stored(1, out->n, 64);
    }
}

/* For the first rows that come by, which read the panel from memory. */
static inline void block_prefetch(const unsigned char *w) {
    enum { AHEAD = 8 * BLOCK_BYTES };
    for (int i = 0; i < BLOCK_BYTES; i += 64) __builtin_prefetch(w + AHEAD + i);
}

/* n_rows (a constant) by 16 outputs, all blocks. */
static inline __attribute__((always_inline)) void tile_product(const q8_product *p, int t, int n_rows, int c) {
    block_sums sums[2];
    __m512 acc[16];
    const int8_t *x = p->q + (size_t)t * p->q_stride;
    const float *x_scale = p->scale + (size_t)t * p->scale_stride;
    const unsigned char *w = (const unsigned char *)p->w + (size_t)c * p->panel_stride;
    float *y = p->y + (size_t)t * p->ldy + (size_t)c * 16;
#pragma GCC unroll 16
    for (int i = 0; i < n_rows; i++) acc[i] = p->more ? _mm512_loadu_ps(y + (size_t)i * p->ldy) : _mm512_setzero_ps();
    if (p->n_blocks > 0) block_multiply(&sums[0], 0, x, p->q_stride, w);
    for (int b = 0; b < p->n_blocks; b++, w += BLOCK_BYTES, x += 32, x_scale++) {
        if (b + 1 < p->n_blocks) block_multiply(&sums[(b + 1) % 2], b + 1, x + 32, p->q_stride, w + BLOCK_BYTES);
        if (t == 0) block_prefetch(w);
        const block_sums *s = &sums[b % 2];
        const __m512 w_scale = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)w));
#pragma GCC unroll 16
        for (int i = 0; i < n_rows; i++) {
            __m512 scale = _mm512_mul_ps(w_scale, _mm512_set1_ps(x_scale[(size_t)i * p->scale_stride]));
            acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(s->n[i])), scale, acc[i]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < n_rows; i++) _mm512_storeu_ps(y + (size_t)i * p->ldy, acc[i]);
}

/* A few panels for each tile of rows, whose x stays in the first-level cache meanwhile. */
static inline __attribute__((always_inline)) void tiles_product(const q8_product *p, int n_rows) {
    enum { PANELS = 4 };
    int n_panels = p->width / 16;
    tiles_configure(n_rows);
    for (int c = 0; c < n_panels; c += PANELS) {
        for (int t = 0; t + n_rows <= p->n_t; t += n_rows) {
            for (int j = c; j < n_panels && j < c + PANELS; j++) tile_product(p, t, n_rows, j);
        }
    }
    _tile_release();
}

void amx_product_q8(const q8_product *p) {
    if (p->n_t % 16 == 0) {
        tiles_product(p, 16);
    } else {
        tiles_product(p, 8);
    }
}

#else
typedef int no_amx_here;
#endif
