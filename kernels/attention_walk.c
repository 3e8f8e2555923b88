/* attention_walk.c - a range of keys as the cache has it, run by run. See attention_job.h.
 *
 * Runs that all rows see whole, and that lie alike, are collected and go through one product: its chunks (keys) or segments of k (values)
 * are pages wherever they are. A run that some row sees only in part goes row by row. */
#include <string.h>

#include "kernels/attention_job.h"

enum { MOST_RUNS = 32 };

/* Rows [row, row + n_rows) of the job, over keys of one sequence. */
typedef struct {
    const head_job *j;
    const partial *out; /* NULL: scores are made; else values are added to out */
    int begin;          /* of the range */
    int row, n_rows;
    const void *data[MOST_RUNS];
    int n_runs, at, n; /* collected: from key begin + at, n keys */
    int each;          /* keys in every run but the last */
    size_t k_stride;
    bool scaled;
} walk;

/* For task rows [first, first + n). The list stays as it is: a step of a small model has thousands of walks. */
static void walk_init(walk *w, const head_job *j, const partial *out, int range, int first, int n) {
    w->j = j;
    w->out = out;
    w->begin = range * j->s->key_split;
    w->row = first * j->group;
    w->n_rows = n * j->group;
    w->n_runs = w->at = w->n = w->each = 0;
    w->k_stride = 0;
    w->scaled = false;
}

/* int8's scales of the keys (or values), by their place in the range. */
static float *scales_of(const walk *w) {
    return w->j->gathered;
}

static void scores_flush(walk *w) {
    const head_job *j = w->j;
    const kv_layout *l = j->task->views[0].layout;
    panel_product p = {.y = j->scores + (size_t)w->row * (size_t)j->s->key_split + w->at,
                       .ldy = (size_t)j->s->key_split,
                       .x = j->q + (size_t)w->row * j->ldq,
                       .ldx = j->ldq,
                       .chunks = w->data,
                       .k_stride = w->k_stride,
                       .n_t = w->n_rows,
                       .n_k = l->head_dim,
                       .width = w->n};
    job_scores(j, &p, l->format);
    if (w->scaled) job_scale(j, w->row, w->n_rows, w->at, w->n, scales_of(w) + w->at);
}

/* Without a window a range's first key starts the rows' outputs; with one they have been set to 0. */
static void values_flush(walk *w) {
    const head_job *j = w->j;
    const kv_layout *l = j->task->views[0].layout;
    if (w->scaled) job_scale(j, w->row, w->n_rows, w->at, w->n, scales_of(w) + w->at);
    panel_product p = {.y = w->out->o + (size_t)w->row * w->out->ldo,
                       .ldy = w->out->ldo,
                       .x = j->scores + (size_t)w->row * (size_t)j->s->key_split + w->at,
                       .ldx = (size_t)j->s->key_split,
                       .segments = w->data,
                       .segment_k = w->each,
                       .k_stride = w->k_stride,
                       .chunk_stride = KV_BLOCK,
                       .n_t = w->n_rows,
                       .n_k = w->n,
                       .width = l->head_dim,
                       .more = w->at > 0 || j->s->window > 0};
    job_values(j, &p, l->format);
}

static void walk_flush(walk *w) {
    if (w->n_runs > 0 && w->out == NULL) scores_flush(w);
    if (w->n_runs > 0 && w->out != NULL) values_flush(w);
    w->n_runs = w->n = 0;
}

/* Pages lie anywhere, so that the processor cannot foresee the next one: all of a product's are asked for while they are collected. */
static void prefetch(const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const unsigned char *)data + i, 0, 2);
}

/* n keys of a run from `skip` on, the first of them at `at` in the range. */
static void walk_add(walk *w, const kv_run *run, int skip, int n, int at) {
    const kv_layout *l = w->j->task->views[0].layout;
    bool alike = w->n_runs > 0 && w->n_runs < MOST_RUNS && w->n == w->n_runs * w->each && n <= w->each &&
                 run->k_stride == w->k_stride && (w->out != NULL || w->each == KV_BLOCK);
    if (!alike) {
        walk_flush(w);
        w->each = n;
        w->at = at;
        w->k_stride = run->k_stride;
    }
    size_t token = w->out == NULL ? l->elem_bytes : (size_t)l->head_dim * l->elem_bytes;
    w->data[w->n_runs++] = (const unsigned char *)run->data + (size_t)skip * token;
    w->n += n;
    prefetch(w->data[w->n_runs - 1], (w->out == NULL ? run->k_stride : (size_t)n) * (size_t)l->head_dim * l->elem_bytes);
    w->scaled = run->scales != NULL;
    if (w->scaled) halves_read(scales_of(w) + at, run->scales + skip, n, w->j->w->kernels);
}

/* Goes over keys [from, to) of one sequence for task rows [first, first + n): each run is read once for all the rows that see it. */
static void keys_walk(const head_job *j, const kv_view *view, int first, int n, int range, int from, int to,
                      const partial *out) {
    const int *pos = j->task->pos + first;
    walk w;
    walk_init(&w, j, out, range, first, n);
    for (int key = from, end; key < to; key = end) {
        kv_run run =
            out == NULL ? kv_keys(view, j->kv_head, key, to, &j->w->meter) : kv_values(view, j->kv_head, key, to, &j->w->meter);
        end = key + run.n;
        if (pos[0] + 1 >= end && visible_from(j->s, pos[n - 1]) <= key) {
            walk_add(&w, &run, 0, run.n, key - w.begin);
            continue;
        }
        walk_flush(&w);
        for (int i = 0; i < n; i++) { /* a row's view begins or ends inside the run */
            int lo = visible_from(j->s, pos[i]), a = lo < key ? key : lo, b = pos[i] + 1 > end ? end : pos[i] + 1;
            if (a >= b) continue;
            walk one;
            walk_init(&one, j, out, range, first + i, 1);
            walk_add(&one, &run, a - key, b - a, a - w.begin);
            walk_flush(&one);
        }
    }
    walk_flush(&w);
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
