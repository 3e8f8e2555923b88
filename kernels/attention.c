#include "kernels/attention.h"

#include <math.h>
#include <string.h>

/* One task at one K/V head: the rows of its whole group of query heads. Row i*G + j is the task's row i, query head j of the group. */
typedef struct {
    const attention_task *task;
    const attention_shape *s;
    int kv_head, group; /* group: query heads that share the K/V head */
    int n_rows;         /* task rows x group */
    float *q;           /* [n_rows, head_dim] */
    float *scores;      /* [n_rows, key_split] */
    worker *w;
} head_job;

/* What attending to some keys leaves for each row; o is normalised by its own sum. */
typedef struct {
    float *o;         /* [n_rows, head_dim] */
    float *max, *sum; /* [n_rows] */
} partial;

static size_t partial_floats(const attention_shape *s, int n_rows) {
    return (size_t)n_rows * ((size_t)s->head_dim + 2);
}

static partial partial_at(float *memory, const attention_shape *s, int n_rows) {
    partial p = {.o = memory, .max = memory + (size_t)n_rows * (size_t)s->head_dim};
    p.sum = p.max + n_rows;
    return p;
}

static int task_rows(const attention_task *t) {
    return t->n_members * t->n_rows;
}

/* Keys that a query at pos sees: [lo, pos]. */
static int visible_from(const attention_shape *s, int pos) {
    return s->window > 0 && pos >= s->window ? pos - s->window + 1 : 0;
}

/* The part of [lo, pos] that lies in a range of keys; empty when *from >= *to. */
static void visible_in_range(const attention_shape *s, int pos, int range, int *from, int *to) {
    int lo = visible_from(s, pos), begin = range * s->key_split;
    *from = lo > begin ? lo : begin;
    *to = pos + 1 < begin + s->key_split ? pos + 1 : begin + s->key_split;
}

static void product(const head_job *j, const panel_product *p, term t) {
    const kv_layout *l = j->task->views[0].layout;
    const kernel_set *k = j->w->kernels;
    (l->type == DTYPE_F32 ? k->product_f32 : l->type == DTYPE_F16 ? k->product_f16 : k->product_i8)(p);
    meter_post(&j->w->meter, t, 2 * (uint64_t)p->n_t * (uint64_t)p->n_k * (uint64_t)p->width);
}

/* int8: multiplies each row's numbers for keys [0, n) by the keys' (or values') own scales. */
static void apply_scales(const head_job *j, float *s, int n_rows, const uint16_t *scales, int n) {
    if (scales == NULL) return;
    for (int i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const unsigned char *)scales + 2 * i, sizeof h);
        float scale = f16_to_f32(h);
        for (int r = 0; r < n_rows; r++) s[(size_t)r * (size_t)j->s->key_split + (size_t)i] *= scale;
    }
    meter_post(&j->w->meter, TERM_FLOPS_QUANTISE, (uint64_t)n_rows * (uint64_t)n);
}

/* Scores of rows [row, row + n_rows) for n keys of a run, the first of them `skip` into it. at: the first key's place in its range. */
static void score_keys(const head_job *j, int row, int n_rows, const kv_run *run, int skip, int n, int at) {
    const kv_layout *l = j->task->views[0].layout;
    float *scores = j->scores + (size_t)row * (size_t)j->s->key_split + at;
    panel_product p = {.y = scores,
                       .ldy = (size_t)j->s->key_split,
                       .x = j->q + (size_t)row * (size_t)l->head_dim,
                       .ldx = (size_t)l->head_dim,
                       .w = (const unsigned char *)run->data + (size_t)skip * l->elem_bytes,
                       .k_stride = run->k_stride,
                       .n_t = n_rows,
                       .n_k = l->head_dim,
                       .width = n};
    product(j, &p, TERM_FLOPS_SCORES);
    apply_scales(j, scores, n_rows, run->scales == NULL ? NULL : run->scales + skip, n);
    if (j->kv_head == 0) meter_post(&j->w->meter, TERM_KEYS_ATTENDED, (uint64_t)(n_rows / j->group) * (uint64_t)n);
}

