/* counting_attention.c - the cache and attention of the counting reference.
 *
 * Rows that share one reading of the cache (a tile of one sequence's rows; decode rows of sequences with a common prefix, for that prefix)
 * keep marks of the keys that have been fetched for them: a key's K and V of one head are counted when the first of them asks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/counting_parts.h"

static void refuse(const char *what) {
    fprintf(stderr, "counting reference: %s\n", what);
    exit(1);
}

static size_t cache_at(const model_config *c, const counting_sequence *s, int il, int pos, int head) {
    return ((size_t)il * (size_t)s->n_ctx + (size_t)pos) * (size_t)c->n_kv_heads + (size_t)head;
}

void counting_sequence_init(counting_sequence *s, const model *m, int n_ctx) {
    const model_config *c = &m->config;
    size_t heads = (size_t)c->n_layers * (size_t)n_ctx * (size_t)c->n_kv_heads, elems = heads * (size_t)c->head_dim;
    *s = (counting_sequence){.n_ctx = n_ctx, .ids = calloc((size_t)n_ctx, sizeof *s->ids)};
    if (s->ids == NULL) refuse("no memory");
    s->k = counting_numbers(elems), s->v = counting_numbers(elems);
    s->k_scale = counting_numbers(heads), s->v_scale = counting_numbers(heads);
}

void counting_sequence_free(counting_sequence *s) {
    free(s->ids), free(s->k), free(s->v), free(s->k_scale), free(s->v_scale);
}

void counting_sequence_copy(counting_sequence *to, const counting_sequence *from, int n, const model *m) {
    const model_config *c = &m->config;
    size_t heads = (size_t)n * (size_t)c->n_kv_heads, hd = (size_t)c->head_dim;
    to->n_tokens = n;
    memcpy(to->ids, from->ids, (size_t)n * sizeof *to->ids);
    for (int il = 0; il < c->n_layers; il++) {
        size_t at = cache_at(c, from, il, 0, 0);
        memcpy(to->k + at * hd, from->k + at * hd, heads * hd * sizeof *to->k);
        memcpy(to->v + at * hd, from->v + at * hd, heads * hd * sizeof *to->v);
        memcpy(to->k_scale + at, from->k_scale + at, heads * sizeof *to->k_scale);
        memcpy(to->v_scale + at, from->v_scale + at, heads * sizeof *to->v_scale);
    }
}

/* Bytes of one element of the cache, and of the scale of one token's head and side. */
static uint64_t elem_bytes(const counting_run *r) {
    return r->plan->kv_type == DTYPE_F32 ? 4 : r->plan->kv_type == DTYPE_F16 ? 2 : 1;
}
static uint64_t scale_bytes(const counting_run *r) {
    return r->plan->kv_type == DTYPE_Q8_0 ? 2 : 0;
}

static double to_half(double x) {
    return (double)f16_to_f32(f32_to_f16((float)x));
}

/* One token's K (or V) of one head as the cache keeps it. */
static void head_store(counting_run *r, double *out, double *scale, const double *x) {
    counter *c = &r->count;
    int hd = r->c->head_dim;
    double top = 0;
    *scale = 1;
    for (int i = 0; i < hd; i++) {
        c->n[TERM_BYTES_KV_WRITTEN] += elem_bytes(r);
        out[i] = r->plan->kv_type == DTYPE_F16 ? to_half(x[i]) : (double)(float)x[i];
    }
    if (r->plan->kv_type != DTYPE_Q8_0) return;
    c->n[TERM_BYTES_KV_WRITTEN] += scale_bytes(r);
    c->to = TERM_FLOPS_QUANTISE; /* largest magnitude, times the inverse, round */
    for (int i = 0; i < hd; i++) top = larger(c, top, fabs(x[i]));
    *scale = to_half(top / 127);
    double inverse = *scale > 0 ? 1 / *scale : 0;
    for (int i = 0; i < hd; i++) out[i] = fmax(-127, fmin(127, round_even(c, mul(c, x[i], inverse))));
}

void counting_store(counting_run *r, int il, const double *k, const double *v) {
    const model_config *c = r->c;
    int hd = c->head_dim;
    for (int t = 0; t < r->n_rows; t++) {
        counting_sequence *s = r->seqs[r->row_seq[t]];
        for (int h = 0; h < c->n_kv_heads; h++) {
            size_t at = cache_at(c, s, il, r->pos[t], h);
            int from = (t * c->n_kv_heads + h) * hd;
            head_store(r, s->k + at * (size_t)hd, &s->k_scale[at], k + from);
            head_store(r, s->v + at * (size_t)hd, &s->v_scale[at], v + from);
        }
        r->count.n[TERM_KEYS_COMPUTED]++;
    }
}

