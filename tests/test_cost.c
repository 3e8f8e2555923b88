/* The prediction against the answer key of the level-21 model, and its closed forms against loops over every key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/cost_sums.h"
#include "tests/cost_shapes.h"

static term_counts predict(const model_config *c, dtype type, dtype positions, plan_sequence seq) {
    weight_storage w = shape_storage(c, type, positions);
    execution_plan p = shape_plan(&w, &seq, 1);
    term_counts t;
    cost_predict(&t, c, &p);
    shape_storage_free(&w);
    return t;
}

static plan_sequence rows(int n_cached, int n_new, int n_logit_rows) {
    return (plan_sequence){.n_cached = n_cached, .n_new = n_new, .n_logit_rows = n_logit_rows, .group = -1};
}

static void level21_decode_flops(void **state) {
    (void)state;
    model_config c = shape_level21();
    for (int keys = 1; keys <= 11; keys++) {
        term_counts t = predict(&c, DTYPE_F32, DTYPE_F32, rows(keys - 1, 1, 1));
        assert_int_equal(term_class_sum(&t, CLASS_MATMUL), 198528);
        assert_int_equal(term_class_sum(&t, CLASS_ATTENTION), 512 * keys);
        assert_int_equal(term_class_sum(&t, CLASS_OTHER), 3299 + 48 * keys);
        assert_int_equal(t.n[TERM_KEYS_COMPUTED], 2);
        assert_int_equal(t.n[TERM_KEYS_ATTENDED], 2 * keys);
        assert_int_equal(t.n[TERM_BYTES_KV_WRITTEN], 512);
        assert_int_equal(t.n[TERM_BYTES_KV_CACHED], 512 * (keys - 1));
        assert_int_equal(t.n[TERM_BYTES_KV_OWN], 512);
        assert_int_equal(t.n[TERM_BYTES_PAGE_TABLE], 8);
        assert_int_equal(t.n[TERM_BYTES_LOGITS], 60);
    }
}

static void level21_prefill_flops(void **state) {
    (void)state;
    model_config c = shape_level21();
    const struct {
        int logit_rows;
        uint64_t matmul, other;
    } expect[] = {{1, 1968000, 33155}, {10, 1985280, 35630}};
    for (int i = 0; i < 2; i++) {
        term_counts t = predict(&c, DTYPE_F32, DTYPE_F32, rows(0, 10, expect[i].logit_rows));
        assert_int_equal(term_class_sum(&t, CLASS_MATMUL), expect[i].matmul);
        assert_int_equal(term_class_sum(&t, CLASS_ATTENTION), 28160);
        assert_int_equal(term_class_sum(&t, CLASS_OTHER), expect[i].other);
        assert_int_equal(t.n[TERM_BYTES_KV_CACHED], 0);
        assert_int_equal(t.n[TERM_BYTES_KV_OWN], 10 * 512);
    }
}

static void level21_weight_bytes(void **state) {
    (void)state;
    model_config c = shape_level21();
    term_counts f32 = predict(&c, DTYPE_F32, DTYPE_F32, rows(3, 1, 1));
    term_counts f16 = predict(&c, DTYPE_F16, DTYPE_F16, rows(3, 1, 1));
    term_counts q8 = predict(&c, DTYPE_Q8_0, DTYPE_F32, rows(3, 1, 1));
    assert_int_equal(term_class_sum(&f32, CLASS_WEIGHT_BYTES), 403516);
    assert_int_equal(term_class_sum(&f16, CLASS_WEIGHT_BYTES), 204732);
    assert_int_equal(term_class_sum(&q8, CLASS_WEIGHT_BYTES), 111740);
    assert_int_equal(q8.n[TERM_BYTES_EMBEDDING], 68);
    assert_int_equal(q8.n[TERM_BYTES_POSITION], 256);
}

static void level21_cache_bytes(void **state) {
    (void)state;
    model_config c = shape_level21();
    assert_int_equal(cost_kv_bytes_per_token(&c, DTYPE_F32), 1024);
    assert_int_equal(cost_kv_bytes_per_token(&c, DTYPE_F16), 512);
    assert_int_equal(cost_kv_bytes_per_token(&c, DTYPE_Q8_0), 288);
}

static void no_logit_rows_no_head(void **state) {
    (void)state;
    model_config c = shape_level21();
    term_counts all = predict(&c, DTYPE_F32, DTYPE_F32, rows(0, 4, 1));
    term_counts none = predict(&c, DTYPE_F32, DTYPE_F32, rows(0, 4, 0));
    assert_int_equal(none.n[TERM_FLOPS_HEAD], 0);
    assert_int_equal(none.n[TERM_BYTES_HEAD], 0);
    assert_int_equal(none.n[TERM_BYTES_LOGITS], 0);
    assert_int_equal(all.n[TERM_BYTES_BIAS] - none.n[TERM_BYTES_BIAS], 15 * 4);
    assert_int_equal(all.n[TERM_BYTES_NORM] - none.n[TERM_BYTES_NORM], 64 * 4);
    assert_int_equal(all.n[TERM_FLOPS_BIAS] - none.n[TERM_FLOPS_BIAS], 15);
    assert_int_equal(all.n[TERM_FLOPS_NORM] - none.n[TERM_FLOPS_NORM], 260);
}

/* By hand: one layer of everything quantised, rows of 40 columns, so that the last block of a row is padded. */
static void quantise_by_hand(void **state) {
    (void)state;
    model_config c = shape_level21();
    c.n_layers = 1, c.d_model = 40, c.n_heads = 5, c.n_kv_heads = 1, c.head_dim = 8, c.d_ff = 24, c.n_vocab = 7, c.gated = true;
    weight_storage w = shape_storage(&c, DTYPE_Q8_0, DTYPE_F32);
    plan_sequence seq = rows(0, 3, 1);
    execution_plan p = shape_plan(&w, &seq, 1);
    term_counts t;

    /* Blocks: 2 along d and q (40), 1 along d_ff. Rows: q 40, k and v 8 each, o 40, gate and up 24 each, down 40; head 7. */
    uint64_t scales = 2 * 3 * ((40 + 8 + 8) * 2 + 40 * 2 + (24 + 24) * 2 + 40 * 1) + 2 * 1 * 7 * 2;
    uint64_t inputs = 3 * 3 * (40 + 40 + 40 + 24) + 3 * 1 * 40;
    p.int8_activations = true;
    cost_predict(&t, &c, &p);
    assert_int_equal(t.n[TERM_FLOPS_QUANTISE], scales + inputs);

    uint64_t weights = (40 + 8 + 8) * 40 + 40 * 40 + (24 + 24) * 40 + 40 * 24 + 7 * 40;
    p.blas = true;
    cost_predict(&t, &c, &p);
    assert_int_equal(t.n[TERM_FLOPS_QUANTISE], weights);
    p.blas = p.int8_activations = false;
    cost_predict(&t, &c, &p);
    assert_int_equal(t.n[TERM_FLOPS_QUANTISE], weights);

    /* One fp32 matrix among those that share an input: the input is still quantised once. k alone in Q8_0, the rest fp32. */
    p.int8_activations = true;
    for (int k = 0; k < N_LAYER_MATRICES; k++) w.layers[0][k].type = k == MATRIX_K ? DTYPE_Q8_0 : DTYPE_F32;
    w.head.type = DTYPE_F16;
    cost_predict(&t, &c, &p);
    assert_int_equal(t.n[TERM_FLOPS_QUANTISE], 2 * 3 * 8 * 2 + 3 * 3 * 40);

    /* The int8 cache: 6 pairs, 5 heads; 3 rows of 8 + 8 elements written. */
    w.layers[0][MATRIX_K].type = DTYPE_F16;
    p.kv_type = DTYPE_Q8_0;
    cost_predict(&t, &c, &p);
    assert_int_equal(t.n[TERM_FLOPS_QUANTISE], 2 * 5 * 6 + 3 * 3 * 16);
    shape_storage_free(&w);
}