/* Adds the values of n keys of a run, weighted, to the rows' outputs. */
static void add_values(const head_job *j, int row, int n_rows, const kv_run *run, int skip, int n, int at, float *o) {
    const kv_layout *l = j->task->views[0].layout;
    float *weights = j->scores + (size_t)row * (size_t)j->s->key_split + at;
    apply_scales(j, weights, n_rows, run->scales == NULL ? NULL : run->scales + skip, n);
    panel_product p = {.y = o + (size_t)row * (size_t)l->head_dim,
                       .ldy = (size_t)l->head_dim,
                       .x = weights,
                       .ldx = (size_t)j->s->key_split,
                       .w = (const unsigned char *)run->data + (size_t)skip * (size_t)l->head_dim * l->elem_bytes,
                       .k_stride = run->k_stride,
                       .chunk_stride = KV_BLOCK,
                       .n_t = n_rows,
                       .n_k = n,
                       .width = l->head_dim,
                       .more = true};
    product(j, &p, TERM_FLOPS_VALUES);
}

/* Goes over keys [from, to) of one sequence for task rows [first, first + n): run by run, each read once for all the rows that see it. */
static void keys_walk(const head_job *j, const kv_view *view, int first, int n, int range, int from, int to, float *o) {
    const int *pos = j->task->pos + first;
    int begin = range * j->s->key_split;
    for (int key = from; key < to;) {
        kv_run run =
            o == NULL ? kv_keys(view, j->kv_head, key, to, &j->w->meter) : kv_values(view, j->kv_head, key, to, &j->w->meter);
        int end = key + run.n;
        bool all = pos[0] + 1 >= end && visible_from(j->s, pos[n - 1]) <= key;
        int step = all ? n : 1; /* where a row's view begins or ends inside the run, rows go one by one */
        for (int i = 0; i < n; i += step) {
            int lo = visible_from(j->s, pos[i]), a = all || lo < key ? key : lo, b = all || pos[i] + 1 > end ? end : pos[i] + 1;
            if (a >= b) continue;
            int row = (first + i) * j->group, n_rows = step * j->group;
            if (o == NULL) {
                score_keys(j, row, n_rows, &run, a - key, b - a, a - begin);
            } else {
                add_values(j, row, n_rows, &run, a - key, b - a, a - begin, o);
            }
        }
        key = end;
    }
}

/* All rows of the task over one range: keys that a group shares once for all its members, then each member's own.
 * o NULL: scores; else values. */
static void range_walk(const head_job *j, int range, float *o) {
    const attention_task *t = j->task;
    int begin = range * j->s->key_split, end = begin + j->s->key_split;
    int shared = t->n_shared < end ? t->n_shared : end;
    if (shared > begin) keys_walk(j, &t->views[0], 0, task_rows(t), range, begin, shared, o);
    for (int i = 0; i < t->n_members; i++) {
        int first = i * t->n_rows, from, to, unused;
        visible_in_range(j->s, t->pos[first], range, &from, &unused);
        visible_in_range(j->s, t->pos[first + t->n_rows - 1], range, &unused, &to);
        if (from < shared) from = shared;
        if (from < to) keys_walk(j, &t->views[i], first, t->n_rows, range, from, to, o);
    }
}

/* score = cap(scale q.k) + slope (key - query): a soft cap is of q.k alone, and does not squeeze the bias. */
static void add_alibi(const head_job *j, float *scores, int row, int from, int n) {
    const attention_shape *s = j->s;
    int pos = j->task->pos[row / j->group];
    float slope = s->alibi_slopes[j->kv_head * j->group + row % j->group], cap = s->softcap;
    for (int i = 0; i < n; i++) {
        float x = scores[i] * s->scale;
        if (cap != 0.0f) x = cap * tanhf(x / cap);
        scores[i] = x + slope * (float)(from + i - pos);
    }
    meter_post(&j->w->meter, TERM_FLOPS_POSITION, 2 * (uint64_t)n);
}

