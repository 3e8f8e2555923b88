#include "engine/sample.h"

#include <math.h>
#include <stdlib.h>

void sampling_init(sampling *s) {
    *s = (sampling){.temperature = 0, .top_k = 0, .top_p = 1, .min_p = 0, .repeat_penalty = 1, .repeat_last_n = 64};
}

status sampling_check(const sampling *s, error *e) {
    /* Written so that NaN fails. */
    if (!(s->temperature >= 0 && s->temperature <= 1e6f))
        return error_set(e, ERR_ARGUMENT, "--temp %g (0, greedy, to 1e6)", (double)s->temperature);
    if (s->top_k < 0) return error_set(e, ERR_ARGUMENT, "--top-k %d (0, all, or more)", s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return error_set(e, ERR_ARGUMENT, "--top-p %g (above 0, at most 1)", (double)s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1)) return error_set(e, ERR_ARGUMENT, "--min-p %g (0 to 1)", (double)s->min_p);
    if (!(s->repeat_penalty >= 0.01f && s->repeat_penalty <= 100)) {
        return error_set(e, ERR_ARGUMENT, "--repeat-penalty %g (0.01 to 100; 1: none)", (double)s->repeat_penalty);
    }
    if (s->repeat_last_n < -1)
        return error_set(e, ERR_ARGUMENT, "--repeat-last-n %d (-1, everything, or more)", s->repeat_last_n);
    return OK;
}

static uint32_t rng_next(sample_rng *r) {
    uint64_t old = r->state;
    r->state = old * 6364136223846793005u + r->increment;
    uint32_t shifted = (uint32_t)(((old >> 18) ^ old) >> 27), turn = (uint32_t)(old >> 59);
    return (shifted >> turn) | (shifted << (-turn & 31));
}

void sample_rng_init(sample_rng *r, uint64_t seed, uint64_t stream) {
    r->state = 0;
    r->increment = stream << 1 | 1;
    rng_next(r);
    r->state += seed;
    rng_next(r);
}

/* In [0, 1), 24 bits: exact in a float. */
static float rng_uniform(sample_rng *r) {
    return (float)(rng_next(r) >> 8) * 0x1p-24f;
}

status sample_scratch_create(sample_scratch *s, int n_vocab, int n_allowed, error *e) {
    *s = (sample_scratch){.n_vocab = n_vocab, .n_allowed = n_allowed};
    s->order = malloc((size_t)n_vocab * sizeof *s->order);
    s->p = malloc((size_t)n_vocab * sizeof *s->p);
    if (s->order == NULL || s->p == NULL) {
        sample_scratch_free(s);
        return error_set(e, ERR_MEMORY, "out of memory for sampling");
    }
    return OK;
}

void sample_scratch_free(sample_scratch *s) {
    free(s->order);
    free(s->p);
    *s = (sample_scratch){0};
}

int sample_greedy(const float *x, int n) {
    int best = 0;
    for (int i = 1; i < n; i++) {
        if (x[i] > x[best]) best = i;
    }
    return best;
}

/* Each token once, however often it was seen: `order` marks who has been done. */
static void penalise(float *logits, const sampling *s, const int *seen, int n_seen, sample_scratch *scratch) {
    if (s->repeat_penalty == 1.0f) return;
    int first = s->repeat_last_n < 0 || s->repeat_last_n > n_seen ? 0 : n_seen - s->repeat_last_n;
    for (int i = first; i < n_seen; i++) scratch->order[seen[i]] = 0;
    for (int i = first; i < n_seen; i++) {
        int id = seen[i];
        if (scratch->order[id]++ > 0) continue;
        logits[id] = logits[id] > 0 ? logits[id] / s->repeat_penalty : logits[id] * s->repeat_penalty;
    }
}

/* Is a before b: more probable, or the same and a smaller id? A strict order, so that the result is one whatever sorts. */
static int before(const float *x, int a, int b) {
    return x[a] != x[b] ? x[a] > x[b] : a < b;
}

/* Sifts order[at] down a heap whose top comes last. */
static void sift(int *order, int at, int n, const float *x) {
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(x, order[child], order[child + 1])) child++;
        if (!before(x, order[at], order[child])) return;
        int t = order[at];
        order[at] = order[child];
        order[child] = t;
    }
}

/* Heapsort: most probable first. */
static void sort_ids(int *order, int n, const float *x) {
    for (int i = n / 2 - 1; i >= 0; i--) sift(order, i, n, x);
    for (int i = n - 1; i > 0; i--) {
        int t = order[0];
        order[0] = order[i];
        order[i] = t;
        sift(order, 0, i, x);
    }
}

/* The k that come first of n, in any order: a heap of k whose top is the last of them. */
static void keep_top(int *order, int n, int k, const float *x) {
    for (int i = k / 2 - 1; i >= 0; i--) sift(order, i, k, x);
    for (int i = k; i < n; i++) {
        if (!before(x, order[i], order[0])) continue;
        order[0] = order[i];
        sift(order, 0, k, x);
    }
}

int sample_token(float *logits, const sampling *s, const int *seen, int n_seen, sample_rng *r, sample_scratch *scratch) {
    int n = scratch->n_allowed, *order = scratch->order;
    float *p = scratch->p;
    penalise(logits, s, seen, n_seen, scratch);
    if (s->temperature == 0.0f || s->top_k == 1) return sample_greedy(logits, n);

    for (int i = 0; i < n; i++) order[i] = i;
    int kept = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    if (kept < n) keep_top(order, n, kept, logits);
    sort_ids(order, kept, logits);

    /* Sums in double: of a large vocabulary's many small probabilities fp32 would lose some. */
    float top = logits[order[0]];
    double total = 0;
    for (int i = 0; i < kept; i++) {
        p[i] = expf((logits[order[i]] - top) / s->temperature);
        if (p[i] < s->min_p) { /* p is relative to the most probable, and falls */
            kept = i;
            break;
        }
        total += (double)p[i];
    }
    double reach = (double)s->top_p * total, sum = 0;
    for (int i = 0; i < kept; i++) {
        sum += (double)p[i];
        if (s->top_p < 1.0f && sum >= reach) {
            kept = i + 1;
            break;
        }
    }
    double draw = (double)rng_uniform(r) * sum;
    for (int i = 0; i < kept; i++) {
        draw -= (double)p[i];
        if (draw < 0) return order[i];
    }
    return order[kept - 1];
}
