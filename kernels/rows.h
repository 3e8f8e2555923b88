/* rows.h - what is done to rows of activations between the matrix products: lookup, norms, positions, multipliers.
 *
 * All workers of a team call each function together, each takes a share of the rows, and each function returns when all are done. */
#ifndef TALLY_ROWS_H
#define TALLY_ROWS_H

#include "kernels/matrix.h"
#include "kernels/worker.h"

/* x[t] = table[ids[t]] (as stored, to fp32), times scale; then, where positions is not NULL, += positions[pos[t]].
 * x: [n_rows, d]. ids and pos are in range: the engine has checked them. */
void rows_embed(float *x, const matrix *table, const matrix *positions, const int *ids, const int *pos, int n_rows, float scale,
                worker *w);

/* One norm, or none. */
typedef enum { ROW_NORM_RMS, ROW_NORM_LAYER } row_norm_kind;
typedef struct {
    row_norm_kind kind;
    float eps;
    int n;                    /* elements normalised together */
    const float *gain, *bias; /* [n]; bias NULL: none */
} row_norm;

/* y = norm(x) for n_rows rows of n_parts parts of norm.n elements each (a norm per head: parts are heads). y may be x.
 * Rows of x are taken in the order of `pick` where it is not NULL: y[t] = norm(x[pick[t]]). */
void rows_norm(float *y, const float *x, const row_norm *norm, int n_rows, int n_parts, const int *pick, worker *w);

/* y[t] = x[pick[t]]; [n_rows, n]. */
void rows_pick(float *y, const float *x, const int *pick, int n_rows, int n, worker *w);

/* y += scale * x; [n_rows, n]. */
void rows_add(float *y, const float *x, int n_rows, int n, float scale, worker *w);

/* Rotary positions, Su et al. 2021: element a and its partner b of each head turn by pos * freq[i]:
 *     (a, b) -> (a cos - b sin, a sin + b cos)
 * partner: a + rope_dim/2 (pairs false), or elements 2i and 2i+1 (pairs true). Elements past rope_dim stay.
 * cos_sin: [n_rows, rope_dim], cosines then sines, from rope_angles. x: [n_rows, n_heads, head_dim], in place. */
void rope_angles(float *cos_sin, const float *freq, int rope_dim, float magnitude, const int *pos, int n_rows, worker *w);
void rows_rope(float *x, int n_heads, int head_dim, const float *cos_sin, int rope_dim, bool pairs, int n_rows, worker *w);

/* Multiplies by scale (1: not), then cap * tanh(x / cap) (0: not). */
void rows_scale_cap(float *x, int n_rows, int n, float scale, float cap, worker *w);

/* Neither an infinity nor a NaN among n numbers? Of a step's results: nothing is posted. */
bool row_finite(const float *x, size_t n);

#endif
