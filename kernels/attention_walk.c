/* attention_walk.c - a range of keys run by run. See attention_job.h. */
#include <string.h>

#include "kernels/attention_job.h"

/* Scores of rows [row, row + n_rows) for the n keys of a run from `skip` on. at: the first key's place in its range. */
static void score_keys(const head_job *j, int row, int n_rows, const kv_run *run, int skip, int n, int at) {
    const kv_layout *l = j->task->views[0].layout;
    panel_product p = {.y = j->scores + (size_t)row * (size_t)j->s->key_split + at,
                       .ldy = (size_t)j->s->key_split,
                       .x = j->q + (size_t)row * j->ldq,
                       .ldx = j->ldq,
                       .w = (const unsigned char *)run->data + (size_t)skip * l->elem_bytes,
                       .k_stride = run->k_stride,
                       .n_t = n_rows,
                       .n_k = l->head_dim,
                       .width = n};
    job_scores(j, &p, l->format);
    if (run->scales == NULL) return;
    float scale[KV_BLOCK];
    halves_read(scale, run->scales + skip, n, j->w->kernels);
    job_scale(j, row, n_rows, at, n, scale);
}

/* Adds the values of n keys of a run, weighted, to the rows' outputs. Without a window a range's first key starts them. */
static void add_values(const head_job *j, int row, int n_rows, const kv_run *run, int skip, int n, int at, const partial *out) {
    const kv_layout *l = j->task->views[0].layout;
    for (int i = 0; i < n && run->scales != NULL; i += KV_BLOCK) {
        float scale[KV_BLOCK];
        int m = n - i < KV_BLOCK ? n - i : KV_BLOCK;
        halves_read(scale, run->scales + skip + i, m, j->w->kernels);
        job_scale(j, row, n_rows, at + i, m, scale);
    }
    panel_product p = {.y = out->o + (size_t)row * out->ldo,
                       .ldy = out->ldo,
                       .x = j->scores + (size_t)row * (size_t)j->s->key_split + at,
                       .ldx = (size_t)j->s->key_split,
                       .w = (const unsigned char *)run->data + (size_t)skip * (size_t)l->head_dim * l->elem_bytes,
                       .k_stride = run->k_stride,
                       .chunk_stride = KV_BLOCK,
                       .n_t = n_rows,
                       .n_k = n,
                       .width = l->head_dim,
                       .more = at > 0 || j->s->window > 0};
    job_values(j, &p, l->format);
}

/* Goes over keys [from, to) of one sequence for task rows [first, first + n): run by run, each read once for all the rows that see it.
 * out NULL: scores; else values. */
static void keys_walk(const head_job *j, const kv_view *view, int first, int n, int range, int from, int to,
                      const partial *out) {
    const int *pos = j->task->pos + first;
    int begin = range * j->s->key_split;
    for (int key = from; key < to;) {
        kv_run run =
            out == NULL ? kv_keys(view, j->kv_head, key, to, &j->w->meter) : kv_values(view, j->kv_head, key, to, &j->w->meter);
        int end = key + run.n;
        bool all = pos[0] + 1 >= end && visible_from(j->s, pos[n - 1]) <= key;
        int step = all ? n : 1; /* where a row's view begins or ends inside the run, rows go one by one */
        for (int i = 0; i < n; i += step) {
            int lo = visible_from(j->s, pos[i]), a = all || lo < key ? key : lo, b = all || pos[i] + 1 > end ? end : pos[i] + 1;
            if (a >= b) continue;
            int row = (first + i) * j->group, n_rows = step * j->group;
            if (out == NULL) {
                score_keys(j, row, n_rows, &run, a - key, b - a, a - begin);
            } else {
                add_values(j, row, n_rows, &run, a - key, b - a, a - begin, out);
            }
        }
        key = end;
    }
}

/* All rows of the task over one range: keys that a group shares once for all its members, then each member's own. */
static void members_walk(const head_job *j, int range, const partial *out) {
    const attention_task *t = j->task;
    int begin = range * j->s->key_split, end = begin + j->s->key_split;
    int shared = t->n_shared < end ? t->n_shared : end;
    if (shared > begin) keys_walk(j, &t->views[0], 0, task_rows(t), range, begin, shared, out);
    for (int i = 0; i < t->n_members; i++) {
        int first = i * t->n_rows, from, to, unused;
        visible_in_range(j->s, t->pos[first], range, &from, &unused);
        visible_in_range(j->s, t->pos[first + t->n_rows - 1], range, &unused, &to);
        if (from < shared) from = shared;
        if (from < to) keys_walk(j, &t->views[i], first, t->n_rows, range, from, to, out);
    }
}

void range_walk(const head_job *j, int range, partial p) {
    members_walk(j, range, NULL);
    job_softmax(j, range, p);
    for (int row = 0; row < j->n_rows && j->s->window > 0; row++) { /* rows start at different keys: all from 0 */
        memset(p.o + (size_t)row * p.ldo, 0, (size_t)j->s->head_dim * sizeof *p.o);
    }
    members_walk(j, range, &p);
}
