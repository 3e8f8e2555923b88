/* Random models: every tensor the configuration asks for, the same numbers whatever the storage and the threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weights/slots.h"

/* Every dimension different, so that none hides behind another. */
static model_config plain_config(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 3, c.d_model = 40, c.n_heads = 6, c.n_kv_heads = 2, c.head_dim = 10, c.d_ff = 52, c.n_vocab = 37, c.n_ctx = 19;
    c.rope_dim = 10, c.attn_scale = 0.3f;
    return c;
}

static model_config everything_config(void) {
    model_config c = plain_config();
    c.norm = NORM_LAYER, c.norm_bias = true, c.position = POSITION_LEARNED, c.rope_dim = 0;
    c.attn_post_norm = c.ffn_post_norm = c.attn_residual_norm = c.ffn_residual_norm = c.embedding_norm = true;
    c.qk_norm = QK_NORM_WIDTH;
    c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = c.head_bias = true;
    return c;
}

static model *random_model(const model_config *c, int weights, int n_threads) {
    model_options o;
    model_options_init(&o);
    o.weights = weights, o.n_threads = n_threads;
    error e;
    model *m = NULL;
    if (model_random(&m, c, 5, &o, &e) != OK) fail_msg("%s", e.message);
    return m;
}

/* The role's numbers, row after row. */
static float *slot_values(model *m, const slot *s, size_t *n) {
    *n = (size_t)s->n_rows * (size_t)s->n_cols;
    float *out = malloc(*n * sizeof *out);
    assert_non_null(out);
    if (slot_is_matrix(s)) {
        const matrix *w = model_matrix(m, s->role, s->layer);
        assert_non_null(w->data);
        for (int r = 0; r < s->n_rows; r++) matrix_row_f32(out + (size_t)r * (size_t)s->n_cols, w, r);
        return out;
    }
    const norm_weights *norm = model_norm(m, s->role, s->layer);
    const float *from = role_kind_of(s->role) == ROLE_MATRIX ? model_matrix(m, s->role, s->layer)->bias
                        : s->bias                            ? norm->bias
                                                             : norm->gain;
    assert_non_null(from);
    memcpy(out, from, *n * sizeof *out);
    return out;
}

/* The largest difference over all tensors, relative to the tensor's largest element. */
static double largest_difference(model *a, model *b) {
    size_t n_slots;
    slot *slots = slots_of(&a->config, &n_slots);
    double worst = 0;
    for (size_t i = 0; i < n_slots; i++) {
        size_t n;
        float *x = slot_values(a, &slots[i], &n), *y = slot_values(b, &slots[i], &n);
        double top = 0, difference = 0;
        for (size_t k = 0; k < n; k++) {
            top = fmax(top, fabs((double)x[k]));
            difference = fmax(difference, fabs((double)x[k] - (double)y[k]));
        }
        worst = fmax(worst, difference / top);
        free(x), free(y);
    }
    free(slots);
    return worst;
}

static void counts_agree_with_the_configuration(const model_config *c) {
    model *m = random_model(c, DTYPE_F32, 1);
    param_counts p = config_params(c);
    size_t rope = c->position == POSITION_ROPE ? (size_t)c->rope_dim / 2 * sizeof(float) : 0;
    assert_int_equal(m->weight_bytes, 4 * (p.matrices + p.embedding + p.positions));
    assert_int_equal(m->vector_bytes, 4 * (p.biases + p.norms) + rope);
    assert_int_equal(m->mapped_bytes, 0);
    model_free(m);
}

static void every_parameter_of_the_configuration_is_there(void **state) {
    (void)state;
    model_config plain = plain_config(), all = everything_config(), tied = everything_config();
    tied.tied = true, tied.gated = false, tied.qk_norm = QK_NORM_HEAD;
    counts_agree_with_the_configuration(&plain);
    counts_agree_with_the_configuration(&all);
    counts_agree_with_the_configuration(&tied);
}

static void absent_steps_have_no_weights(void **state) {
    (void)state;
    model_config c = plain_config();
    c.gated = false;
    model *m = random_model(&c, -1, 1);
    assert_null(m->positions.data);
    assert_null(m->embedding_norm.gain);
    assert_null(m->layers[1].attn_post.gain);
    assert_null(m->layers[1].q_norm.gain);
    assert_null(m->layers[1].w_gate.data);
    assert_null(m->layers[1].wq.bias);
    assert_null(m->layers[1].attn_pre.bias);
    assert_null(m->rope_local_freq);
    assert_int_equal(m->layers[1].wq.n_rows, 60);
    assert_int_equal(m->layers[1].wk.n_rows, 20);
    assert_int_equal(m->layers[1].wo.n_cols, 60);
    assert_int_equal(m->layers[1].w_down.n_cols, 52);
    model_free(m);
}

