#include "kernels/attention.h"

#include <math.h>
#include <string.h>

#include "kernels/attention_job.h"

/* From this many rows of one task on, a range is converted to fp32 once for all of them. Measured in docs/performance.md. */
enum { GATHER_ROWS = 12 };

static size_t partial_floats(const attention_shape *s, int n_rows) {
    return (size_t)n_rows * ((size_t)s->head_dim + 2);
}

static partial partial_at(float *memory, const attention_shape *s, int n_rows) {
    partial p = {.o = memory, .ldo = (size_t)s->head_dim, .max = memory + (size_t)n_rows * (size_t)s->head_dim};
    p.sum = p.max + n_rows;
    return p;
}

static void product(const head_job *j, const panel_product *p, const kv_format *f, term t) {
    f->product(p, j->w->kernels);
    meter_post(&j->w->meter, t, 2 * (uint64_t)p->n_t * (uint64_t)p->n_k * (uint64_t)p->width);
}

void job_scores(const head_job *j, const panel_product *p, const kv_format *f) {
    product(j, p, f, TERM_FLOPS_SCORES);
    if (j->kv_head == 0) meter_post(&j->w->meter, TERM_KEYS_ATTENDED, (uint64_t)(p->n_t / j->group) * (uint64_t)p->width);
}

void job_values(const head_job *j, const panel_product *p, const kv_format *f) {
    product(j, p, f, TERM_FLOPS_VALUES);
}

void job_scale(const head_job *j, int row, int n_rows, int at, int n, const float *scale) {
    for (int r = row; r < row + n_rows; r++) {
        float *s = j->scores + (size_t)r * (size_t)j->s->key_split + (size_t)at;
        for (int i = 0; i < n; i++) s[i] *= scale[i];
    }
    meter_post(&j->w->meter, TERM_FLOPS_QUANTISE, (uint64_t)n_rows * (uint64_t)n);
}

