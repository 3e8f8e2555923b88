/* test_not_finite.c - an infinity or a NaN, wherever it comes from, ends in an error that names the step: never in a quietly wrong logit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/scheduler.h"
#include "tests/kernel_sets.h"

/* Without rope, so that a key's element is a plain product; every dimension different. */
static model_config plain_config(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 2, c.d_model = 40, c.n_heads = 4, c.n_kv_heads = 2, c.head_dim = 12, c.d_ff = 53, c.n_vocab = 30, c.n_ctx = 64;
    c.position = POSITION_LEARNED, c.rope_dim = 0, c.attn_scale = 1, c.kv_bias = true, c.gated = false, c.o_bias = true;
    return c;
}

static model *model_make(const model_config *c, int weights) {
    model_options mo;
    model *m;
    error err = {0};
    model_options_init(&mo);
    mo.weights = weights;
    if (model_random(&m, c, 4, &mo, &err) != OK) fail_msg("%s", err.message);
    return m;
}

static engine *engine_make(const model *m, dtype kv, int chunk, bool int8_activations, const char *isa) {
    engine_options o;
    engine *e;
    error err = {0};
    engine_options_init(&o);
    o.kv_type = kv;
    o.n_threads = 2;
    o.prefill_chunk = chunk;
    o.int8_activations = int8_activations;
    o.isa = isa;
    if (engine_create(&e, m, &o, &err) != OK) fail_msg("%s", err.message);
    return e;
}

enum { N = 12 };

/* Prefill of N tokens, logits of the last. */
static status prefill(engine *e, error *err) {
    int ids[N];
    float logits[30];
    kv_sequence *s;
    assert_int_equal(kv_sequence_create(&s, engine_cache(e), 64, err), OK);
    for (int i = 0; i < N; i++) ids[i] = (i * 7 + 3) % 30;
    status st = engine_prefill(e, s, ids, N, 1, logits, err);
    kv_sequence_free(s, engine_cache(e));
    return st;
}

/* An element of fp32 panels (matrix.h). */
static float *element(const matrix *w, int row, int k) {
    int panel = row / PANEL_ROWS, width = matrix_panel_width(w, panel);
    return (float *)(uintptr_t)w->data + (size_t)panel * PANEL_ROWS * (size_t)w->n_cols +
           (size_t)(k * width + row % PANEL_ROWS);
}

static void scale_row(const matrix *w, int row, float factor) {
    for (int k = 0; k < w->n_cols; k++) *element(w, row, k) *= factor;
}

/* Element 0 of a key in the tens of thousands, and that of its queries the opposite: where the key overflows fp16 its scores are minus
 * infinity, and the softmax would pass over it without a trace. */
static model *overflowing_model(const model_config *c) {
    model *m = model_make(c, DTYPE_F32);
    const layer_weights *l = &m->layers[1];
    scale_row(&l->wk, 0, 6e4f);
    for (int h = 0; h < 2; h++) { /* query heads 0 and 1 read K/V head 0 */
        for (int k = 0; k < c->d_model; k++) *element(&l->wq, h * c->head_dim, k) = -1e-7f * *element(&l->wk, 0, k);
    }
    return m;
}

static void a_key_beyond_fp16_ends_the_step_also_where_its_scores_are_minus_infinity(void **state) {
    (void)state;
    model_config c = plain_config();
    c.kv_bias = false;
    model *m = overflowing_model(&c);
    const int chunks[] = {512, 5, 1};
    for (int i = 0; i < 3; i++) {
        error err = {0};
        engine *e = engine_make(m, DTYPE_F32, chunks[i], true, "auto");
        assert_int_equal(prefill(e, &err), OK); /* fp32 holds it */
        engine_free(e);
        e = engine_make(m, DTYPE_F16, chunks[i], true, "auto");
        assert_int_equal(prefill(e, &err), ERR_NUMERIC);
        assert_non_null(strstr(err.message, "--kv-type f32"));
        assert_non_null(strstr(err.message, "K or V of position"));
        engine_free(e);
    }
    model_free(m);
}

typedef struct {
    int n_failed, n_done;
} outcome;

