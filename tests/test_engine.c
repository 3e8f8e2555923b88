/* test_engine.c - the engine on random models: the same bits however the work is cut, and counts that agree with the prediction. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cost.h"
#include "engine/engine.h"

/* Every dimension different, so that none hides behind another. */
static model_config small_config(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 3, c.d_model = 40, c.n_heads = 6, c.n_kv_heads = 2, c.head_dim = 10, c.d_ff = 53, c.n_vocab = 71,
    c.n_ctx = 700;
    c.rope_dim = 10, c.rope_base = 10000, c.attn_scale = 0.31f;
    return c;
}

typedef struct {
    uint64_t steps, mismatches;
    const model_config *c;
} check;

static void compare(void *user, const step_report *r) {
    check *k = user;
    term_counts predicted;
    cost_predict(&predicted, k->c, r->plan);
    k->steps++;
    for (int i = 0; i < N_TERMS; i++) {
        if (predicted.n[i] == r->counted.n[i]) continue;
        k->mismatches++;
        print_message("%s: predicted %llu, counted %llu\n", term_table[i].key, (unsigned long long)predicted.n[i],
                      (unsigned long long)r->counted.n[i]);
    }
}

/* Logits of all n positions of one prompt, chunk rows at a time. */
static float *run(const model *m, const engine_options *o, const int *ids, int n, check *k) {
    engine *e;
    error err = {0};
    if (engine_create(&e, m, o, &err) != OK) fail_msg("%s", err.message);
    engine_observe(e, compare, k);
    kv_sequence *s;
    assert_int_equal(kv_sequence_create(&s, engine_cache(e), engine_n_ctx(e), &err), OK);
    float *logits = malloc((size_t)n * (size_t)m->config.n_vocab * sizeof *logits);
    assert_non_null(logits);
    if (engine_prefill(e, s, ids, n, n, logits, &err) != OK) fail_msg("%s", err.message);
    kv_sequence_free(s, engine_cache(e));
    engine_free(e);
    return logits;
}

static void logits_are_the_same_bits_for_any_chunk_page_and_thread_count(void **state) {
    (void)state;
    model_config c = small_config();
    model_options mo;
    model_options_init(&mo);
    dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    enum { N = 300 };
    int ids[N];
    for (int i = 0; i < N; i++) ids[i] = (i * 37 + 11) % c.n_vocab;
    for (int t = 0; t < 3; t++) {
        mo.weights = (int)types[t];
        model *m;
        error err = {0};
        if (model_random(&m, &c, 7, &mo, &err) != OK) fail_msg("%s", err.message);
        for (int kt = 0; kt < 3; kt++) {
            engine_options o;
            engine_options_init(&o);
            o.kv_type = types[kt];
            o.n_threads = 1;
            check k = {.c = &c};
            float *whole = run(m, &o, ids, N, &k);
            const int chunks[] = {1, 3, 16, 100}, pages[] = {1, 2, 4, 16, 24}, threads[] = {1, 2, 3};
            for (int i = 0; i < 5; i++) {
                o.prefill_chunk = chunks[i % 4];
                o.page_size = pages[i];
                o.n_threads = threads[i % 3];
                float *other = run(m, &o, ids, N, &k);
                assert_memory_equal(whole, other, (size_t)N * (size_t)c.n_vocab * sizeof *whole);
                free(other);
            }
            assert_true(k.steps > 300);
            assert_int_equal(k.mismatches, 0);
            free(whole);
        }
        model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_the_same_bits_for_any_chunk_page_and_thread_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
