/* blas.h - OpenBLAS as the second backend for matrix products of many rows.
 *
 * Opened on first use (its start-up costs more than a whole small run), from the system's libopenblas.so.0; told to use no threads
 * of its own: each worker calls sgemm on its own outputs, on panels decoded to fp32 tile by tile. */
#ifndef TALLY_BLAS_H
#define TALLY_BLAS_H

#include "kernels/kernels.h"
#include "kernels/matrix.h"
#include "kernels/status.h"
#include "kernels/worker.h"

typedef struct blas blas;

/* Never NULL on OK. blas_close frees it. */
status blas_open(blas **out, error *e);
void blas_close(blas *b);
const char *blas_describe(const blas *b); /* version and kernel, for reports */

/* y[t][j] = x[t] . row of panels [panel, end), for this worker alone; y points at the first of these outputs. Posts as linear() does. */
void blas_product(float *y, size_t ldy, const matrix *m, int panel, int end, const float *x, int n_rows, const blas *b,
                  worker *w);

/* C = A B, [n_m, n_n] = [n_m, n_k] [n_k, n_n], row-major, leading dimensions given: sgemm itself, for benchmarks and tests. */
void blas_sgemm(const blas *b, int n_m, int n_n, int n_k, const float *a, int lda, const float *bm, int ldb, float beta,
                float *c, int ldc);

#endif