static int first_key(const counting_run *r, int il, int pos) {
    int window = r->c->window;
    return r->c->layer_windowed[il] && pos >= window ? pos - window + 1 : 0;
}

/* Whose pages key `key` of sequence b is read from: those of the first of its group, as far as the prefix is shared. Windowed layers share
 * nothing. */
static int key_owner(const counting_run *r, int il, int b, int key) {
    const plan_sequence *p = r->plan->sequences;
    if (p[b].group < 0 || key >= p[b].n_shared || r->c->layer_windowed[il]) return b;
    int owner = b;
    while (owner > 0 && p[owner - 1].group == p[b].group) owner--;
    if (r->seqs[owner]->ids[key] != r->seqs[b]->ids[key]) refuse("the plan shares a prefix that is not the same");
    return owner;
}

/* Which keys of which sequence one K/V head has been read at, for the rows that share the reading. */
typedef struct {
    unsigned char *fetched; /* [n_sequences][n_ctx] */
    int kv_head;
} reading;

static void key_fetch(counting_run *r, reading *g, int owner, int key) {
    unsigned char *mark = &g->fetched[owner * r->n_ctx + key];
    if (*mark) return;
    *mark = 1;
    bool cached = key < r->plan->sequences[owner].n_cached;
    uint64_t *n = &r->count.n[cached ? TERM_BYTES_KV_CACHED : TERM_BYTES_KV_OWN];
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < r->c->head_dim; i++) *n += elem_bytes(r);
        *n += scale_bytes(r);
    }
}

static double alibi_slope(int h, int n_heads) {
    int power = 1;
    while (2 * power <= n_heads) power *= 2;
    return h < power ? pow(2, -8.0 * (h + 1) / power) : pow(2, -4.0 * (2 * (h - power) + 1) / power);
}

static double score(counting_run *r, const double *q, const double *k, double k_scale, int head, int distance) {
    counter *c = &r->count;
    const model_config *config = r->c;
    double s = 0, cap = (double)config->attn_softcap;
    c->to = TERM_FLOPS_SCORES;
    for (int i = 0; i < config->head_dim; i++) s = add(c, s, mul(c, q[i], k[i]));
    c->to = TERM_FLOPS_QUANTISE;
    if (r->plan->kv_type == DTYPE_Q8_0) s = mul(c, s, k_scale);
    c->to = TERM_FLOPS_SOFTMAX;
    s = mul(c, s, (double)config->attn_scale);
    if (cap != 0) s = mul(c, tangent_h(c, divide(c, s, cap)), cap);
    c->to = TERM_FLOPS_POSITION;
    if (config->position == POSITION_ALIBI) s = sub(c, s, mul(c, alibi_slope(head, config->n_heads), distance));
    return s;
}

/* One query head of one row over one range of keys; o is its own weighted mean. */
typedef struct {
    double *o, max, sum;
} part;

typedef struct {
    int il, row, head;
    const double *q;
    double *weights; /* [n_ctx] */
} query;

static void range_attend(counting_run *r, reading *g, const query *x, int from, int to, part *out) {
    counter *c = &r->count;
    int hd = r->c->head_dim, b = r->row_seq[x->row];
    out->max = -INFINITY, out->sum = 0;
    for (int key = from; key < to; key++) {
        int owner = key_owner(r, x->il, b, key);
        const counting_sequence *s = r->seqs[owner];
        size_t at = cache_at(r->c, s, x->il, key, g->kv_head);
        key_fetch(r, g, owner, key);
        x->weights[key] = score(r, x->q, s->k + at * (size_t)hd, s->k_scale[at], x->head, r->pos[x->row] - key);
        c->to = TERM_FLOPS_SOFTMAX;
        out->max = larger(c, out->max, x->weights[key]);
    }
    for (int key = from; key < to; key++) {
        x->weights[key] = power_of_e(c, sub(c, x->weights[key], out->max));
        out->sum = add(c, out->sum, x->weights[key]);
    }
    for (int i = 0; i < hd; i++) out->o[i] = 0;
    for (int key = from; key < to; key++) {
        const counting_sequence *s = r->seqs[key_owner(r, x->il, b, key)];
        size_t at = cache_at(r->c, s, x->il, key, g->kv_head);
        c->to = TERM_FLOPS_SOFTMAX;
        double weight = divide(c, x->weights[key], out->sum);
        c->to = TERM_FLOPS_QUANTISE;
        if (r->plan->kv_type == DTYPE_Q8_0) weight = mul(c, weight, s->v_scale[at]);
        c->to = TERM_FLOPS_VALUES;
        for (int i = 0; i < hd; i++) out->o[i] = add(c, out->o[i], mul(c, weight, s->v[at * (size_t)hd + (size_t)i]));
    }
}

