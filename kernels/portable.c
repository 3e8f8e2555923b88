/* portable.c - the kernels in plain C, for every machine, and as the reference for the others.
 *
 * Loops over the 16 outputs of a chunk are innermost and of fixed length, so that any compiler can put them in vector registers
 * without changing the order of a single sum. */
#include <math.h>
#include <string.h>

#include "kernels/dtype.h"
#include "kernels/kernels.h"
#include "kernels/matrix.h"

#ifdef __FAST_MATH__
#error "Tally's results and its NaN checks need IEEE arithmetic: build without -ffast-math"
#endif

/* One row of x against one chunk of `lanes` outputs. LOAD reads element r of a row of w. */
#define CHUNK_LOOP(type, lanes, LOAD)                                                                                          \
    for (int k = 0; k < n_k; k++, w += k_stride) {                                                                             \
        float xk = x[k];                                                                                                       \
        for (int r = 0; r < (lanes); r++) acc[r] += LOAD(w[r]) * xk;                                                           \
    }

#define AS_FLOAT(v) ((float)(v))

/* fp16 without a branch, so that a loop of them can be vectorised: the exponent is moved by a multiplication, which also makes
 * subnormals right; infinities and NaN get fp32's exponent of all ones. Exact. */
static inline float half(uint16_t h) {
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    float f;
    memcpy(&f, &magnitude, sizeof f);
    f *= 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits |= sign | (magnitude >= 0x0f800000u ? 0x7f800000u : 0u);
    memcpy(&f, &bits, sizeof f);
    return f;
}

#define DEFINE_CHUNK(name, type, LOAD)                                                                                         \
    static void name(float *restrict y, const float *restrict x, const type *restrict w, size_t k_stride, int n_k, int lanes,  \
                     bool more) {                                                                                              \
        float acc[PANEL_ROWS] = {0};                                                                                           \
        if (more) memcpy(acc, y, (size_t)lanes * sizeof *y);                                                                   \
        if (lanes == PANEL_ROWS) {                                                                                             \
            CHUNK_LOOP(type, PANEL_ROWS, LOAD)                                                                                 \
        } else {                                                                                                               \
            CHUNK_LOOP(type, lanes, LOAD)                                                                                      \
        }                                                                                                                      \
        memcpy(y, acc, (size_t)lanes * sizeof *y);                                                                             \
    }

#define DEFINE_PRODUCT(name, chunk, type)                                                                                      \
    static void name(const panel_product *p) {                                                                                 \
        int step = p->segments == NULL || p->n_k < p->segment_k ? p->n_k : p->segment_k;                                       \
        for (int c = 0; c * PANEL_ROWS < p->width; c++) {                                                                      \
            int lanes = p->width - c * PANEL_ROWS < PANEL_ROWS ? p->width - c * PANEL_ROWS : PANEL_ROWS, k = 0, s = 0;         \
            do { /* at least once: no k gives zeros */                                                                         \
                int n_k = p->n_k - k < step ? p->n_k - k : step;                                                               \
                const type *w = panel_piece(p, s++, c, sizeof(type));                                                          \
                for (int t = 0; t < p->n_t; t++) {                                                                             \
                    chunk(p->y + (size_t)t * p->ldy + c * PANEL_ROWS, p->x + (size_t)t * p->ldx + k, w, p->k_stride, n_k,      \
                          lanes, p->more || k > 0);                                                                            \
                }                                                                                                              \
                k += n_k;                                                                                                      \
            } while (k < p->n_k);                                                                                              \
        }                                                                                                                      \
    }

DEFINE_CHUNK(chunk_f32, float, AS_FLOAT)
DEFINE_CHUNK(chunk_i8, int8_t, AS_FLOAT)
DEFINE_PRODUCT(product_f32, chunk_f32, float)
DEFINE_PRODUCT(product_i8, chunk_i8, int8_t)

/* Converted a piece at a time, once for all rows: without an instruction for it a conversion costs more than many multiply-adds. */
static void product_f16(const panel_product *p) {
    enum { PIECE = 256 };
    float w32[PIECE * PANEL_ROWS];
    int segment = p->segments == NULL || p->n_k < p->segment_k ? p->n_k : p->segment_k;
    for (int c = 0; c * PANEL_ROWS < p->width; c++) {
        int lanes = p->width - c * PANEL_ROWS < PANEL_ROWS ? p->width - c * PANEL_ROWS : PANEL_ROWS, k = 0, s = 0, within = 0;
        do { /* at least once: no k gives zeros */
            int left = p->n_k - k < segment - within ? p->n_k - k : segment - within, n_k = left < PIECE ? left : PIECE;
            const uint16_t *w = (const uint16_t *)panel_piece(p, s, c, sizeof *w) + (size_t)within * p->k_stride;
            for (int i = 0; i < n_k; i++) {
                for (int r = 0; r < lanes; r++) w32[i * lanes + r] = half(w[(size_t)i * p->k_stride + (size_t)r]);
            }
            for (int t = 0; t < p->n_t; t++) {
                chunk_f32(p->y + (size_t)t * p->ldy + c * PANEL_ROWS, p->x + (size_t)t * p->ldx + k, w32, (size_t)lanes, n_k,
                          lanes, p->more || k > 0);
            }
            k += n_k;
            within += n_k;
            if (within == segment) s++, within = 0;
        } while (k < p->n_k);
    }
}