static void matrix_bytes_with_scales(void **state) {
    (void)state;
    assert_int_equal(cost_matrix_bytes(3, 32, (matrix_storage){DTYPE_Q8_0, 0}), 3 * 34);
    assert_int_equal(cost_matrix_bytes(3, 33, (matrix_storage){DTYPE_Q8_0, 0}), 3 * 68);
    assert_int_equal(cost_matrix_bytes(3, 10, (matrix_storage){DTYPE_I8G, 4}), 3 * (10 + 12));
    assert_int_equal(cost_matrix_bytes(3, 10, (matrix_storage){DTYPE_F16, 0}), 60);
    assert_int_equal(cost_matrix_bytes(70000, 70000, (matrix_storage){DTYPE_F32, 0}), 19600000000);
}

static uint64_t lo_of(uint64_t p, uint64_t w) {
    return w != 0 && p + 1 > w ? p + 1 - w : 0;
}

/* Counts (row, key) pairs, ranges touched, keys read by tiles and pages looked up one by one. */
static void check_sums(uint64_t cached, uint64_t n_new, uint64_t w, uint64_t step) {
    uint64_t pairs = 0, merges = 0, own = 0, old = 0, pages = 0;
    for (uint64_t p = cached; p < cached + n_new; p++) {
        uint64_t ranges = 0;
        for (uint64_t key = lo_of(p, w); key <= p; key++) {
            pairs++;
            if (key == lo_of(p, w) || key % step == 0) ranges++;
        }
        merges += ranges - 1;
    }
    for (uint64_t first = cached; first < cached + n_new; first += step) {
        for (uint64_t key = 0; key < cached + n_new; key++) {
            bool seen = false;
            for (uint64_t p = first; p < first + step && p < cached + n_new; p++) seen |= key >= lo_of(p, w) && key <= p;
            if (seen && key < cached) old++;
            if (seen && key >= cached) own++;
        }
    }
    for (uint64_t key = 0; key < cached + n_new; key++) {
        if (key >= lo_of(cached, w) && (key == lo_of(cached, w) || key % step == 0)) pages++;
    }
    kv_tokens read = cost_tokens_read(cached, n_new, w, step);
    assert_int_equal(cost_pairs(cached, n_new, w), pairs);
    assert_int_equal(cost_merges(cached, n_new, w, step), merges);
    assert_int_equal(read.cached, old);
    assert_int_equal(read.own, own);
    assert_int_equal(cost_pages(cached, n_new, w, step), pages);
}