void halves_read(float *out, const uint16_t *in, int n, const kernel_set *kernels) {
    uint16_t h[64];
    for (int i = 0, m; i < n; i += m) {
        m = n - i < 64 ? n - i : 64;
        memcpy(h, (const unsigned char *)in + 2 * i, (size_t)m * sizeof *h);
        kernels->f16_to_f32(out + i, h, (size_t)m);
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
    meter_post(&j->w->meter, TERM_FLOPS_SOFTMAX, (uint64_t)n * softmax_flops(s));
}

void job_softmax(const head_job *j, int range, partial p) {
    for (int row = 0; row < j->n_rows; row++) {
        int from, to;
        visible_in_range(j->s, j->task->pos[row / j->group], range, &from, &to);
        if (from < to) row_softmax(j, row, from, to, range * j->s->key_split, p);
    }
}

/* The job's K/V head h alone, and its rows of a partial. */
static head_job job_head(const head_job *j, int h, partial *p) {
    head_job one = *j;
    size_t row = (size_t)(h * j->group);
    one.kv_head += h;
    one.n_kv_heads = 1;
    one.rows_each = one.n_rows = j->group;
    one.q += row * j->ldq;
    p->o += row * p->ldo;
    p->max += row;
    p->sum += row;
    return one;
}

static void range_attend(const head_job *j, int range, partial p) {
    if (task_rows(j->task) == 1) {
        if (range_row(j, range, p)) return;
        for (int h = 0; h < j->n_kv_heads; h++) {
            partial mine = p;
            head_job one = job_head(j, h, &mine);
            range_walk(&one, range, mine);
        }
    } else if (j->n_rows >= GATHER_ROWS && j->task->n_members == 1 && j->s->window == 0) {
        range_gather(j, range, p);
    } else {
        range_walk(j, range, p);
    }
}

/* Merges a range's partial into what the rows have so far; see attention.h for the formula. The first range is taken as it is. */
static void range_merge(const head_job *j, int range, partial all, partial p) {
    int hd = j->s->head_dim;
    for (int row = 0; row < j->n_rows; row++) {
        int pos = j->task->pos[row / j->rows_each], from, to;
        visible_in_range(j->s, pos, range, &from, &to);
        if (from >= to) continue;
        float *o = all.o + (size_t)row * all.ldo, *po = p.o + (size_t)row * p.ldo;
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

/* A worker's scratch: [q | scores | two partials | gathered keys or values and their scales]. */
size_t attention_scratch_bytes(const attention_shape *s, int max_rows) {
    size_t rows = (size_t)max_rows * (size_t)(s->n_heads / s->n_kv_heads), heads = (size_t)s->n_heads,
           split = (size_t)s->key_split + KV_BLOCK;
    if (rows < heads) rows = heads; /* a job of one row may have all heads */
    return (rows * ((size_t)s->head_dim + (size_t)s->key_split) + 2 * partial_floats(s, (int)rows) +
            split * ((size_t)s->head_dim + 1)) *
           sizeof(float);
}

/* Where row r of the job lies in q and in the output, if its rows are evenly spaced there: one row's heads are, and so are the rows of a
 * head that shares its keys with no other. Else false: they are copied. */
static bool rows_in_place(const attention_task *t, const attention_shape *s, size_t *ld) {
    *ld = task_rows(t) == 1 ? (size_t)s->head_dim : (size_t)s->n_heads * (size_t)s->head_dim;
    return task_rows(t) == 1 || s->n_heads == s->n_kv_heads;
}

static size_t first_row_at(const attention_task *t, const attention_shape *s, int kv_head) {
    size_t group = (size_t)(s->n_heads / s->n_kv_heads);
    return ((size_t)t->first_row * (size_t)s->n_heads + (size_t)kv_head * group) * (size_t)s->head_dim;
}

static head_job job_make(const attention_task *t, const attention_shape *s, int kv_head, int n_kv_heads, const float *q,
                         worker *w) {
    int group = s->n_heads / s->n_kv_heads;
    head_job j = {.task = t, .s = s, .kv_head = kv_head, .n_kv_heads = n_kv_heads, .group = group, .w = w};
    j.rows_each = group * n_kv_heads;
    j.n_rows = task_rows(t) * j.rows_each;
    float *copy = w->scratch;
    j.scores = copy + (size_t)j.n_rows * (size_t)s->head_dim;
    j.gathered = j.scores + (size_t)j.n_rows * (size_t)s->key_split + 2 * partial_floats(s, j.n_rows);
    j.q = q + first_row_at(t, s, kv_head);
    if (rows_in_place(t, s, &j.ldq)) return j;
    size_t part = (size_t)group * (size_t)s->head_dim, q_dim = (size_t)s->n_heads * (size_t)s->head_dim;
    for (int i = 0; i < task_rows(t); i++) memcpy(copy + (size_t)i * part, j.q + (size_t)i * q_dim, part * sizeof *q);
    j.q = copy;
    j.ldq = (size_t)s->head_dim;
    return j;
}

/* The two partials of scratch: what the job has so far (its output in place where that is possible), and a range's. */
static void job_partials(const head_job *j, float *out, partial *all, partial *next) {
    float *memory = j->scores + (size_t)j->n_rows * (size_t)j->s->key_split;
    size_t ld;
    *all = partial_at(memory, j->s, j->n_rows);
    *next = partial_at(memory + partial_floats(j->s, j->n_rows), j->s, j->n_rows);
    if (!rows_in_place(j->task, j->s, &ld)) return;
    all->o = out + first_row_at(j->task, j->s, j->kv_head);
    all->ldo = ld;
}

/* Writes a copied job's result to its place. */
static void job_write(const head_job *j, float *out, const partial *all) {
    size_t part = (size_t)j->group * (size_t)j->s->head_dim, q_dim = (size_t)j->s->n_heads * (size_t)j->s->head_dim, ld;
    if (rows_in_place(j->task, j->s, &ld)) return;
    out += first_row_at(j->task, j->s, j->kv_head);
    for (int i = 0; i < task_rows(j->task); i++) memcpy(out + (size_t)i * q_dim, all->o + (size_t)i * part, part * sizeof *out);
}

/* Enough for a decode step of few sequences over a long context: there, ranges are the only work to share out. */
enum { PARTIAL_JOBS = 4 };

size_t attention_partials_bytes(const attention_shape *s, int n_workers, int max_ctx) {
    if (n_workers < 2) return 0;
    size_t jobs = (size_t)PARTIAL_JOBS * (size_t)n_workers,
           ranges = ((size_t)max_ctx + (size_t)s->key_split - 1) / (size_t)s->key_split;
    return jobs * ranges * partial_floats(s, s->n_heads / s->n_kv_heads) * sizeof(float);
}

static int ranges_in_all(const attention_task *tasks, int n_tasks, const attention_shape *s) {
    int n = 0;
    for (int i = 0, first, last; i < n_tasks; i++) {
        task_ranges(&tasks[i], s, &first, &last);
        n += last - first + 1;
    }
    return n;
}

/* Ranges apart: item i is the i-th (task, head, range) counted through, or (task, range) with all heads where these are enough; partials lie one
 * after another in that order. */
static void attention_by_range(float *out, const float *q, const attention_task *tasks, int n_tasks, const attention_shape *s,
                               float *partials, worker *w) {
    int heads = ranges_in_all(tasks, n_tasks, s) >= PARTIAL_JOBS * w->n_workers ? s->n_kv_heads : 1;
    for (int pass = 0; pass < 2; pass++) { /* attend, then merge in order */
        float *at = partials;
        for (int i = 0, item = 0; i < n_tasks * s->n_kv_heads; i += heads) {
            const attention_task *t = &tasks[i / s->n_kv_heads];
            int first, last, n_rows = heads * (s->n_heads / s->n_kv_heads);
            task_ranges(t, s, &first, &last);
            head_job j = job_make(t, s, i % s->n_kv_heads, heads, q, w);
            partial all, unused;
            job_partials(&j, out, &all, &unused);
            bool mine = i / heads % w->n_workers == w->id;
            for (int range = first; range <= last; range++, item++, at += partial_floats(s, n_rows)) {
                if (pass == 0 && item % w->n_workers == w->id) range_attend(&j, range, partial_at(at, s, n_rows));
                if (pass == 1 && mine) range_merge(&j, range, all, partial_at(at, s, n_rows));
            }
            if (pass == 1 && mine) job_write(&j, out, &all);
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

static void job_run(float *out, const float *q, const attention_task *t, int kv_head, int n_kv_heads, const attention_shape *s,
                    worker *w) {
    head_job j = job_make(t, s, kv_head, n_kv_heads, q, w);
    partial all, next;
    job_partials(&j, out, &all, &next);
    int first, last;
    task_ranges(t, s, &first, &last);
    if (first == last && s->window == 0) { /* every row sees the only range: nothing to merge */
        range_attend(&j, first, all);
    } else {
        for (int range = first; range <= last; range++) {
            range_attend(&j, range, next);
            range_merge(&j, range, all, next);
        }
    }
    job_write(&j, out, &all);
}

/* K/V heads in a job of one row: all, or as few as give every worker some jobs. */
static int row_heads(int n_tasks, const attention_shape *s, const worker *w) {
    if (w->n_workers == 1 || n_tasks >= PARTIAL_JOBS * w->n_workers) return s->n_kv_heads;
    int each = s->n_kv_heads * n_tasks / (PARTIAL_JOBS * w->n_workers);
    return each < 1 ? 1 : each;
}

void attention(float *out, const float *q, const attention_task *tasks, int n_tasks, const attention_shape *s, float *partials,
               worker *w) {
    if (ranges_apart(tasks, n_tasks, s, w)) {
        attention_by_range(out, q, tasks, n_tasks, s, partials, w);
        return;
    }
    int heads_each = row_heads(n_tasks, s, w);
    for (int i = 0, job = 0; i < n_tasks; i++) {
        int each = task_rows(&tasks[i]) == 1 ? heads_each : 1;
        for (int h = 0; h < s->n_kv_heads; h += each, job++) {
            int n = s->n_kv_heads - h < each ? s->n_kv_heads - h : each;
            if (job % w->n_workers == w->id) job_run(out, q, &tasks[i], h, n, s, w);
        }
    }
    worker_barrier(w);
}
