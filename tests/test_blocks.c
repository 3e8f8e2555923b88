/* Block types: blocks packed here element by element, one after the other as a writer goes, must read
 * back as the formula in double; and the values that another implementation read from the same bytes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "kernels/blocks.h"
#include "kernels/dtype.h"

enum { D_BITS = 0x2997, M_BITS = 0xa24f }; /* two f16 with full fractions: 1431 * 2^-15, -1615 * 2^-17 */
static const double D = 1431.0 / 32768, M = -1615.0 / 131072;

static uint32_t seed;
static int random_below(int n) {
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)n);
}

static void fill(int *q, int n, int below) {
    for (int i = 0; i < n; i++) q[i] = random_below(below);
}

static void expect_row(dtype type, const void *block, const double *expected) {
    int n = dtype_info(type)->block_elems;
    uint8_t two[2 * 256 + 1]; /* at an odd address, and a second, partial block behind it */
    float out[256 + 7];
    size_t bytes = (size_t)dtype_info(type)->block_bytes;
    memcpy(two + 1, block, bytes);
    memcpy(two + 1 + bytes, block, bytes);
    dtype_info(type)->decode(out, two + 1, (size_t)n + 7);
    for (int i = 0; i < n + 7; i++) {
        double e = expected[i % n];
        if (fabs((double)out[i] - e) > 1e-6 * (1 + fabs(e))) fail_msg("element %d: %.9g, not %.9g", i, (double)out[i], e);
    }
}

/* The four 32-element types: the low nibbles of 16 bytes are the first half of the block, the high nibbles the second. */
static void q4_and_q5_blocks_read_as_their_formula(void **state) {
    (void)state;
    seed = 1;
    int q[32];
    double x[32];
    block_q4_0 a = {.d = D_BITS};
    block_q4_1 b = {.d = D_BITS, .m = M_BITS};
    block_q5_0 c = {.d = D_BITS};
    block_q5_1 d = {.d = D_BITS, .m = M_BITS};
    fill(q, 32, 16);
    for (int j = 0; j < 16; j++) a.q[j] = b.q[j] = (uint8_t)(q[j] + 16 * q[j + 16]);
    for (int i = 0; i < 32; i++) x[i] = D * (q[i] - 8);
    expect_row(DTYPE_Q4_0, &a, x);
    for (int i = 0; i < 32; i++) x[i] = D * q[i] + M;
    expect_row(DTYPE_Q4_1, &b, x);

    fill(q, 32, 32);
    uint32_t high = 0;
    for (int j = 0; j < 16; j++) {
        c.q[j] = d.q[j] = (uint8_t)((q[j] & 15) + 16 * (q[j + 16] & 15));
        high |= (uint32_t)(q[j] >= 16) << j | (uint32_t)(q[j + 16] >= 16) << (j + 16);
    }
    memcpy(c.high, &high, 4);
    memcpy(d.high, &high, 4);
    for (int i = 0; i < 32; i++) x[i] = D * (q[i] - 16);
    expect_row(DTYPE_Q5_0, &c, x);
    for (int i = 0; i < 32; i++) x[i] = D * q[i] + M;
    expect_row(DTYPE_Q5_1, &d, x);
}

static void q2_k_blocks_read_as_their_formula(void **state) {
    (void)state;
    seed = 2;
    int q[256], scale[16], min[16];
    double x[256];
    block_q2_k b = {.d = D_BITS, .dmin = M_BITS};
    fill(q, 256, 4), fill(scale, 16, 16), fill(min, 16, 16);
    for (int j = 0; j < 16; j++) b.scales[j] = (uint8_t)(scale[j] | min[j] << 4);
    for (int j = 0; j < 256; j += 128)
        for (int l = 0; l < 32; l++)
            b.q[j / 4 + l] = (uint8_t)(q[j + l] | q[j + l + 32] << 2 | q[j + l + 64] << 4 | q[j + l + 96] << 6);
    for (int i = 0; i < 256; i++) x[i] = D * scale[i / 16] * q[i] - M * min[i / 16];
    expect_row(DTYPE_Q2_K, &b, x);
}

static void q3_k_blocks_read_as_their_formula(void **state) {
    (void)state;
    seed = 3;
    int q[256], scale[16];
    double x[256];
    block_q3_k b = {.d = D_BITS};
    fill(q, 256, 8), fill(scale, 16, 64);
    for (int j = 0; j < 16; j++) {
        b.scales[j % 8] = (uint8_t)(b.scales[j % 8] | (scale[j] & 15) << (j < 8 ? 0 : 4));
        b.scales[j % 4 + 8] = (uint8_t)(b.scales[j % 4 + 8] | scale[j] >> 4 << 2 * (j / 4));
    }
    for (int i = 0, byte = 0, mask = 1; i < 256; i++) { /* the mask bit moves on every 32 elements */
        if (q[i] > 3) b.high[byte] = (uint8_t)(b.high[byte] | mask);
        if (++byte == 32) byte = 0, mask <<= 1;
    }
    for (int j = 0; j < 256; j += 128)
        for (int l = 0; l < 32; l++)
            b.q[j / 4 + l] =
                (uint8_t)((q[j + l] & 3) | (q[j + l + 32] & 3) << 2 | (q[j + l + 64] & 3) << 4 | (q[j + l + 96] & 3) << 6);
    for (int i = 0; i < 256; i++) x[i] = D * (scale[i / 16] - 32) * (q[i] - 4);
    expect_row(DTYPE_Q3_K, &b, x);
}