static void closed_forms_equal_loops(void **state) {
    (void)state;
    for (uint64_t cached = 0; cached < 14; cached++)
        for (uint64_t n_new = 1; n_new < 14; n_new++)
            for (uint64_t window = 0; window < 12; window++)
                for (uint64_t step = 1; step < 8; step++) check_sums(cached, n_new, window, step);
}

static void causal_pairs(void **state) {
    (void)state;
    assert_int_equal(cost_pairs(0, 5, 0), 15);
    assert_int_equal(cost_pairs(0, 100, 0), 5050);
    assert_int_equal(cost_pairs(0, 5, 2), 9);
    assert_int_equal(cost_pairs(1000000, 1000000, 0), 1500000500000);
}

/* n C + Tq n(n-1)/2 + T, the closed form of the tiles. */
static void tile_formula(void **state) {
    (void)state;
    for (uint64_t new = 1; new < 300; new += 7) {
        uint64_t n = (new + 63) / 64;
        kv_tokens r = cost_tokens_read(1000, new, 0, 64);
        assert_int_equal(r.cached, n * 1000);
        assert_int_equal(r.own, 64 * n * (n - 1) / 2 + new);
    }
}

static void shared_prefix_counts_once(void **state) {
    (void)state;
    model_config c = shape_level21();
    weight_storage w = shape_storage(&c, DTYPE_F32, DTYPE_F32);
    plan_sequence seq[3] = {{7, 1, 1, 2, 4}, {5, 1, 1, 2, 4}, {6, 1, 1, -1, 0}};
    execution_plan p = shape_plan(&w, seq, 3);
    term_counts t;
    cost_predict(&t, &c, &p);
    assert_int_equal(t.n[TERM_BYTES_KV_CACHED], 512 * (7 + 5 - 4 + 6));
    assert_int_equal(t.n[TERM_BYTES_KV_OWN], 512 * 3);
    assert_int_equal(t.n[TERM_KEYS_ATTENDED], 2 * (8 + 6 + 7));

    /* A windowed layer reads each sequence's own window: no sharing there. */
    c.window = 3, c.layer_windowed[1] = 1;
    cost_predict(&t, &c, &p);
    assert_int_equal(t.n[TERM_BYTES_KV_CACHED], 256 * (7 + 5 - 4 + 6) + 256 * (2 + 2 + 2));
    shape_storage_free(&w);
}

