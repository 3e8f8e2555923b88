/* type_i8g.c - llama2.c's int8: an fp32 scale for every `group` elements of a row, kept apart from them in its file.
 *
 *   file    all int8 of the matrix, row by row | all scales, row by row
 *   row     int8 [n] | fp32 scales [ceil(n / group)]                            (as matrix_row_raw gives it)
 *   panel   for each group along k: w fp32 scales, then for each k of it r0 r1 ... int8; the last group may be short
 *
 * x[k] = scale[k / group] * q[k] */
#include "kernels/blocks.h"
#include "kernels/interleave.h"
#include "kernels/sizes.h"
#include "kernels/storage.h"

static size_t group_length(panel_shape s, size_t k) {
    return s.n - k < s.group ? s.n - k : s.group;
}

static bool row_bytes(size_t n, size_t group, size_t *out) {
    size_t scale_bytes;
    return group > 0 && size_mul(ceil_div(n, group), sizeof(float), &scale_bytes) && size_add(n, scale_bytes, out);
}

static void pack(unsigned char *panel, panel_shape s, const storage_rows *rows) {
    const unsigned char *scales = rows->scales; /* they follow an odd number of bytes */
    for (size_t k = 0; k < s.n; k += s.group, scales += sizeof(float)) {
        size_t length = group_length(s, k);
        panel_interleave(panel, scales, rows->scale_stride, s.width, 1, sizeof(float));
        panel += (size_t)s.width * sizeof(float);
        panel_interleave(panel, rows->data + k, rows->stride, s.width, length, 1);
        panel += (size_t)s.width * length;
    }
}

static void unpack(unsigned char *row, const unsigned char *panel, panel_shape s, int r) {
    unsigned char *scale = row + s.n;
    for (size_t k = 0; k < s.n; k += s.group, scale += sizeof(float)) {
        size_t length = group_length(s, k);
        panel_gather(scale, panel, s.width, r, 1, sizeof(float));
        panel += (size_t)s.width * sizeof(float);
        panel_gather(row + k, panel, s.width, r, length, 1);
        panel += (size_t)s.width * length;
    }
}

static void row_i8g(float *out, const unsigned char *panel, panel_shape s, int r) {
    size_t width = (size_t)s.width;
    for (size_t k = 0; k < s.n; k += s.group) {
        size_t length = group_length(s, k);
        float scale;
        memcpy(&scale, panel + sizeof scale * (size_t)r, sizeof scale);
        panel += sizeof scale * width;
        for (size_t i = 0; i < length; i++) out[k + i] = scale * (float)(int8_t)panel[i * width + (size_t)r];
        panel += length * width;
    }
}

static void decode_panel(float *out, const unsigned char *panel, panel_shape s, const kernel_set *kernels) {
    size_t width = (size_t)s.width;
    for (size_t k = 0; k < s.n; k += s.group) {
        size_t length = group_length(s, k);
        float scale[16];
        memcpy(scale, panel, width * sizeof *scale);
        panel += width * sizeof *scale;
        if (width == 16) {
            kernels->int8_scaled(out + k * 16, panel, scale, (int)length, false);
            panel += length * 16;
            continue;
        }
        for (size_t i = 0; i < length; i++, panel += width) {
            for (size_t r = 0; r < width; r++) out[(k + i) * width + r] = scale[r] * (float)(int8_t)panel[r];
        }
    }
}

static float dot(const void *row, const float *x, size_t n, size_t group) {
    const int8_t *q = row;
    const unsigned char *scales = (const unsigned char *)row + n;
    float sum = 0;
    for (size_t k = 0; k < n; k++) {
        float scale;
        memcpy(&scale, scales + k / group * sizeof scale, sizeof scale);
        sum += scale * (float)q[k] * x[k];
    }
    return sum;
}

const storage_traits storage_i8g = {.product = PRODUCT_DECODED,
                                    .decode_flops = 1,
                                    .row_bytes = row_bytes,
                                    .pack = pack,
                                    .unpack = unpack,
                                    .row = row_i8g,
                                    .decode = decode_panel,
                                    .dot = dot};