static void note(void *user, const completion *c) {
    outcome *o = user;
    o->n_done++;
    o->n_failed += c->finish == FINISH_FAILED && strstr(c->error.message, "K or V of position 1 is not") != NULL;
}

/* Token 7, and no other, has a key beyond fp16; its scores are minus infinity for every query, and no other number shows it. */
static model *model_with_a_bad_token(const model_config *c) {
    model *m = model_make(c, DTYPE_F32);
    float *table = (float *)(uintptr_t)m->embedding.data, *positions = (float *)(uintptr_t)m->positions.data;
    assert_false(m->embedding.packed);
    for (int id = 0; id < c->n_vocab; id++) {
        float *row = table + (size_t)id * (size_t)c->d_model;
        for (int i = 0; i < c->d_model && id == 7; i++) row[i] = 0;
        row[3] = id == 7 ? 1 : fabsf(row[3]) + 0.02f; /* element 3 is positive throughout */
    }
    for (int t = 0; t < c->n_ctx; t++) positions[(size_t)t * (size_t)c->d_model + 3] = 0;
    const layer_weights *l = &m->layers[0];
    for (int k = 0; k < c->d_model; k++) {
        *element(&l->wk, 0, k) = k == 3 ? 1.5e4f : 0;
        for (int h = 0; h < 2; h++) *element(&l->wq, h * c->head_dim, k) = k == 3 ? -1e-6f : 0;
    }
    return m;
}

/* The pages of a prompt that failed are nobody's: one that begins alike is computed again, and fails too. Its other samples fail with it. */
static void a_prompt_that_overflowed_is_not_found_again_by_its_beginning(void **state) {
    (void)state;
    model_config c = plain_config();
    c.kv_bias = false;
    model *m = model_with_a_bad_token(&c);
    for (int chunk = 3; chunk <= 64; chunk += 61) {
        engine_options o;
        scheduler_options so;
        engine *e;
        scheduler *s;
        error err = {0};
        outcome found = {0};
        engine_options_init(&o);
        scheduler_options_init(&so);
        o.page_size = 2, o.max_sequences = 4, o.prefill_chunk = chunk, o.n_threads = 1;
        so.prefix_cache = true;
        assert_int_equal(engine_create(&e, m, &o, &err), OK);
        assert_int_equal(scheduler_create(&s, e, &so, note, &found, &err), OK);
        int ids[N + 4];
        for (int i = 0; i < N + 4; i++) ids[i] = i == 1 ? 7 : 8 + i;
        request r = {.ids = ids, .max_new = 2, .n_samples = 3};
        sampling_init(&r.sampling);
        for (int round = 0; round < 2; round++) {
            r.n_ids = N + 4 * round; /* the second begins with the first */
            assert_int_equal(scheduler_submit(s, &r, &err), OK);
            while (scheduler_busy(s)) {
                assert_int_equal(scheduler_step(s, &err), OK);
                assert_int_equal(scheduler_check(s, &err), OK);
            }
            assert_int_equal(found.n_done, 3 * (round + 1));
            assert_int_equal(found.n_failed, found.n_done);
        }
        assert_int_equal(engine_cache(e)->n_free, engine_cache(e)->n_pages);
        scheduler_free(s);
        engine_free(e);
    }
    model_free(m);
}