static void row_softmax(const head_job *j, int row, int from, int to, int begin, partial p) {
    const attention_shape *s = j->s;
    float *scores = j->scores + (size_t)row * (size_t)s->key_split + (from - begin);
    int n = to - from;
    bool alibi = s->alibi_slopes != NULL;
    if (alibi) add_alibi(j, scores, row, from, n);
    j->w->kernels->softmax(scores, n, alibi ? 1.0f : s->scale, alibi ? 0.0f : s->softcap, &p.max[row], &p.sum[row]);
    meter_post(&j->w->meter, TERM_FLOPS_SOFTMAX, (uint64_t)n * (s->softcap != 0.0f ? 9 : 6));
}

/* Attends to one range of keys. Rows that see none of it are left alone. */
static void range_attend(const head_job *j, int range, partial p) {
    range_walk(j, range, NULL);
    for (int row = 0; row < j->n_rows; row++) {
        int from, to;
        visible_in_range(j->s, j->task->pos[row / j->group], range, &from, &to);
        if (from < to) row_softmax(j, row, from, to, range * j->s->key_split, p);
    }
    memset(p.o, 0, (size_t)j->n_rows * (size_t)j->s->head_dim * sizeof *p.o);
    range_walk(j, range, p.o);
}

/* Merges a range's partial into what the rows have so far; see attention.h for the formula. The first range is taken as it is. */
static void range_merge(const head_job *j, int range, partial all, partial p) {
    int hd = j->s->head_dim;
    for (int row = 0; row < j->n_rows; row++) {
        int pos = j->task->pos[row / j->group], from, to;
        visible_in_range(j->s, pos, range, &from, &to);
        if (from >= to) continue;
        float *o = all.o + (size_t)row * (size_t)hd, *po = p.o + (size_t)row * (size_t)hd;
        if (range == visible_from(j->s, pos) / j->s->key_split) {
            memcpy(o, po, (size_t)hd * sizeof *o);
            all.max[row] = p.max[row];
            all.sum[row] = p.sum[row];
            continue;
        }
        float max = p.max[row] <= all.max[row] ? all.max[row] : p.max[row];
        float a = all.sum[row] * expf(all.max[row] - max), b = p.sum[row] * expf(p.max[row] - max), sum = a + b;
        j->w->kernels->merge(o, po, a / sum, b / sum, hd);
        all.max[row] = max;
        all.sum[row] = sum;
        meter_post(&j->w->meter, TERM_FLOPS_MERGE,
                   10 + 3 * (uint64_t)hd); /* max; 2 x (subtract, exp, multiply); add; 2 divisions; and o */
    }
}

static void task_ranges(const attention_task *t, const attention_shape *s, int *first, int *last) {
    *first = visible_from(s, t->pos[0]) / s->key_split;
    *last = 0;
    for (int i = 0; i < task_rows(t); i++) {
        int lo = visible_from(s, t->pos[i]) / s->key_split, hi = t->pos[i] / s->key_split;
        if (lo < *first) *first = lo;
        if (hi > *last) *last = hi;
    }
}

/* Scratch of a worker: q, scores, and two partials. */
size_t attention_scratch_bytes(const attention_shape *s, int max_rows) {
    size_t rows = (size_t)max_rows * (size_t)(s->n_heads / s->n_kv_heads);
    return (rows * ((size_t)s->head_dim + (size_t)s->key_split) + 2 * partial_floats(s, (int)rows)) * sizeof(float);
}

static head_job job_make(const attention_task *t, const attention_shape *s, int kv_head, const float *q, worker *w) {
    int group = s->n_heads / s->n_kv_heads;
    head_job j = {.task = t, .s = s, .kv_head = kv_head, .group = group, .n_rows = task_rows(t) * group, .w = w};
    j.q = w->scratch;
    j.scores = j.q + (size_t)j.n_rows * (size_t)s->head_dim;
    size_t part = (size_t)group * (size_t)s->head_dim, q_dim = (size_t)s->n_heads * (size_t)s->head_dim;
    for (int i = 0; i < task_rows(t); i++) {
        memcpy(j.q + (size_t)i * part, q + (size_t)(t->first_row + i) * q_dim + (size_t)kv_head * part, part * sizeof *q);
    }
    return j;
}

static float *job_partials(const head_job *j) {
    return j->scores + (size_t)j->n_rows * (size_t)j->s->key_split;
}

