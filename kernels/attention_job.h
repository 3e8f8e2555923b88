/* attention_job.h - what the files of attention share: one task at one K/V head, over one range of keys.
 *
 *   attention.c         tasks and heads shared out, ranges merged, results written
 *   attention_row.c     a range for one row, all heads at once (decode)
 *   attention_walk.c    a range run by run, as the cache has it: few rows, windows, odd pages, int8, sequences that share pages
 *   attention_gather.c  a range converted to fp32 once for many rows (prefill)
 *
 * All ways make each score and each output as the same chain of multiply-adds, so which one is taken changes no bit. */
#ifndef TALLY_ATTENTION_JOB_H
#define TALLY_ATTENTION_JOB_H

#include "kernels/attention.h"

/* A job of one row may have several K/V heads, any other has one. Row i*rows_each + j is the task's row i, query head j of those that share the
 * job's K/V heads. */
typedef struct {
    const attention_task *task;
    const attention_shape *s;
    int kv_head, n_kv_heads; /* the first, and how many */
    int group;               /* query heads of a K/V head */
    int rows_each, n_rows;   /* n_kv_heads x group; times the task's rows */
    const float *q;          /* [n_rows, head_dim], rows ldq floats apart: where q lies, or a copy */
    size_t ldq;
    float *scores;   /* [n_rows, key_split] */
    float *gathered; /* [key_split rounded up to 16, head_dim]: a range's keys, then its values, as fp32 */
    worker *w;
} head_job;

/* What attending to some keys leaves for each row; o is normalised by its own sum. */
typedef struct {
    float *o; /* [n_rows, head_dim], rows ldo floats apart */
    size_t ldo;
    float *max, *sum; /* [n_rows] */
} partial;

/* Keys that a query at pos sees: [lo, pos]. */
static inline int visible_from(const attention_shape *s, int pos) {
    return s->window > 0 && pos >= s->window ? pos - s->window + 1 : 0;
}
/* The part of [lo, pos] that lies in a range of keys; empty when *from >= *to. */
static inline void visible_in_range(const attention_shape *s, int pos, int range, int *from, int *to) {
    int lo = visible_from(s, pos), begin = range * s->key_split;
    *from = lo > begin ? lo : begin;
    *to = pos + 1 < begin + s->key_split ? pos + 1 : begin + s->key_split;
}
/* FLOPs of the softmax, a key: scale, largest, subtract, exp, add, divide; a soft cap divides, takes tanh and multiplies. */
static inline uint64_t softmax_flops(const attention_shape *s) {
    return s->softcap != 0.0f ? 9 : 6;
}
static inline int task_rows(const attention_task *t) {
    return t->n_members * t->n_rows;
}

/* scores of n_rows rows for p->width keys (the first one key `at` of the range), or values of p->n_k keys: the product of the cache's type,
 * and its posting. */
void job_scores(const head_job *j, const panel_product *p, const kv_format *f);
void job_values(const head_job *j, const panel_product *p, const kv_format *f);

/* int8: multiplies the scores or weights of rows [row, row + n_rows) for n keys from `at` on by the keys' own scales. */
void job_scale(const head_job *j, int row, int n_rows, int at, int n, const float *scale);

/* n fp16 numbers at any address, as fp32. n <= key_split. */
void halves_read(float *out, const uint16_t *in, int n, const kernel_set *kernels);

/* Softmax of the rows that see something of the range. */
void job_softmax(const head_job *j, int range, partial p);

/* Attends to one range. Rows that see none of it are left alone. */
void range_walk(const head_job *j, int range, partial p);
/* For a job of one row only; false: nothing was done, for the range does not lie evenly. */
bool range_row(const head_job *j, int range, partial p);
void range_gather(const head_job *j, int range, partial p);

#endif
