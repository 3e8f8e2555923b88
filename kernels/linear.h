/* linear.h - matrix products of a step: y = x W^T + b, for any number of rows, shared by the workers of a team.
 *
 * One interface for decode (one row, a batch) and prefill (many): which loop serves is chosen in linear.c, in one place, and never
 * changes a bit. Weights are read once per call whatever the number of rows, and posted by the accessor that hands out panels.
 * All workers of a team call each function together; it returns when all of them are done. */
#ifndef TALLY_LINEAR_H
#define TALLY_LINEAR_H

#include "kernels/kernels.h"
#include "kernels/matrix.h"
#include "kernels/worker.h"

struct blas;

/* How this step multiplies; the same for all its products. */
typedef struct {
    bool int8_activations;   /* Q8_0 weights meet activations quantised per block of 32; else fp32 activations */
    const struct blas *blas; /* not NULL: sgemm on dequantised panels, fp32 activations */
    q8_rows quantised;       /* room for the rows of one call, [max rows][ceil(max n_cols / 32)] blocks */
} linear_mode;

typedef struct {
    const matrix *w;
    float *y;          /* [n_rows, w->n_rows], rows w->n_rows floats apart */
    term written_term; /* the bytes written to y are posted as this: logits; 0: activations, which are not counted */
} linear_output;

/* y_i = x W_i^T + b_i for several matrices that share their input, which is quantised once. x: [n_rows, n_cols]. */
void linear(const linear_output *out, int n_out, const float *x, int n_rows, const linear_mode *mode, worker *w);

/* y += scale * (x W^T + b): the residual add in the same pass. */
void linear_add(float *y, const matrix *m, const float *x, int n_rows, float scale, const linear_mode *mode, worker *w);

/* y = act(x Wg^T + bg) * (x Wu^T + bu), or act(x Wu^T + bu) where gate is NULL. activation: ACT_* of kernels.h. */
void linear_activate(float *y, const matrix *gate, const matrix *up, int activation, const float *x, int n_rows,
                     const linear_mode *mode, worker *w);

/* Scratch that one worker needs for calls of up to max_rows rows. */
size_t linear_scratch_bytes(int max_rows);

#endif