/* Two ranges' means become one, weighted by their sums brought to a common maximum. */
static void part_merge(counter *c, part *all, const part *p, int hd) {
    c->to = TERM_FLOPS_MERGE;
    double max = larger(c, all->max, p->max);
    double a = mul(c, all->sum, power_of_e(c, sub(c, all->max, max)));
    double b = mul(c, p->sum, power_of_e(c, sub(c, p->max, max)));
    double sum = add(c, a, b), share = divide(c, a, sum), rest = divide(c, b, sum);
    for (int i = 0; i < hd; i++) all->o[i] = add(c, mul(c, all->o[i], share), mul(c, p->o[i], rest));
    all->max = max, all->sum = sum;
}

/* Keys in ranges of key_split at absolute positions, merged in order. */
static void query_attend(counting_run *r, reading *g, const query *x, double *o, double *room) {
    int pos = r->pos[x->row], split = r->plan->key_split, hd = r->c->head_dim;
    part all = {.o = o}, one = {.o = room};
    for (int from = first_key(r, x->il, pos), first = 1, to; from <= pos; from = to, first = 0) {
        to = (from / split + 1) * split;
        if (to > pos + 1) to = pos + 1;
        range_attend(r, g, x, from, to, first ? &all : &one);
        if (!first) part_merge(&r->count, &all, &one, hd);
    }
}

/* Rows [row, row + n): one reading of the cache for each K/V head. */
static void rows_attend(counting_run *r, int il, const double *q, double *o, int row, int n) {
    const model_config *c = r->c;
    int hd = c->head_dim, group = c->n_heads / c->n_kv_heads;
    double *room = counting_numbers((size_t)hd), *weights = counting_numbers((size_t)r->n_ctx);
    size_t marks = (size_t)r->plan->n_sequences * (size_t)r->n_ctx;
    reading g = {.fetched = malloc(marks)};
    if (g.fetched == NULL) refuse("no memory");
    for (g.kv_head = 0; g.kv_head < c->n_kv_heads; g.kv_head++) {
        memset(g.fetched, 0, marks);
        for (int t = row; t < row + n; t++)
            for (int h = g.kv_head * group; h < (g.kv_head + 1) * group; h++) {
                query x = {il, t, h, q + (t * c->n_heads + h) * hd, weights};
                query_attend(r, &g, &x, o + (t * c->n_heads + h) * hd, room);
            }
    }
    free(g.fetched), free(room), free(weights);
}

/* How many rows from `row` on share a reading: the rest of a tile, or of a group. */
static int rows_together(const counting_run *r, int il, int row) {
    const plan_sequence *p = r->plan->sequences;
    int b = r->row_seq[row], n = 1;
    bool grouped = p[b].group >= 0 && !r->c->layer_windowed[il];
    while (row + n < r->n_rows) {
        int other = r->row_seq[row + n];
        if (grouped ? p[other].group != p[b].group : other != b || n == r->plan->query_tile) break;
        n++;
    }
    return n;
}

/* Pairs of rows and keys, and the pages that those keys lie in: each looked up once for a sequence. */
static void keys_count(counting_run *r, int il) {
    int n_ctx = r->n_ctx;
    unsigned char *page_seen = calloc((size_t)r->plan->n_sequences * (size_t)n_ctx, 1);
    if (page_seen == NULL) refuse("no memory");
    for (int t = 0; t < r->n_rows; t++)
        for (int key = first_key(r, il, r->pos[t]); key <= r->pos[t]; key++) {
            unsigned char *seen = &page_seen[r->row_seq[t] * n_ctx + key / r->plan->page_size];
            r->count.n[TERM_KEYS_ATTENDED]++;
            if (!*seen) r->count.n[TERM_BYTES_PAGE_TABLE] += 4;
            *seen = 1;
        }
    free(page_seen);
}

double *counting_attention(counting_run *r, int il, const double *q) {
    double *o = counting_numbers((size_t)r->n_rows * (size_t)config_q_dim(r->c));
    keys_count(r, il);
    for (int row = 0, n; row < r->n_rows; row += n) {
        n = rows_together(r, il, row);
        rows_attend(r, il, q, o, row, n);
    }
    return o;
}