/* One block of 32 of one panel against one row: exact integer sums, one for each of the panel's rows. */
static void block_q8_dot(int32_t *restrict sums, const int8_t *restrict w, const int8_t *restrict x, int lanes) {
    memset(sums, 0, PANEL_ROWS * sizeof *sums);
    for (int g = 0; g < 8; g++) {
        for (int r = 0; r < lanes; r++) {
            const int8_t *a = w + (g * lanes + r) * 4, *b = x + g * 4;
            sums[r] += a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
        }
    }
}

static void product_q8(const q8_product *p) {
    for (int c = 0; c * PANEL_ROWS < p->width; c++) {
        int lanes = p->width - c * PANEL_ROWS < PANEL_ROWS ? p->width - c * PANEL_ROWS : PANEL_ROWS;
        for (int t = 0; t < p->n_t; t++) {
            const uint8_t *w = (const uint8_t *)p->w + (size_t)c * p->panel_stride;
            float *y = p->y + (size_t)t * p->ldy + c * PANEL_ROWS;
            float acc[PANEL_ROWS] = {0};
            if (p->more) memcpy(acc, y, (size_t)lanes * sizeof *y);
            for (int b = 0; b < p->n_blocks; b++, w += (size_t)lanes * 34) {
                int32_t sums[PANEL_ROWS];
                block_q8_dot(sums, (const int8_t *)(w + 2 * lanes), p->q + (size_t)t * p->q_stride + b * 32, lanes);
                float xs = p->scale[(size_t)t * p->scale_stride + (size_t)b];
                for (int r = 0; r < lanes; r++) {
                    uint16_t h;
                    memcpy(&h, w + 2 * r, 2);
                    acc[r] += (float)sums[r] * (half(h) * xs);
                }
            }
            memcpy(y, acc, (size_t)lanes * sizeof *y);
        }
    }
}

static void quantise(int8_t *q, float *scale, int32_t *sum, const float *x, int n) {
    for (int b = 0; b * 32 < n; b++, x += 32, q += 32) {
        int m = n - b * 32 < 32 ? n - b * 32 : 32;
        float top = 0;
        bool finite = true;
        for (int i = 0; i < m; i++) {
            top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
            finite = finite && x[i] - x[i] == 0.0f;
        }
        /* Infinities and NaN are carried on by the scale, not quantised away. A top so small that its inverse overflows gives 0. */
        float inverse = finite && top > 0.0f && 127.0f / top <= 3.4e38f ? 127.0f / top : 0.0f;
        int32_t total = 0;
        for (int i = 0; i < 32; i++) {
            float v = i < m && inverse > 0.0f ? x[i] * inverse : 0.0f; /* may pass 127 by one rounding */
            q[i] = (int8_t)(v >= 127.0f ? 127 : v <= -127.0f ? -127 : lrintf(v));
            total += q[i];
        }
        scale[b] = finite ? top / 127.0f : NAN;
        sum[b] = total;
    }
}

static void f16_row_to_f32(float *out, const uint16_t *in, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = half(in[i]);
}

static void f32_row_to_f16(uint16_t *out, const float *in, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = f32_to_f16(in[i]);
}

/* Sums of a row run in 16 lanes, lane j taking x[j], x[16+j], ..., and the lanes are added in pairs: one fixed order. */
static float lanes_sum(const float *acc) {
    float t[PANEL_ROWS];
    memcpy(t, acc, sizeof t);
    for (int half = PANEL_ROWS / 2; half > 0; half /= 2) {
        for (int r = 0; r < half; r++) t[r] += t[r + half];
    }
    return t[0];
}

static float row_sum(const float *x, int n) {
    float acc[PANEL_ROWS] = {0};
    int i = 0;
    for (; i + PANEL_ROWS <= n; i += PANEL_ROWS) {
        for (int r = 0; r < PANEL_ROWS; r++) acc[r] += x[i + r];
    }
    for (int r = 0; i + r < n; r++) acc[r] += x[i + r];
    return lanes_sum(acc);
}

