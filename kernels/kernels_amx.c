/* kernels_amx.c - see amx.h.
 *
 * A block of 32 along k, of 16 rows of x by 64 outputs: one tile of x (16 rows of 32 bytes), four of weights (a panel's block as it lies: 8
 * rows, each 4 k of 16 outputs), and four of sums (16 rows of 16 int32), which are written out, scaled and added to the rows' sums in fp32.
 *
 *            weights   [8 x 64 bytes]   [8 x 64 bytes]   [8 x 64 bytes]   [8 x 64 bytes]
 *     x [16 x 32]      [16 x 16 sums]   [16 x 16 sums]   [16 x 16 sums]   [16 x 16 sums]
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

/* Tiles 0..3: sums; 4: x; 5 and 6: weights. */
static void tiles_configure(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    _Static_assert(sizeof config == 64, "as ldtilecfg reads it");
    for (int i = 0; i < 7; i++) {
        config.row_bytes[i] = i == 4 ? 32 : 64;
        config.rows[i] = i < 5 ? 16 : 8;
    }
    _tile_loadconfig(&config);
}

typedef struct {
    int32_t n[AMX_PANELS][16][16];
} block_sums;

/* The integer sums of one block. */
static inline __attribute__((always_inline)) void block_multiply(block_sums *out, const int8_t *x, size_t x_stride,
                                                                 const unsigned char *w, size_t panel_stride) {
    w += 32; /* past the scales */
    _tile_loadd(4, x, x_stride);
    _tile_zero(0);
    _tile_loadd(5, w, 64);
    _tile_dpbssd(0, 4, 5);
    _tile_zero(1);
    _tile_loadd(6, w + panel_stride, 64);
    _tile_dpbssd(1, 4, 6);
    _tile_zero(2);
    _tile_loadd(5, w + 2 * panel_stride, 64);
    _tile_dpbssd(2, 4, 5);
    _tile_zero(3);
    _tile_loadd(6, w + 3 * panel_stride, 64);
    _tile_dpbssd(3, 4, 6);
    _tile_stored(0, out->n[0], 64);
    _tile_stored(1, out->n[1], 64);
    _tile_stored(2, out->n[2], 64);
    _tile_stored(3, out->n[3], 64);
}

/* A block of four panels, some blocks ahead: for the first rows that come by, which read it from memory. */
static inline void block_prefetch(const unsigned char *w, size_t panel_stride) {
    enum { AHEAD = 4 * 34 * 16 };
    for (int j = 0; j < AMX_PANELS; j++, w += panel_stride) {
        for (int i = 0; i < 34 * 16; i += 64) __builtin_prefetch(w + AHEAD + i);
    }
}

/* 16 rows by 64 outputs, all blocks. Sums of a block are written while those before it are scaled. */
static void tile_product(const q8_product *p, int t, int c) {
    block_sums sums[2];
    __m512 acc[16][AMX_PANELS];
    const int8_t *x = p->q + (size_t)t * p->q_stride;
    const float *x_scale = p->scale + (size_t)t * p->scale_stride;
    const unsigned char *w = (const unsigned char *)p->w + (size_t)c * p->panel_stride;
    float *y = p->y + (size_t)t * p->ldy + (size_t)c * 16;
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < AMX_PANELS; j++) {
            acc[i][j] = p->more ? _mm512_loadu_ps(y + (size_t)i * p->ldy + j * 16) : _mm512_setzero_ps();
        }
    }
    if (p->n_blocks > 0) block_multiply(&sums[0], x, p->q_stride, w, p->panel_stride);
    for (int b = 0; b < p->n_blocks; b++, w += 34 * 16, x += 32) {
        if (b + 1 < p->n_blocks) block_multiply(&sums[(b + 1) % 2], x + 32, p->q_stride, w + 34 * 16, p->panel_stride);
        if (t == 0) block_prefetch(w, p->panel_stride);
        const block_sums *s = &sums[b % 2];
        __m512 scale[AMX_PANELS];
#pragma GCC unroll 4
        for (int j = 0; j < AMX_PANELS; j++) {
            scale[j] = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(w + (size_t)j * p->panel_stride)));
        }
#pragma GCC unroll 4
        for (int i = 0; i < 16; i++) {
            __m512 xs = _mm512_set1_ps(x_scale[(size_t)i * p->scale_stride + (size_t)b]);
#pragma GCC unroll 4
            for (int j = 0; j < AMX_PANELS; j++) {
                __m512 sum = _mm512_cvtepi32_ps(_mm512_loadu_si512(s->n[j][i]));
                acc[i][j] = _mm512_fmadd_ps(sum, _mm512_mul_ps(scale[j], xs), acc[i][j]);
            }
        }
    }
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < AMX_PANELS; j++) _mm512_storeu_ps(y + (size_t)i * p->ldy + j * 16, acc[i][j]);
    }
}

void amx_product_q8(const q8_product *p) {
    tiles_configure();
    for (int c = 0; c < p->width / 16; c += AMX_PANELS) {
        for (int t = 0; t < p->n_t; t += AMX_ROWS) tile_product(p, t, c);
    }
    _tile_release();
}

#else
typedef int no_amx_here;
#endif
