/* What an engine and a model take is known before there are any: the plan equals what they then say they have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/engine.h"
#include "tools/estimate.h"
#include "tools/presets.h"

static const char *const shapes[] = {
    "{\"n_layers\":3,\"d_model\":40,\"n_heads\":6,\"n_kv_heads\":2,\"head_dim\":10,\"d_ff\":53,\"n_vocab\":71,\"n_ctx\":90}",
    "{\"n_layers\":2,\"d_model\":32,\"n_heads\":4,\"d_ff\":40,\"n_vocab\":19,\"n_ctx\":64,\"tied\":true,\"norm\":\"layer\","
    "\"norm_bias\":true,"
    "\"position\":\"learned\",\"gated\":false,\"q_bias\":true,\"kv_bias\":true,\"o_bias\":true,\"ffn_bias\":true,\"head_bias\":"
    "true}",
    "{\"n_layers\":2,\"d_model\":48,\"n_heads\":6,\"d_ff\":70,\"n_vocab\":33,\"n_ctx\":77,\"position\":\"alibi\",\"parallel_"
    "residual\":true}",
    "{\"n_layers\":4,\"d_model\":24,\"n_heads\":3,\"n_kv_heads\":1,\"head_dim\":12,\"d_ff\":30,\"n_vocab\":50,\"n_ctx\":80,"
    "\"window\":9,"
    "\"window_layers\":\"even\",\"rope_local_base\":1000,\"attn_post_norm\":true,\"ffn_post_norm\":true,\"qk_norm\":\"head\"}",
};

/* One model and one engine against the plan of both. */
static void check_one(const char *shape, int storage, int kv, uint64_t batch, uint64_t context, int page) {
    static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    question q;
    error e = {OK, ""};
    question_init(&q);
    q.has_config = true;
    assert_int_equal(shape_load(&q.config, shape, &e), OK);
    q.weights = storage, q.kv_type = kv, q.batch = batch, q.context = context, q.page_size = page, q.chunk = 24;
    if (question_resolve(&q, &e) != OK) fail_msg("%s", e.message);
    peak_memory peak;
    if (estimate_peak(&peak, &q, &e) != OK) fail_msg("%s", e.message);

    model *m;
    engine *en;
    model_options mo;
    engine_options eo;
    model_options_init(&mo);
    engine_options_init(&eo);
    mo.weights = (int)types[storage];
    eo.n_threads = 1, eo.kv_type = types[kv], eo.page_size = page, eo.prefill_chunk = 24, eo.max_sequences = (int)batch;
    eo.n_ctx = (int)context, eo.n_pages = (int)batch * (((int)context + page - 1) / page);
    if (model_random(&m, &q.config, 1, &mo, &e) != OK) fail_msg("%s", e.message);
    if (engine_create(&en, m, &eo, &e) != OK) fail_msg("%s", e.message);
    engine_memory use = engine_memory_use(en);
    assert_int_equal(peak.weights, m->weight_bytes + m->vector_bytes);
    assert_int_equal(peak.pool, use.pool);
    assert_int_equal(peak.tables, use.tables);
    assert_int_equal(peak.activations, use.activations + use.scratch);
    engine_free(en);
    model_free(m);
}

static void the_plan_of_memory_is_what_is_taken(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int storage = 0; storage < 3; storage++) {
            check_one(shapes[i], storage, STORAGE_F16, 1, 60, 16);
            check_one(shapes[i], storage, STORAGE_INT8, 5, 33, 4);
            check_one(shapes[i], storage, STORAGE_F32, 2, 7, 1);
        }
}

static void a_plan_takes_nothing(void **state) {
    (void)state;
    question q;
    error e;
    peak_memory peak;
    question_init(&q);
    q.has_config = true;
    assert_int_equal(preset_load(&q.config, "llama-3.1-405b", &e), OK);
    q.context = 100000, q.batch = 100;
    assert_int_equal(question_resolve(&q, &e), OK);
    assert_int_equal(estimate_peak(&peak, &q, &e), OK);
    assert_true(peak.pool == (uint64_t)100 * 100000 * 516096);
    assert_true(peak.total > peak.pool + peak.weights);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_of_memory_is_what_is_taken),
        cmocka_unit_test(a_plan_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