/* A batch is the sum of its sequences in everything but the weights, which are read once. */
static void batch_reads_weights_once(void **state) {
    (void)state;
    model_config c = shape_level21();
    weight_storage w = shape_storage(&c, DTYPE_F16, DTYPE_F16);
    plan_sequence one = rows(6, 1, 1), eight[8];
    for (int b = 0; b < 8; b++) eight[b] = one;
    execution_plan p1 = shape_plan(&w, &one, 1), p8 = shape_plan(&w, eight, 8);
    term_counts t1, t8;
    cost_predict(&t1, &c, &p1);
    cost_predict(&t8, &c, &p8);
    uint64_t row = t1.n[TERM_BYTES_EMBEDDING] + t1.n[TERM_BYTES_POSITION];
    assert_int_equal(term_class_sum(&t8, CLASS_WEIGHT_BYTES) - 8 * row, term_class_sum(&t1, CLASS_WEIGHT_BYTES) - row);
    assert_int_equal(term_class_sum(&t8, CLASS_KV_BYTES), 8 * term_class_sum(&t1, CLASS_KV_BYTES));
    assert_int_equal(term_class_sum(&t8, CLASS_MATMUL), 8 * term_class_sum(&t1, CLASS_MATMUL));
    shape_storage_free(&w);
}

static void tied_and_untied_same_flops(void **state) {
    (void)state;
    model_config c = shape_level21();
    term_counts untied = predict(&c, DTYPE_F32, DTYPE_F32, rows(2, 3, 1));
    c.tied = true;
    term_counts tied = predict(&c, DTYPE_F32, DTYPE_F32, rows(2, 3, 1));
    assert_memory_equal(&tied, &untied, sizeof tied);
}

static void kv_heads_change_bytes_not_attention(void **state) {
    (void)state;
    model_config c = shape_level21();
    term_counts all = predict(&c, DTYPE_F32, DTYPE_F32, rows(5, 1, 1));
    c.n_kv_heads = 2;
    term_counts half = predict(&c, DTYPE_F32, DTYPE_F32, rows(5, 1, 1));
    assert_int_equal(half.n[TERM_BYTES_KV_CACHED] * 2, all.n[TERM_BYTES_KV_CACHED]);
    assert_int_equal(term_class_sum(&half, CLASS_ATTENTION), term_class_sum(&all, CLASS_ATTENTION));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(level21_decode_flops),
        cmocka_unit_test(level21_prefill_flops),
        cmocka_unit_test(level21_weight_bytes),
        cmocka_unit_test(level21_cache_bytes),
        cmocka_unit_test(no_logit_rows_no_head),
        cmocka_unit_test(quantise_by_hand),
        cmocka_unit_test(matrix_bytes_with_scales),
        cmocka_unit_test(closed_forms_equal_loops),
        cmocka_unit_test(causal_pairs),
        cmocka_unit_test(tile_formula),
        cmocka_unit_test(shared_prefix_counts_once),
        cmocka_unit_test(batch_reads_weights_once),
        cmocka_unit_test(tied_and_untied_same_flops),
        cmocka_unit_test(kv_heads_change_bytes_not_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
