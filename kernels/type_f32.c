/* type_f32.c - fp32 as a storage of weights. In a panel: k=0: r0 r1 ... | k=1: r0 r1 ... */
#include "kernels/blocks.h"
#include "kernels/interleave.h"
#include "kernels/storage.h"

void decode_f32(float *out, const void *in, size_t n) {
    memcpy(out, in, n * sizeof *out);
}

void encode_f32(void *out, const float *in, size_t n) {
    memcpy(out, in, n * sizeof *in);
}

static void pack(unsigned char *panel, panel_shape s, const storage_rows *rows) {
    panel_interleave(panel, rows->data, rows->stride, s.width, s.n, sizeof(float));
}

static void unpack(unsigned char *row, const unsigned char *panel, panel_shape s, int r) {
    panel_gather(row, panel, s.width, r, s.n, sizeof(float));
}

static void row_f32(float *out, const unsigned char *panel, panel_shape s, int r) {
    panel_gather((unsigned char *)out, panel, s.width, r, s.n, sizeof(float));
}

static void decode_panel(float *out, const unsigned char *panel, panel_shape s, const kernel_set *kernels) {
    (void)kernels;
    memcpy(out, panel, (size_t)s.width * s.n * sizeof *out);
}

static float dot(const void *row, const float *x, size_t n, size_t group) {
    (void)group;
    const unsigned char *bytes = row; /* a row in a file may start at any byte */
    float sum = 0;
    for (size_t k = 0; k < n; k++) {
        float w;
        memcpy(&w, bytes + k * sizeof w, sizeof w);
        sum += w * x[k];
    }
    return sum;
}

const storage_traits storage_f32 = {
    .product = PRODUCT_F32, .pack = pack, .unpack = unpack, .row = row_f32, .decode = decode_panel, .dot = dot};