static void job_write(const head_job *j, float *out, const float *o) {
    size_t part = (size_t)j->group * (size_t)j->s->head_dim, q_dim = (size_t)j->s->n_heads * (size_t)j->s->head_dim;
    for (int i = 0; i < task_rows(j->task); i++) {
        memcpy(out + (size_t)(j->task->first_row + i) * q_dim + (size_t)j->kv_head * part, o + (size_t)i * part,
               part * sizeof *o);
    }
}

/* Enough for a decode step of few sequences over a long context: there, ranges are the only work to share out. */
enum { PARTIAL_JOBS = 4 };

size_t attention_partials_bytes(const attention_shape *s, int n_workers, int max_ctx) {
    if (n_workers < 2) return 0;
    size_t jobs = (size_t)PARTIAL_JOBS * (size_t)n_workers,
           ranges = ((size_t)max_ctx + (size_t)s->key_split - 1) / (size_t)s->key_split;
    return jobs * ranges * partial_floats(s, s->n_heads / s->n_kv_heads) * sizeof(float);
}

/* Ranges apart: item i is the i-th (task, head, range) counted through; partials lie one after another in that order. */
static void attention_by_range(float *out, const float *q, const attention_task *tasks, int n_tasks, const attention_shape *s,
                               float *partials, worker *w) {
    for (int pass = 0; pass < 2; pass++) { /* attend, then merge in order */
        float *at = partials;
        for (int i = 0, item = 0; i < n_tasks * s->n_kv_heads; i++) {
            const attention_task *t = &tasks[i / s->n_kv_heads];
            int first, last;
            task_ranges(t, s, &first, &last);
            head_job j = {.w = w};
            bool mine = pass == 1 && i % w->n_workers == w->id;
            if (mine) j = job_make(t, s, i % s->n_kv_heads, q, w);
            int n_rows = task_rows(t) * (s->n_heads / s->n_kv_heads);
            for (int range = first; range <= last; range++, item++, at += partial_floats(s, n_rows)) {
                if (pass == 0 && item % w->n_workers == w->id) {
                    j = job_make(t, s, i % s->n_kv_heads, q, w);
                    range_attend(&j, range, partial_at(at, s, n_rows));
                } else if (mine) {
                    range_merge(&j, range, partial_at(job_partials(&j), s, n_rows), partial_at(at, s, n_rows));
                }
            }
            if (mine) job_write(&j, out, job_partials(&j));
        }
        worker_barrier(w);
    }
}

/* Are there too few (task, head) pairs to keep the workers busy, and is there room to work on ranges apart? */
static bool ranges_apart(const attention_task *tasks, int n_tasks, const attention_shape *s, const worker *w) {
    if (w->n_workers == 1 || n_tasks * s->n_kv_heads >= PARTIAL_JOBS * w->n_workers) return false;
    int most = 0;
    for (int i = 0; i < n_tasks; i++) {
        int first, last;
        if (task_rows(&tasks[i]) > 1) return false;
        task_ranges(&tasks[i], s, &first, &last);
        if (last - first > most) most = last - first;
    }
    return most > 0;
}

void attention(float *out, const float *q, const attention_task *tasks, int n_tasks, const attention_shape *s, float *partials,
               worker *w) {
    if (ranges_apart(tasks, n_tasks, s, w)) {
        attention_by_range(out, q, tasks, n_tasks, s, partials, w);
        return;
    }
    for (int i = w->id; i < n_tasks * s->n_kv_heads; i += w->n_workers) {
        const attention_task *t = &tasks[i / s->n_kv_heads];
        head_job j = job_make(t, s, i % s->n_kv_heads, q, w);
        float *memory = job_partials(&j);
        partial all = partial_at(memory, s, j.n_rows), p = partial_at(memory + partial_floats(s, j.n_rows), s, j.n_rows);
        int first, last;
        task_ranges(t, s, &first, &last);
        for (int range = first; range <= last; range++) {
            range_attend(&j, range, p);
            range_merge(&j, range, all, p);
        }
        job_write(&j, out, all.o);
    }
    worker_barrier(w);
}