static void the_numbers_do_not_depend_on_threads_or_storage(void **state) {
    (void)state;
    model_config c = everything_config();
    model *f32 = random_model(&c, DTYPE_F32, 1), *threads = random_model(&c, DTYPE_F32, 3);
    model *f16 = random_model(&c, DTYPE_F16, 2), *q8 = random_model(&c, DTYPE_Q8_0, 2);
    assert_true(largest_difference(f32, threads) == 0);
    assert_true(largest_difference(f32, f16) < 0x1p-11);
    assert_true(largest_difference(f32, f16) > 0);
    /* half a step of max/127, and the rounding of the scale, up to 2^-11 of 127 steps */
    assert_true(largest_difference(f32, q8) <= 1.0 / 254 + 0x1p-11);
    assert_true(largest_difference(f32, q8) > 0x1p-11);
    assert_int_equal(q8->layers[0].wq.type, DTYPE_Q8_0);
    assert_int_equal(q8->positions.type, DTYPE_F32);
    assert_int_equal(f16->positions.type, DTYPE_F16);
    model_free(f32), model_free(threads), model_free(f16), model_free(q8);
}

static void another_seed_or_layer_gives_other_numbers(void **state) {
    (void)state;
    model_config c = plain_config();
    model *a = random_model(&c, -1, 1), *b = NULL;
    model_options o;
    model_options_init(&o);
    assert_int_equal(model_random(&b, &c, 6, &o, NULL), OK);
    float row[3][40];
    matrix_row_f32(row[0], &a->layers[0].wq, 0);
    matrix_row_f32(row[1], &a->layers[1].wq, 0);
    matrix_row_f32(row[2], &b->layers[0].wq, 0);
    assert_memory_not_equal(row[0], row[1], sizeof row[0]);
    assert_memory_not_equal(row[0], row[2], sizeof row[0]);
    model_free(a), model_free(b);
}

static void the_numbers_have_the_spread_that_is_promised(void **state) {
    (void)state;
    model_config c = plain_config();
    c.d_ff = 2000;
    model *m = random_model(&c, -1, 1);
    double sum = 0, squares = 0, gains = 0;
    float row[40];
    for (int r = 0; r < c.d_ff; r++) {
        matrix_row_f32(row, &m->layers[0].w_up, r);
        for (int k = 0; k < 40; k++) sum += (double)row[k], squares += (double)row[k] * (double)row[k];
    }
    for (int k = 0; k < 40; k++) gains += (double)m->final_norm.gain[k] / 40;
    double n = 40.0 * c.d_ff; /* 80,000 numbers: the mean's sd is 0.0006, the variance's 0.5% */
    assert_true(fabs(sum / n) < 0.003);
    assert_true(fabs(squares / n * 40 - 1) < 0.03);
    assert_true(fabs(gains - 1) < 0.08);
    model_free(m);
}

static void a_tied_head_is_the_embedding_table(void **state) {
    (void)state;
    model_config c = plain_config();
    c.tied = c.head_bias = true;
    model *m = random_model(&c, -1, 1);
    assert_ptr_equal(m->head.data, m->embedding.data);
    assert_true(m->embedding.packed);
    assert_null(m->embedding.bias);
    assert_non_null(m->head.bias);
    assert_int_equal(m->head.bytes_term, TERM_BYTES_HEAD);
    assert_int_equal(m->embedding.bytes_term, TERM_BYTES_EMBEDDING);
    model_free(m);
}

static void what_cannot_fit_is_refused_with_the_numbers(void **state) {
    (void)state;
    model_config c = plain_config();
    c.n_layers = 100, c.d_model = 1 << 17, c.d_ff = 1 << 18, c.n_vocab = 1 << 17;
    model_options o;
    model_options_init(&o);
    error e;
    model *m = (model *)1;
    assert_int_equal(model_random(&m, &c, 1, &o, &e), ERR_MEMORY);
    assert_null(m);
    assert_non_null(strstr(e.message, "GiB"));
    assert_non_null(strstr(e.message, "--weights f16"));
}

static size_t last_done, n_calls;
static void note_progress(void *user, size_t done, size_t total) {
    (void)user;
    assert_true(done > last_done && done <= total);
    last_done = done, n_calls++;
}

static void progress_runs_up_to_the_bytes_of_the_weights(void **state) {
    (void)state;
    model_config c = plain_config();
    model_options o;
    model_options_init(&o);
    o.progress = note_progress;
    model *m = NULL;
    assert_int_equal(model_random(&m, &c, 1, &o, NULL), OK);
    assert_int_equal(last_done, m->weight_bytes);
    assert_int_equal(n_calls, 2 + 3 * 7);
    model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_of_the_configuration_is_there),
        cmocka_unit_test(absent_steps_have_no_weights),
        cmocka_unit_test(the_numbers_do_not_depend_on_threads_or_storage),
        cmocka_unit_test(another_seed_or_layer_gives_other_numbers),
        cmocka_unit_test(the_numbers_have_the_spread_that_is_promised),
        cmocka_unit_test(a_tied_head_is_the_embedding_table),
        cmocka_unit_test(what_cannot_fit_is_refused_with_the_numbers),
        cmocka_unit_test(progress_runs_up_to_the_bytes_of_the_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
