/* attention.h - causal grouped-query attention over a paged KV cache.
 *
 *   o[t,h] = sum_s softmax_s( scale q[t,h] . k[s,g(h)] ) v[s,g(h)],   lo(t) <= s <= pos(t),   g(h) = h / (n_heads / n_kv_heads)
 *
 * Vaswani et al. 2017, eq. 1; grouped queries: Ainslie et al. 2023; pages: Kwon et al. 2023, section 4; soft caps: Gemma 2, 2024;
 * ALiBi: Press et al. 2022.
 *
 * Keys are taken in ranges [i*key_split, (i+1)*key_split) at absolute positions. Each range has a softmax of its own, and ranges are
 * merged in order: with maxima m, sums l, normalised outputs o,
 *     M = max(m1, m2), a = l1 exp(m1 - M), b = l2 exp(m2 - M), L = a + b:   o = o1 (a/L) + o2 (b/L)
 * so that ranges may be worked on apart. What is a range depends on positions alone: neither threads, nor tiles, nor pages, nor who else
 * is in the batch can change a bit. Nothing here depends on the data, so the counts do not either. */
#ifndef TALLY_ATTENTION_H
#define TALLY_ATTENTION_H

#include "kernels/kv_page.h"
#include "kernels/worker.h"

/* Rows that share one reading of the cache: a tile of consecutive rows of one sequence, or one row of each of several sequences that
 * share their first n_shared tokens. */
typedef struct {
    int n_members;        /* sequences: 1, or the size of a group */
    int first_row;        /* of the first member; a group's members have consecutive rows */
    int n_rows;           /* rows of each member: the tile; 1 in a group */
    int n_shared;         /* tokens read once for all members; 0 where there is one */
    const int *pos;       /* [n_members * n_rows] positions, consecutive within a member */
    const kv_view *views; /* [n_members] */
} attention_task;

typedef struct {
    int n_heads, n_kv_heads, head_dim;
    float scale, softcap;      /* softcap 0: none */
    int window;                /* keys p-window+1 ... p; 0: all up to p */
    const float *alibi_slopes; /* [n_heads], times the key's position minus the query's, added to the capped score; or NULL */
    int key_split;
} attention_shape;

/* out, q: [rows, n_heads, head_dim]. The tasks cover every row once. Called by all workers of a team; returns when all are done.
 * partials: attention_partials_bytes(), shared by the workers, for ranges that are worked on apart. out may not be q. */
void attention(float *out, const float *q, const attention_task *tasks, int n_tasks, const attention_shape *s, float *partials,
               worker *w);

/* Scratch that one worker needs. max_rows: the most rows of one task (n_members * n_rows). */
size_t attention_scratch_bytes(const attention_shape *s, int max_rows);
/* Room shared by the workers, for contexts of up to max_ctx tokens; 0 for one worker. */
size_t attention_partials_bytes(const attention_shape *s, int n_workers, int max_ctx);

#endif