static void a_value_beyond_fp16_and_a_scale_beyond_it_end_the_step(void **state) {
    (void)state;
    static const struct {
        float factor;
        status f16, int8;
    } cases[] = {{1, OK, OK}, {1e6f, ERR_NUMERIC, OK}, {1e9f, ERR_NUMERIC, ERR_NUMERIC}};
    for (int i = 0; i < 3; i++) {
        model_config c = plain_config();
        model *m = model_make(&c, DTYPE_F32);
        scale_row(&m->layers[0].wv, 17, cases[i].factor);
        static const dtype kv[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
        const status expected[] = {OK, cases[i].f16, cases[i].int8};
        for (int k = 0; k < 3; k++) {
            error err = {0};
            engine *e = engine_make(m, kv[k], 512, true, "auto");
            assert_int_equal(prefill(e, &err), expected[k]);
            engine_free(e);
        }
        model_free(m);
    }
}

/* In a decode step: the sequence that did it is named, and the others go on. */
static void only_the_sequence_that_overflowed_is_named(void **state) {
    (void)state;
    model_config c = plain_config();
    model *m = model_make(&c, DTYPE_F32);
    float *row = (float *)(uintptr_t)m->embedding.data + 7 * (size_t)c.d_model; /* untied: rows as they are */
    assert_false(m->embedding.packed);
    for (int i = 0; i < c.d_model; i++) row[i] = i == 3 ? INFINITY : 0;
    engine_options o;
    engine *e;
    error err = {0};
    engine_options_init(&o);
    o.max_sequences = 3;
    assert_int_equal(engine_create(&e, m, &o, &err), OK);
    kv_sequence *s[3];
    float logits[3 * 30];
    const int ids[] = {5, 7, 9};
    step_sequence q[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kv_sequence_create(&s[i], engine_cache(e), 64, &err), OK);
        q[i] = (step_sequence){.kv = s[i], .ids = &ids[i], .n_new = 1, .n_logit_rows = 1};
    }
    assert_int_equal(engine_step(e, q, 3, logits, &err), OK);
    assert_true(q[0].finite);
    assert_false(q[1].finite);
    assert_true(q[2].finite);
    assert_int_equal(engine_decode(e, s, ids, 3, logits, &err), ERR_NUMERIC);
    assert_non_null(strstr(err.message, "sequence 1"));
    for (int i = 0; i < 3; i++) kv_sequence_free(s[i], engine_cache(e));
    engine_free(e);
    model_free(m);
}

/* A gain, a bias, a table row: each an infinity or a NaN that meets int8 activations further on. */
static void a_number_that_is_not_finite_is_not_quantised_away(void **state) {
    (void)state;
    const float bad[] = {INFINITY, -INFINITY, NAN};
    const kernel_set *sets[MOST_SETS];
    int n_sets = kernel_sets(sets);
    for (int where = 0; where < 4; where++) {
        for (int b = 0; b < 3; b++) {
            model_config c = plain_config();
            model *m = model_make(&c, DTYPE_Q8_0);
            const layer_weights *l = &m->layers[1];
            const float *places[] = {l->attn_pre.gain + 39, l->wo.bias + 3, l->ffn_pre.gain, m->final_norm.gain + 33};
            *(float *)(uintptr_t)places[where] = bad[b];
            for (int i = 0; i < n_sets; i++) {
                for (int int8 = 0; int8 < 2; int8++) {
                    error err = {0};
                    engine *e = engine_make(m, DTYPE_F16, 512, int8 == 1, sets[i]->name);
                    assert_int_equal(prefill(e, &err), ERR_NUMERIC);
                    engine_free(e);
                }
            }
            model_free(m);
        }
    }
}

/* A block whose scale is NaN or infinite in the weights themselves, as a broken file may have it. */
static void a_scale_that_is_not_finite_in_a_q8_0_weight_reaches_the_logits(void **state) {
    (void)state;
    const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e00};
    for (int b = 0; b < 3; b++) {
        for (int int8 = 0; int8 < 2; int8++) {
            model_config c = plain_config();
            model *m = model_make(&c, DTYPE_Q8_0);
            memcpy((unsigned char *)(uintptr_t)m->layers[0].w_up.data + 2 * 5, &bad[b], 2); /* the first panel's row 5 */
            error err = {0};
            engine *e = engine_make(m, DTYPE_F16, 512, int8 == 1, "auto");
            assert_int_equal(prefill(e, &err), ERR_NUMERIC);
            engine_free(e);
            model_free(m);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_beyond_fp16_ends_the_step_also_where_its_scores_are_minus_infinity),
        cmocka_unit_test(a_prompt_that_overflowed_is_not_found_again_by_its_beginning),
        cmocka_unit_test(a_value_beyond_fp16_and_a_scale_beyond_it_end_the_step),
        cmocka_unit_test(only_the_sequence_that_overflowed_is_named),
        cmocka_unit_test(a_number_that_is_not_finite_is_not_quantised_away),
        cmocka_unit_test(a_scale_that_is_not_finite_in_a_q8_0_weight_reaches_the_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