static void pack_scales(uint8_t out[12], const int scale[8], const int min[8]) {
    for (int j = 0; j < 8; j++) {
        if (j < 4) {
            out[j] = (uint8_t)scale[j];
            out[j + 4] = (uint8_t)min[j];
        } else {
            out[j + 4] = (uint8_t)((scale[j] & 15) | (min[j] & 15) << 4);
            out[j - 4] = (uint8_t)(out[j - 4] | scale[j] >> 4 << 6);
            out[j] = (uint8_t)(out[j] | min[j] >> 4 << 6);
        }
    }
}

static void q4_k_and_q5_k_blocks_read_as_their_formula(void **state) {
    (void)state;
    seed = 4;
    int q[256], scale[8], min[8];
    double x[256];
    block_q4_k b = {.d = D_BITS, .dmin = M_BITS};
    block_q5_k c = {.d = D_BITS, .dmin = M_BITS};
    fill(q, 256, 16), fill(scale, 8, 64), fill(min, 8, 64);
    pack_scales(b.scales, scale, min);
    for (int j = 0; j < 256; j += 64)
        for (int l = 0; l < 32; l++) b.q[j / 2 + l] = (uint8_t)(q[j + l] | q[j + l + 32] << 4);
    for (int i = 0; i < 256; i++) x[i] = D * scale[i / 32] * q[i] - M * min[i / 32];
    expect_row(DTYPE_Q4_K, &b, x);

    fill(q, 256, 32);
    memcpy(c.scales, b.scales, 12);
    for (int n = 0, m1 = 1, m2 = 2; n < 256; n += 64, m1 <<= 2, m2 <<= 2)
        for (int j = 0; j < 32; j++) {
            int l1 = q[n + j], l2 = q[n + j + 32];
            if (l1 > 15) c.high[j] = (uint8_t)(c.high[j] | m1);
            if (l2 > 15) c.high[j] = (uint8_t)(c.high[j] | m2);
            c.q[n / 2 + j] = (uint8_t)((l1 & 15) | (l2 & 15) << 4);
        }
    for (int i = 0; i < 256; i++) x[i] = D * scale[i / 32] * q[i] - M * min[i / 32];
    expect_row(DTYPE_Q5_K, &c, x);
}

static void q6_k_blocks_read_as_their_formula(void **state) {
    (void)state;
    seed = 6;
    int q[256], scale[16];
    double x[256];
    block_q6_k b = {.d = D_BITS};
    fill(q, 256, 64), fill(scale, 16, 256);
    for (int j = 0; j < 16; j++) b.scales[j] = (int8_t)(scale[j] - 128);
    for (int j = 0, h = 0; j < 256; j += 128, h++)
        for (int l = 0; l < 32; l++) {
            const int *e = q + j + l;
            b.low[64 * h + l] = (uint8_t)((e[0] & 15) | (e[64] & 15) << 4);
            b.low[64 * h + l + 32] = (uint8_t)((e[32] & 15) | (e[96] & 15) << 4);
            b.high[32 * h + l] = (uint8_t)(e[0] >> 4 | e[32] >> 4 << 2 | e[64] >> 4 << 4 | e[96] >> 4 << 6);
        }
    for (int i = 0; i < 256; i++) x[i] = D * (scale[i / 16] - 128) * (q[i] - 32);
    expect_row(DTYPE_Q6_K, &b, x);
}

/* ../shared: one GGUF with a tensor a type, and what its own writer reads from them. Offsets as in that file's directory. */
static void k_types_read_what_their_writer_reads(void **state) {
    (void)state;
    static const struct {
        const char *name;
        dtype type;
        long offset;
    } tensors[] = {
        {"Q4_K", DTYPE_Q4_K, 4096}, {"Q5_K", DTYPE_Q5_K, 4672}, {"Q6_K", DTYPE_Q6_K, 5376}, {"Q2_K", DTYPE_Q2_K, 6240}};
    FILE *f = fopen("../shared/checkpoints/pico/kquant/tiny_kquant.gguf", "rb");
    json_t *reference = json_load_file("../shared/checkpoints/pico/kquant/tiny_kquant_ref.json", 0, NULL);
    if (f == NULL || reference == NULL) {
        printf("SKIP: ../shared/checkpoints/pico/kquant is not here\n");
        skip();
    }
    for (size_t k = 0; k < sizeof tensors / sizeof *tensors; k++) {
        uint8_t bytes[4 * 256];
        float out[1024];
        size_t n_bytes;
        assert_true(dtype_row_bytes(tensors[k].type, 1024, &n_bytes));
        assert_int_equal(fseek(f, 352 + tensors[k].offset, SEEK_SET), 0);
        assert_int_equal(fread(bytes, 1, n_bytes, f), n_bytes);
        dtype_info(tensors[k].type)->decode(out, bytes, 1024);
        json_t *expected = json_object_get(json_object_get(reference, "dequant"), tensors[k].name);
        assert_int_equal(json_array_size(expected), 1024);
        for (size_t i = 0; i < 1024; i++) assert_true(out[i] == (float)json_number_value(json_array_get(expected, i)));
    }
    json_decref(reference);
    fclose(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q4_and_q5_blocks_read_as_their_formula), cmocka_unit_test(q2_k_blocks_read_as_their_formula),
        cmocka_unit_test(q3_k_blocks_read_as_their_formula),      cmocka_unit_test(q4_k_and_q5_k_blocks_read_as_their_formula),
        cmocka_unit_test(q6_k_blocks_read_as_their_formula),      cmocka_unit_test(k_types_read_what_their_writer_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
