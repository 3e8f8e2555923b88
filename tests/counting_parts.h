/* counting_parts.h - the two halves of the counting reference: products and norms; attention. Private to tests/counting_*.c. */
#ifndef TALLY_TESTS_COUNTING_PARTS_H
#define TALLY_TESTS_COUNTING_PARTS_H

#include "tests/counted.h"
#include "tests/counting_reference.h"

typedef struct {
    const model *m;
    const model_config *c;
    const execution_plan *plan;
    counting_sequence *const *seqs;
    int n_rows, n_ctx;
    int *row_seq, *pos; /* [n_rows] */
    counter count;
} counting_run;

/* Zeros; ends the program when there is no memory. */
double *counting_numbers(size_t n);

/* counting_linear.c. Rows that are about to meet weights: [n_rows, n_cols], and as int8 with a scale a block of 32 where a matrix wants
 * that. */
typedef struct {
    const double *x;
    int n_rows, n_cols;
    double *q, *scale; /* [n_rows, n_cols], [n_rows, blocks]; NULL: no matrix wants them */
} counting_input;

/* The input of n matrices, quantised once if one of them wants it. */
counting_input counting_input_make(counting_run *r, const double *x, int n_rows, int n_cols, const matrix *const *w, int n);
void counting_input_free(counting_input *in);
/* y = x W^T + b, [n_rows, w->n_rows]; the caller frees it. The terms say what the products and the weights are counted as. */
double *counting_linear(counting_run *r, const matrix *w, const counting_input *in, term flops, term bytes);
/* One row of a table: its bytes are counted, looking it up is no operation. */
void counting_table_row(counting_run *r, double *out, const matrix *table, int row, term bytes);
/* In place: n_rows rows of n_parts parts; nothing where the norm is absent. */
void counting_norm(counting_run *r, double *x, int n_rows, int n_parts, const norm_weights *w);

/* counting_attention.c. Stores this step's rows of K and V in one layer. k, v: [n_rows, kv_dim]. */
void counting_store(counting_run *r, int il, const double *k, const double *v);
/* [n_rows, q_dim] from q, [n_rows, q_dim]; the caller frees it. */
double *counting_attention(counting_run *r, int il, const double *q);

#endif
