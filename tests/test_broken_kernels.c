/* test_broken_kernels.c - counts are evidence: attention done wastefully gives the right logits and the wrong count.
 *
 * The linker hands every call of attention() to __wrap_attention here (Makefile). Each broken version goes through the same accessors as the
 * real one, so what it reads and computes too much is posted, and the prediction no longer agrees. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cost.h"
#include "engine/engine.h"

typedef enum { SOUND, PLAIN, ONCE_PER_QUERY_HEAD, MASKED_KEYS, WHOLE_LAST_PAGE } fault;
static fault chosen;

void __real_attention(float *out, const float *q, const attention_task *tasks, int n_tasks, const attention_shape *s,
                      float *partials, worker *w);
void __wrap_attention(float *out, const float *q, const attention_task *tasks, int n_tasks, const attention_shape *s,
                      float *partials, worker *w);

/* A number of a fp32 run: element i of its token number n. */
static float key_at(const kv_run *r, int n, int i) {
    return ((const float *)r->data)[(size_t)i * r->k_stride + (size_t)n];
}
static float value_at(const kv_run *r, int n, int i) {
    return ((const float *)r->data)[(size_t)n * r->k_stride + (size_t)i];
}

enum { MOST_KEYS = 64, MOST_ROWS = 8, MOST_HEADS = 6 };

/* Query heads [first, last) of one K/V head, for all rows of a tile, from one reading of the keys [0, reads): as far as a row sees them, or
 * (MASKED_KEYS) all of them, to be masked afterwards. */
static void tile_scores(float scores[MOST_ROWS][MOST_HEADS][MOST_KEYS], const float *q, const attention_task *t, int head,
                        int first, int last, int reads, const attention_shape *s, worker *w) {
    int hd = s->head_dim;
    for (int key = 0; key < reads;) {
        kv_run r = kv_keys(&t->views[0], head, key, reads, &w->meter);
        for (int row = 0; row < t->n_rows; row++) {
            for (int i = 0; i < r.n && (key + i <= t->pos[row] || (chosen == MASKED_KEYS && key + i <= t->pos[t->n_rows - 1]));
                 i++) {
                for (int h = first; h < last; h++) {
                    const float *x = q + ((t->first_row + row) * s->n_heads + h) * hd;
                    float sum = 0;
                    for (int k = 0; k < hd; k++) sum += x[k] * key_at(&r, i, k);
                    scores[row][h][key + i] = sum;
                    meter_post(&w->meter, TERM_FLOPS_SCORES, 2 * (uint64_t)hd);
                }
            }
        }
        key += r.n;
    }
}

static void tile_values(float *out, float scores[MOST_ROWS][MOST_HEADS][MOST_KEYS], const attention_task *t, int head,
                        int first, int last, int reads, const attention_shape *s, worker *w) {
    int hd = s->head_dim;
    for (int key = 0; key < reads;) {
        kv_run r = kv_values(&t->views[0], head, key, reads, &w->meter);
        for (int row = 0; row < t->n_rows; row++) {
            for (int i = 0; i < r.n && key + i <= t->pos[row]; i++) {
                for (int h = first; h < last; h++) {
                    float *o = out + ((t->first_row + row) * s->n_heads + h) * hd;
                    for (int k = 0; k < hd; k++) o[k] += scores[row][h][key + i] * value_at(&r, i, k);
                    meter_post(&w->meter, TERM_FLOPS_VALUES, 2 * (uint64_t)hd);
                }
            }
        }
        key += r.n;
    }
}

static void row_softmax(float *s, int n, float scale, worker *w) {
    float top = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) top = fmaxf(top, s[i] *= scale);
    for (int i = 0; i < n; i++) sum += s[i] = expf(s[i] - top);
    for (int i = 0; i < n; i++) s[i] /= sum;
    meter_post(&w->meter, TERM_FLOPS_SOFTMAX, 6 * (uint64_t)n);
}

/* Attention of one tile: right, and wasteful in the way that `chosen` says. */
static void wasteful_tile(float *out, const float *q, const attention_task *t, const attention_shape *s, worker *w) {
    static float scores[MOST_ROWS][MOST_HEADS][MOST_KEYS];
    int group = s->n_heads / s->n_kv_heads, n = t->pos[t->n_rows - 1] + 1, page = t->views[0].layout->page_size;
    int reads = chosen == WHOLE_LAST_PAGE ? (n + page - 1) / page * page : n,
        together = chosen == ONCE_PER_QUERY_HEAD ? 1 : group;
    memset(out + t->first_row * s->n_heads * s->head_dim, 0, (size_t)(t->n_rows * s->n_heads * s->head_dim) * sizeof *out);
    for (int first = 0; first < s->n_heads; first += together) {
        tile_scores(scores, q, t, first / group, first, first + together, reads, s, w);
        for (int row = 0; row < t->n_rows; row++) {
            for (int h = first; h < first + together; h++) row_softmax(scores[row][h], t->pos[row] + 1, s->scale, w);
        }
        tile_values(out, scores, t, first / group, first, first + together, reads, s, w);
    }
    for (int row = 0; row < t->n_rows; row++) meter_post(&w->meter, TERM_KEYS_ATTENDED, (uint64_t)t->pos[row] + 1);
}

