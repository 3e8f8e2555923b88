/* kernels.c - the matrix products alone: no engine, no attention. Built and run by kernels.sh.
 *
 *   kernels ISA f32|f16|int8 K WIDTH MB ROWS...
 * multiplies ROWS rows by matrices [WIDTH, K], MB megabytes of them in turn (0: one matrix), beside the peak of fp32 multiply-adds in the same
 * moments. Prints the median of a fraction of a second for each number of rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "kernels/kernels.h"
#include "kernels/memory.h"
#include "tools/probe.h"

enum { MOST_REPEATS = 1000, LEAST_REPEATS = 5, ROW_BLOCK = 32, Q8_BLOCK_BYTES = 34 };
static const double SECONDS = 0.4, REPEAT_FLOPS = 4e7;

typedef struct {
    const kernel_set *set;
    enum { F32, F16, INT8 } type;
    int n_k, width, n_t;
    size_t matrix_bytes, n_matrices;
    unsigned char *w;
    float *x, *y, *scale;
    int8_t *q;
    int32_t *sum;
} run;

static void multiply(const run *r, size_t i) {
    const void *w = r->w + i * r->matrix_bytes;
    size_t n_blocks = (size_t)r->n_k / ROW_BLOCK;
    if (r->type == INT8) {
        r->set->product_q8(&(q8_product){.y = r->y,
                                         .ldy = (size_t)r->width,
                                         .q = r->q,
                                         .scale = r->scale,
                                         .sum = r->sum,
                                         .q_stride = (size_t)r->n_k,
                                         .scale_stride = n_blocks,
                                         .w = w,
                                         .panel_stride = n_blocks * Q8_BLOCK_BYTES * 16,
                                         .n_t = r->n_t,
                                         .n_blocks = (int)n_blocks,
                                         .width = r->width});
        return;
    }
    panel_product p = {.y = r->y,
                       .ldy = (size_t)r->width,
                       .x = r->x,
                       .ldx = (size_t)r->n_k,
                       .w = w,
                       .k_stride = 16,
                       .chunk_stride = 16 * (size_t)r->n_k,
                       .n_t = r->n_t,
                       .n_k = r->n_k,
                       .width = r->width};
    if (r->type == F16) {
        r->set->product_f16(&p);
    } else {
        r->set->product_f32(&p);
    }
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, compare);
    return x[n / 2];
}

/* FLOP/s of fp32 multiply-adds, a few tens of microseconds. */
static double peak(const char *isa) {
    probe_loop loops[PROBE_MAX_LOOPS];
    size_t n = probe_loops(loops);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(loops[i].kind, "fma") != 0 || strncmp(loops[i].what, isa, strlen(loops[i].what)) != 0) continue;
        probe_state none = {0};
        double start = clock_seconds();
        uint64_t done = loops[i].work(&none);
        return (double)done / (clock_seconds() - start);
    }
    return 0;
}

static void measure(const run *r, const char *isa, const char *type) {
    static double seconds[MOST_REPEATS], shares[MOST_REPEATS];
    double flops = 2.0 * r->n_t * r->n_k * r->width * (double)r->n_matrices, start = clock_seconds();
    int n = 0, times = 1 + (int)(REPEAT_FLOPS / flops);
    while (n < MOST_REPEATS && (n < LEAST_REPEATS || clock_seconds() - start < SECONDS)) {
        double top = peak(isa), begin = clock_seconds();
        for (int t = 0; t < times; t++) {
            for (size_t i = 0; i < r->n_matrices; i++) multiply(r, i);
        }
        seconds[n] = (clock_seconds() - begin) / times;
        shares[n] = top > 0 ? flops / seconds[n] / top : 0;
        n++;
    }
    double s = median(seconds, n);
    printf("%-12s %-5s k %-5d width %-5d rows %-4d %8.1f GFLOP/s %6.1f GB/s %5.0f%% of the fp32 peak\n", isa, type, r->n_k,
           r->width, r->n_t, flops / s * 1e-9, (double)(r->matrix_bytes * r->n_matrices) / s * 1e-9, 100 * median(shares, n));
}

int main(int argc, char **argv) {
    if (argc < 7) return fprintf(stderr, "usage: kernels ISA f32|f16|int8 K WIDTH MB ROWS...\n"), 2;
    run r = {.set = kernel_set_choose(argv[1]), .n_k = atoi(argv[3]), .width = atoi(argv[4])};
    r.type = strcmp(argv[2], "int8") == 0 ? INT8 : strcmp(argv[2], "f16") == 0 ? F16 : F32;
    if (r.set == NULL || r.n_k < 32 || r.n_k % 32 != 0 || r.width < 16 || r.width % 16 != 0) return 2;
    size_t elems = (size_t)r.n_k * (size_t)r.width;
    r.matrix_bytes = r.type == INT8 ? elems / ROW_BLOCK * Q8_BLOCK_BYTES : elems * (r.type == F16 ? 2 : 4);
    r.n_matrices = (size_t)(atof(argv[5]) * 1e6 / (double)r.matrix_bytes);
    if (r.n_matrices == 0) r.n_matrices = 1;
    r.w = pages_take(r.n_matrices * r.matrix_bytes);
    if (r.w == NULL) return 1;
    memset(r.w, 0, r.n_matrices * r.matrix_bytes);
    for (int a = 6; a < argc; a++) {
        r.n_t = atoi(argv[a]);
        size_t n = (size_t)r.n_t * (size_t)r.n_k;
        r.x = calloc(n, sizeof *r.x), r.q = calloc(n, 1), r.scale = calloc(n, sizeof *r.scale),
        r.sum = calloc(n, sizeof *r.sum);
        r.y = calloc((size_t)r.n_t * (size_t)r.width, sizeof *r.y);
        if (r.x != NULL && r.q != NULL && r.scale != NULL && r.sum != NULL && r.y != NULL) measure(&r, argv[1], argv[2]);
        free(r.x), free(r.q), free(r.scale), free(r.sum), free(r.y);
    }
    return 0;
}