/* Sum of (x - mean)^2. */
static float row_square_sum(const float *x, float mean, int n) {
    float acc[PANEL_ROWS] = {0};
    int i = 0;
    for (; i + PANEL_ROWS <= n; i += PANEL_ROWS) {
        for (int r = 0; r < PANEL_ROWS; r++) acc[r] += (x[i + r] - mean) * (x[i + r] - mean);
    }
    for (int r = 0; i + r < n; r++) acc[r] += (x[i + r] - mean) * (x[i + r] - mean);
    return lanes_sum(acc);
}

static void rms_norm(float *y, const float *x, const float *gain, int n, float eps) {
    float inverse = norm_inverse(row_square_sum(x, 0.0f, n) / (float)n, eps);
    for (int i = 0; i < n; i++) y[i] = x[i] * inverse * gain[i];
}

static void layer_norm(float *y, const float *x, const float *gain, const float *bias, int n, float eps) {
    float mean = row_sum(x, n) / (float)n;
    float inverse = norm_inverse(row_square_sum(x, mean, n) / (float)n, eps);
    for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * inverse * gain[i];
    if (bias != NULL) {
        for (int i = 0; i < n; i++) y[i] += bias[i];
    }
}

static void softmax(float *s, int n, float scale, float softcap, float *max, float *sum) {
    float top = -INFINITY;
    for (int i = 0; i < n; i++) s[i] *= scale;
    if (softcap != 0.0f) {
        for (int i = 0; i < n; i++) s[i] = softcap * tanhf(s[i] / softcap);
    }
    /* Not fmaxf, which drops a NaN: one NaN score must make the row NaN. */
    for (int i = 0; i < n; i++) top = s[i] <= top ? top : s[i];
    for (int i = 0; i < n; i++) s[i] = expf(s[i] - top);
    float total = row_sum(s, n), inverse = 1.0f / total;
    for (int i = 0; i < n; i++) s[i] *= inverse;
    *max = top;
    *sum = total;
}

/* Head by head: scores, softmax, values. */
static void attend(const row_attention *a, void (*product)(const panel_product *)) {
    for (int h = 0; h < a->n_heads; h++) {
        panel_product scores = row_attention_scores(a, h), values = row_attention_values(a, h);
        product(&scores);
        for (int i = 0; i < a->group; i++) {
            int row = h * a->group + i;
            softmax(a->scores + (size_t)i * a->ld_scores, a->n_keys, a->scale, a->softcap, &a->max[row], &a->sum[row]);
        }
        product(&values);
    }
}
static void attend_f32(const row_attention *a) {
    attend(a, product_f32);
}
static void attend_f16(const row_attention *a) {
    attend(a, product_f16);
}

static float activation(float x, int kind) {
    switch (kind) {
    case ACT_RELU:
        return x < 0.0f ? 0.0f : x;
    case ACT_SILU:
        return x / (1.0f + expf(-x));
    case ACT_GELU_ERF:
        return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case ACT_GELU_TANH:
        return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case ACT_RELU2:
        return x < 0.0f ? 0.0f : x * x;
    case ACT_GELU_QUICK:
        return x / (1.0f + expf(-1.702f * x));
    default:
        return x;
    }
}

static void activate(float *y, const float *gate, const float *up, int n, int kind) {
    for (int i = 0; i < n; i++) y[i] = activation(gate[i], kind);
    if (up != NULL) {
        for (int i = 0; i < n; i++) y[i] *= up[i];
    }
}

static void int8_scaled(float *restrict out, const void *restrict q, const float *restrict scale, int n_k, bool words) {
    const int8_t *in = q;
    for (int k = 0; k < n_k; k++, out += PANEL_ROWS) {
        if (words) {
            for (int r = 0; r < PANEL_ROWS; r++) out[r] = scale[r] * (float)in[(k / 4 * PANEL_ROWS + r) * 4 + k % 4];
        } else {
            for (int r = 0; r < PANEL_ROWS; r++) out[r] = scale[r] * (float)in[k * PANEL_ROWS + r];
        }
    }
}

static void add(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] += x[i];
}

static void add_scaled(float *y, const float *x, float a, int n) {
    for (int i = 0; i < n; i++) y[i] += a * x[i];
}

static void merge(float *o, const float *p, float a, float b, int n) {
    for (int i = 0; i < n; i++) o[i] = o[i] * a + p[i] * b;
}

const kernel_set kernels_portable = {
    .name = "portable",
    .product_f32 = product_f32,
    .product_f16 = product_f16,
    .product_i8 = product_i8,
    .product_q8 = product_q8,
    .int8_scaled = int8_scaled,
    .quantise = quantise,
    .f16_to_f32 = f16_row_to_f32,
    .f32_to_f16 = f32_row_to_f16,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .softmax = softmax,
    .attend_f32 = attend_f32,
    .attend_f16 = attend_f16,
    .activate = activate,
    .add = add,
    .add_scaled = add_scaled,
    .merge = merge,
};