void __wrap_attention(float *out, const float *q, const attention_task *tasks, int n_tasks, const attention_shape *s,
                      float *partials, worker *w) {
    if (chosen == SOUND) {
        __real_attention(out, q, tasks, n_tasks, s, partials, w);
    } else {
        for (int i = 0; i < n_tasks; i++) wasteful_tile(out, q, &tasks[i], s, w);
    }
}

typedef struct {
    const model_config *c;
    bool differs[N_TERMS];
} findings;

static void compare(void *user, const step_report *r) {
    findings *f = user;
    term_counts predicted;
    cost_predict(&predicted, f->c, r->plan);
    for (int i = 0; i < N_TERMS; i++) f->differs[i] = f->differs[i] || predicted.n[i] != r->counted.n[i];
}

static model_config grouped_config(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 2, c.d_model = 24, c.n_heads = 6, c.n_kv_heads = 2, c.head_dim = 10, c.d_ff = 28, c.n_vocab = 31,
    c.n_ctx = MOST_KEYS;
    c.rope_dim = 10, c.rope_base = 10000, c.attn_scale = 0.3f;
    return c;
}

/* Prefill of 5, then 12 decode steps, with a fault. The logits of the last step, and which terms disagreed. */
static void run(fault f, float *logits, findings *found) {
    static model_config c;
    c = grouped_config();
    error err = {0};
    model *m;
    engine *e;
    model_options mo;
    engine_options o;
    model_options_init(&mo);
    engine_options_init(&o);
    o.kv_type = DTYPE_F32;
    o.n_threads = 1;
    o.isa = "portable";
    *found = (findings){.c = &c};
    chosen = f;
    assert_int_equal(model_random(&m, &c, 3, &mo, &err), OK);
    assert_int_equal(engine_create(&e, m, &o, &err), OK);
    engine_observe(e, compare, found);
    kv_sequence *s;
    assert_int_equal(kv_sequence_create(&s, engine_cache(e), MOST_KEYS, &err), OK);
    const int prompt[] = {3, 1, 4, 1, 5};
    assert_int_equal(engine_prefill(e, s, prompt, 5, 1, logits, &err), OK);
    for (int id = 0; id < 12; id++) assert_int_equal(engine_decode(e, &s, &id, 1, logits, &err), OK);
    kv_sequence_free(s, engine_cache(e));
    engine_free(e);
    model_free(m);
}

/* The faulty run gives the logits of the sound one, and disagrees in the terms named and in no other. */
static void assert_caught(fault f, const term *terms, int n_terms) {
    float sound[31], faulty[31];
    findings none, found;
    run(SOUND, sound, &none);
    run(f, faulty, &found);
    for (int i = 0; i < 31; i++) assert_true(fabsf(sound[i] - faulty[i]) < 1e-4f);
    for (int i = 0; i < N_TERMS; i++) {
        bool expected = false;
        for (int k = 0; k < n_terms; k++) expected = expected || terms[k] == (term)i;
        assert_false(none.differs[i]);
        if (found.differs[i] != expected) fail_msg("%s: differs is %d", term_table[i].key, found.differs[i]);
    }
}

static void fetching_k_and_v_once_per_query_head_is_seen_in_the_bytes(void **state) {
    (void)state;
    assert_caught(ONCE_PER_QUERY_HEAD, (term[]){TERM_BYTES_KV_CACHED, TERM_BYTES_KV_OWN}, 2);
}

static void an_unfaulty_rewrite_agrees(void **state) {
    (void)state;
    assert_caught(PLAIN, NULL, 0);
}

static void computing_masked_keys_is_seen_in_the_flops(void **state) {
    (void)state;
    assert_caught(MASKED_KEYS, (term[]){TERM_FLOPS_SCORES}, 1);
}

static void reading_the_whole_last_page_is_seen_in_the_bytes(void **state) {
    (void)state;
    assert_caught(WHOLE_LAST_PAGE, (term[]){TERM_BYTES_KV_OWN}, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unfaulty_rewrite_agrees),
        cmocka_unit_test(fetching_k_and_v_once_per_query_head_is_seen_in_the_bytes),
        cmocka_unit_test(computing_masked_keys_is_seen_in_the_flops),
        cmocka_unit_test(reading_the_whole_last_page_is_seen_in_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
