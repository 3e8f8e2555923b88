/* Layouts: the same numbers arranged as different programs arrange them must give the same logits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/made_model.h"
#include "tests/reference.h"
#include "weights/layout.h"

static char *layout_folder, layout_path[512];

/* A layout file for the next load. */
static model_options with_layout(const char *text) {
    model_options o = made_options();
    layout_folder = folder_make();
    folder_put(layout_folder, "layout.json", text, strlen(text));
    snprintf(layout_path, sizeof layout_path, "%s/layout.json", layout_folder);
    o.layout_file = layout_path;
    return o;
}

/* Loads f with the layout's text, and compares with m. Frees f. */
static void same_with_layout(const model *m, tensor_file *f, const char *config, const char *text) {
    char *folder = file_folder(f, config);
    model_options o = with_layout(text);
    model *loaded = made_load(folder, &o);
    assert_true(made_difference(m, loaded, 12) == 0);
    model_free(loaded);
    folder_remove(folder), folder_remove(layout_folder);
}

static void refused_with_layout(tensor_file *f, const char *config, const char *text, const char *why) {
    char *folder = file_folder(f, config);
    model_options o = with_layout(text);
    made_refused(folder, &o, why);
    folder_remove(folder), folder_remove(layout_folder);
}

static model_config gpt2_config(void) {
    model_config c = made_config();
    c.n_kv_heads = 4, c.head_dim = 6, c.attn_scale = (float)(1 / sqrt(6)),
    c.rope_dim = 0; /* q_dim = d_model: c_proj is square */
    c.norm = NORM_LAYER, c.norm_bias = true, c.position = POSITION_LEARNED, c.gated = false,
    c.activation = ACTIVATION_GELU_TANH;
    c.q_bias = c.kv_bias = c.o_bias = c.ffn_bias = c.tied = true;
    return c;
}

static block fused_qkv(const model *m, int il, bool bias) {
    block all = {0}, q = block_of(m, ROLE_Q, il, bias), k = block_of(m, ROLE_K, il, bias), v = block_of(m, ROLE_V, il, bias);
    block_append(&all, &q), block_append(&all, &k), block_append(&all, &v);
    block_free(&q), block_free(&k), block_free(&v);
    return all;
}

static void add_maybe_transposed(tensor_file *f, const char *name, block *b, bool transposed) {
    block t = transposed ? block_transposed(b) : block_rows(b, 0, b->n_rows);
    file_add(f, name, &t);
    block_free(&t), block_free(b);
}

static void add_gpt2(tensor_file *f, const model *m, bool conv1d) {
    static const struct {
        tensor_role role;
        const char *name;
    } matrices[] = {{ROLE_O, "attn.c_proj"}, {ROLE_UP, "mlp.c_fc"}, {ROLE_DOWN, "mlp.c_proj"}};
    char name[128];
    file_add_role(f, m, ROLE_EMBEDDING, -1, "transformer.wte.weight");
    file_add_role(f, m, ROLE_POSITIONS, -1, "transformer.wpe.weight");
    file_add_role(f, m, ROLE_FINAL_NORM, -1, "transformer.ln_f.weight");
    file_add_layers(f, m, ROLE_ATTN_PRE_NORM, "transformer.h.%d.ln_1.weight");
    file_add_layers(f, m, ROLE_FFN_PRE_NORM, "transformer.h.%d.ln_2.weight");
    for (int il = 0; il < m->config.n_layers; il++) {
        for (int bias = 0; bias < 2; bias++) {
            block qkv = fused_qkv(m, il, bias);
            snprintf(name, sizeof name, "transformer.h.%d.attn.c_attn.%s", il, bias ? "bias" : "weight");
            add_maybe_transposed(f, name, &qkv, conv1d && !bias);
            for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
                block b = block_of(m, matrices[i].role, il, bias);
                snprintf(name, sizeof name, "transformer.h.%d.%s.%s", il, matrices[i].name, bias ? "bias" : "weight");
                add_maybe_transposed(f, name, &b, conv1d && !bias);
            }
        }
        block mask = block_of(m, ROLE_POSITIONS, -1, false);
        snprintf(name, sizeof name, "transformer.h.%d.attn.bias", il);
        file_add(f, name, &mask);
        block_free(&mask);
    }
}

static void gpt2_in_conv1d_and_in_linear_form_gives_the_same_logits(void **state) {
    (void)state;
    model_config c = gpt2_config();
    model *m = made_random(&c);
    tensor_file conv1d = {0}, linear = {0};
    add_gpt2(&conv1d, m, true), add_gpt2(&linear, m, false);
    char *a = file_folder(
        &conv1d, "{\"model_type\": \"gpt2\", \"n_head\": 4, \"n_positions\": 64, \"activation_function\": \"gelu_new\"}");
    char *b = file_folder(&linear, NULL); /* nanoGPT: no config.json; its GELU is the exact one */
    model_options o = made_options();
    model *x = made_load(a, &o);
    assert_string_equal(x->layout, "gpt2");
    assert_true(made_difference(m, x, 20) == 0);
    o.n_heads = 4;
    model *y = made_load(b, &o);
    assert_string_equal(y->layout, "nanogpt");
    assert_int_equal(y->config.activation, ACTIVATION_GELU_ERF);
    y->config.activation = ACTIVATION_GELU_TANH;
    assert_true(made_difference(m, y, 20) == 0);
    model_free(x), model_free(y), model_free(m), folder_remove(a), folder_remove(b);
}

/* Hugging Face turns element i of a head with i + head_dim/2, Meta 2i with 2i + 1: the rows of Q and K are permuted between them. */
static void q_and_k_in_meta_s_order_give_the_same_logits_with_fewer_kv_heads(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    static const struct {
        tensor_role role;
        const char *name;
    } names[] = {{ROLE_ATTN_PRE_NORM, "attention_norm"}, {ROLE_V, "attention.wv"},       {ROLE_O, "attention.wo"},
                 {ROLE_FFN_PRE_NORM, "ffn_norm"},        {ROLE_GATE, "feed_forward.w1"}, {ROLE_UP, "feed_forward.w3"},
                 {ROLE_DOWN, "feed_forward.w2"}};
    char name[128];
    file_add_role(&f, m, ROLE_EMBEDDING, -1, "tok_embeddings.weight");
    file_add_role(&f, m, ROLE_FINAL_NORM, -1, "norm.weight");
    file_add_role(&f, m, ROLE_HEAD, -1, "output.weight");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "layers.%%d.%s.weight", names[i].name);
        file_add_layers(&f, m, names[i].role, name);
    }
    for (int il = 0; il < c.n_layers; il++)
        for (int k = 0; k < 2; k++) {
            block rows = block_of(m, k ? ROLE_K : ROLE_Q, il, false), pairs = block_to_pairs(&rows, c.head_dim);
            snprintf(name, sizeof name, "layers.%d.attention.w%c.weight", il, k ? 'k' : 'q');
            file_add(&f, name, &pairs);
            block_free(&rows), block_free(&pairs);
        }
    char *folder = file_folder(&f, NULL);
    model_options o = made_options();
    o.n_heads = 4;
    model *loaded = made_load(folder, &o);
    assert_int_equal(loaded->config.rope, ROPE_PAIRS);
    assert_int_equal(loaded->config.n_kv_heads, 2);
    double difference = made_difference(m, loaded, 41);
    assert_true(difference < 1e-9); /* sums over a head in another order */
    model_free(loaded), model_free(m), folder_remove(folder);
}

/* K and V written once for each query head, in a model with as many K/V heads. */
static void eight_heads_on_two_kv_heads_equal_an_explicit_repeat(void **state) {
    (void)state;
    model_config c = made_config();
    c.n_heads = 8, c.n_kv_heads = 2, c.head_dim = 6, c.rope_dim = 6, c.attn_scale = (float)(1 / sqrt(6));
    model *m = made_random(&c);
    tensor_file f = {0};
    file_add_llama(&f, m, "");
    /* Another file with the repeated matrices under the same names. */
    tensor_file g = {0};
    model_config all = c;
    all.n_kv_heads = 8;
    file_add_role(&g, m, ROLE_EMBEDDING, -1, "model.embed_tokens.weight"),
        file_add_role(&g, m, ROLE_HEAD, -1, "lm_head.weight");
    file_add_role(&g, m, ROLE_FINAL_NORM, -1, "model.norm.weight");
    file_add_layers(&g, m, ROLE_ATTN_PRE_NORM, "model.layers.%d.input_layernorm.weight");
    file_add_layers(&g, m, ROLE_FFN_PRE_NORM, "model.layers.%d.post_attention_layernorm.weight");
    file_add_layers(&g, m, ROLE_Q, "model.layers.%d.self_attn.q_proj.weight"),
        file_add_layers(&g, m, ROLE_O, "model.layers.%d.self_attn.o_proj.weight");
    file_add_layers(&g, m, ROLE_GATE, "model.layers.%d.mlp.gate_proj.weight"),
        file_add_layers(&g, m, ROLE_UP, "model.layers.%d.mlp.up_proj.weight");
    file_add_layers(&g, m, ROLE_DOWN, "model.layers.%d.mlp.down_proj.weight");
    for (int il = 0; il < c.n_layers; il++)
        for (int v = 0; v < 2; v++) {
            block kv = block_of(m, v ? ROLE_V : ROLE_K, il, false), repeated = {0};
            for (int h = 0; h < 8; h++) {
                block head = block_rows(&kv, h / 4 * 6, 6);
                block_append(&repeated, &head);
                block_free(&head);
            }
            char name[128];
            snprintf(name, sizeof name, "model.layers.%d.self_attn.%c_proj.weight", il, v ? 'v' : 'k');
            file_add(&g, name, &repeated);
            block_free(&kv), block_free(&repeated);
        }
    char *grouped_config = llama_config(&c, NULL), *full_config = llama_config(&all, NULL);
    char *grouped = file_folder(&f, grouped_config), *full = file_folder(&g, full_config);
    model_options o = made_options();
    model *x = made_load(grouped, &o), *y = made_load(full, &o);
    assert_int_equal(x->config.n_kv_heads, 2);
    assert_int_equal(y->config.n_kv_heads, 8);
    assert_true(made_difference(x, y, 20) < 1e-12);
    assert_true(made_difference(m, x, 20) == 0);
    model_free(x), model_free(y), model_free(m);
    free(grouped_config), free(full_config), folder_remove(grouped), folder_remove(full);
}

#define LIKE_LLAMA                                                                                                             \
    "{\"name\": \"own\", \"like\": \"llama\", \"config\": {\"n_heads\": 4, \"n_ctx\": 64, \"norm_eps\": 1e-5, "                \
    "\"n_kv_heads\": %d}, \"tensors\": {"

/* All of the llama but q, k and v, which the caller adds. */
static void add_without_qkv(tensor_file *f, const model *m) {
    file_add_role(f, m, ROLE_EMBEDDING, -1, "model.embed_tokens.weight"), file_add_role(f, m, ROLE_HEAD, -1, "lm_head.weight");
    file_add_role(f, m, ROLE_FINAL_NORM, -1, "model.norm.weight");
    file_add_layers(f, m, ROLE_ATTN_PRE_NORM, "model.layers.%d.input_layernorm.weight");
    file_add_layers(f, m, ROLE_FFN_PRE_NORM, "model.layers.%d.post_attention_layernorm.weight");
    file_add_layers(f, m, ROLE_O, "model.layers.%d.self_attn.o_proj.weight");
    file_add_layers(f, m, ROLE_GATE, "model.layers.%d.mlp.gate_proj.weight"),
        file_add_layers(f, m, ROLE_UP, "model.layers.%d.mlp.up_proj.weight");
    file_add_layers(f, m, ROLE_DOWN, "model.layers.%d.mlp.down_proj.weight");
}

static model *biased_model(int n_kv_heads) {
    model_config c = made_config();
    c.n_kv_heads = n_kv_heads, c.q_bias = c.kv_bias = true;
    return made_random(&c);
}

/* Head h of a role. */
static block head_of(const model *m, tensor_role role, int il, bool bias, int h) {
    block all = block_of(m, role, il, bias), one = block_rows(&all, h * m->config.head_dim, m->config.head_dim);
    block_free(&all);
    return one;
}

static void append_head(block *to, const model *m, tensor_role role, int il, bool bias, int h) {
    block one = head_of(m, role, il, bias, h);
    block_append(to, &one);
    block_free(&one);
}

typedef enum { ORDER_BLOCKS_KQV, ORDER_HEADS, ORDER_GROUPS } fused_order;

static block fused(const model *m, int il, bool bias, fused_order order) {
    block all = {0};
    int n_kv = m->config.n_kv_heads, group = m->config.n_heads / n_kv;
    if (order == ORDER_BLOCKS_KQV) {
        block q = block_of(m, ROLE_Q, il, bias), k = block_of(m, ROLE_K, il, bias), v = block_of(m, ROLE_V, il, bias);
        block_append(&all, &k), block_append(&all, &q), block_append(&all, &v);
        block_free(&q), block_free(&k), block_free(&v);
        return all;
    }
    for (int g = 0; g < n_kv; g++) { /* the queries of a group, then its key head, then its value head */
        for (int i = 0; i < group; i++) append_head(&all, m, ROLE_Q, il, bias, g * group + i);
        append_head(&all, m, ROLE_K, il, bias, g), append_head(&all, m, ROLE_V, il, bias, g);
    }
    return all;
}

static void check_fused(int n_kv_heads, fused_order order, const char *word) {
    model *m = biased_model(n_kv_heads);
    tensor_file f = {0};
    char text[512], name[128];
    add_without_qkv(&f, m);
    for (int il = 0; il < m->config.n_layers; il++)
        for (int bias = 0; bias < 2; bias++) {
            block b = fused(m, il, bias, order);
            snprintf(name, sizeof name, "model.layers.%d.self_attn.qkv.%s", il, bias ? "bias" : "weight");
            file_add(&f, name, &b);
            block_free(&b);
        }
    snprintf(text, sizeof text,
             LIKE_LLAMA
             "\"q\": null, \"k\": null, \"v\": null, \"qkv\": {\"name\": \"model.layers.{layer}.self_attn.qkv.weight\", "
             "\"order\": \"%s\"}}}",
             n_kv_heads, word);
    same_with_layout(m, &f, NULL, text);
    model_free(m);
}

static void fused_qkv_is_taken_apart_in_every_order(void **state) {
    (void)state;
    check_fused(2, ORDER_BLOCKS_KQV, "k,q,v");
    check_fused(4, ORDER_HEADS, "heads");
    check_fused(4, ORDER_GROUPS, "groups");
    check_fused(2, ORDER_GROUPS, "groups");
    check_fused(1, ORDER_GROUPS, "groups");
}

static void an_order_that_the_heads_cannot_have_is_refused(void **state) {
    (void)state;
    model *m = biased_model(2);
    static const char *const orders[] = {"heads", "q,k", "q,k,v,v", "q;k;v", ""};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        tensor_file f = {0};
        char text[512], name[128];
        add_without_qkv(&f, m);
        for (int il = 0; il < 3; il++) {
            block b = fused(m, il, false, ORDER_GROUPS);
            snprintf(name, sizeof name, "model.layers.%d.self_attn.qkv.weight", il);
            file_add(&f, name, &b);
            block_free(&b);
        }
        snprintf(text, sizeof text,
                 LIKE_LLAMA
                 "\"q\": null, \"k\": null, \"v\": null, \"qkv\": {\"name\": \"model.layers.{layer}.self_attn.qkv.weight\", "
                 "\"order\": \"%s\"}}}",
                 2, orders[i]);
        refused_with_layout(&f, NULL, text, "has an order that 4 heads with 2 K/V heads cannot have");
    }
    model_free(m);
}

static void matrices_of_single_heads_are_put_together(void **state) {
    (void)state;
    model *m = biased_model(2);
    tensor_file f = {0};
    static const struct {
        tensor_role role;
        const char *word;
        int n;
    } parts[] = {{ROLE_Q, "query", 4}, {ROLE_K, "key", 2}, {ROLE_V, "value", 2}};
    char text[1024], name[128];
    add_without_qkv(&f, m);
    for (int il = 0; il < 3; il++)
        for (int p = 0; p < 3; p++)
            for (int h = 0; h < parts[p].n; h++)
                for (int bias = 0; bias < 2; bias++) {
                    block b = head_of(m, parts[p].role, il, bias, h);
                    snprintf(name, sizeof name, "model.layers.%d.heads.%d.%s.%s", il, h, parts[p].word,
                             bias ? "bias" : "weight");
                    file_add(&f, name, &b);
                    block_free(&b);
                }
    /* Neither the number of heads nor their size is given: they are counted and measured. */
    snprintf(
        text, sizeof text, "%s",
        "{\"name\": \"own\", \"like\": \"llama\", \"config\": {\"n_ctx\": 64, \"norm_eps\": 1e-5}, \"tensors\": {"
        "\"q\": \"model.layers.{layer}.heads.{head}.query.weight\", \"k\": \"model.layers.{layer}.heads.{head}.key.weight\", "
        "\"v\": \"model.layers.{layer}.heads.{head}.value.weight\"}}");
    same_with_layout(m, &f, NULL, text);
    model_free(m);
}

static void one_fused_matrix_a_head_is_taken_apart(void **state) {
    (void)state;
    model *m = biased_model(4);
    tensor_file f = {0};
    char name[128];
    add_without_qkv(&f, m);
    for (int il = 0; il < 3; il++)
        for (int h = 0; h < 4; h++)
            for (int bias = 0; bias < 2; bias++) {
                block b = {0};
                append_head(&b, m, ROLE_V, il, bias, h), append_head(&b, m, ROLE_Q, il, bias, h),
                    append_head(&b, m, ROLE_K, il, bias, h);
                snprintf(name, sizeof name, "model.layers.%d.heads.%d.vqk.%s", il, h + 1, bias ? "bias" : "weight");
                file_add(&f, name, &b);
                block_free(&b);
            }
    same_with_layout(
        m, &f, NULL,
        "{\"name\": \"own\", \"like\": \"llama\", \"config\": {\"n_ctx\": 64, \"norm_eps\": 1e-5}, \"tensors\": {"
        "\"q\": null, \"k\": null, \"v\": null, \"qkv\": {\"name\": \"model.layers.{layer}.heads.{head+1}.vqk.weight\", "
        "\"order\": \"v,q,k\"}}}");
    model_free(m);
}

static void fused_k_and_v_and_fused_gate_and_up_are_taken_apart(void **state) {
    (void)state;
    for (int by_head = 0; by_head < 2; by_head++) {
        model *m = biased_model(2);
        tensor_file f = {0};
        char name[128], text[1024];
        file_add_role(&f, m, ROLE_EMBEDDING, -1, "model.embed_tokens.weight"),
            file_add_role(&f, m, ROLE_HEAD, -1, "lm_head.weight");
        file_add_role(&f, m, ROLE_FINAL_NORM, -1, "model.norm.weight");
        file_add_layers(&f, m, ROLE_ATTN_PRE_NORM, "model.layers.%d.input_layernorm.weight");
        file_add_layers(&f, m, ROLE_FFN_PRE_NORM, "model.layers.%d.post_attention_layernorm.weight");
        file_add_layers(&f, m, ROLE_Q, "model.layers.%d.self_attn.q_proj.weight");
        file_add_layers(&f, m, ROLE_O, "model.layers.%d.self_attn.o_proj.weight");
        file_add_layers(&f, m, ROLE_DOWN, "model.layers.%d.mlp.down_proj.weight");
        for (int il = 0; il < 3; il++) {
            for (int bias = 0; bias < 2; bias++) {
                block kv = {0}, k = block_of(m, ROLE_K, il, bias), v = block_of(m, ROLE_V, il, bias);
                if (!by_head) block_append(&kv, &k), block_append(&kv, &v);
                for (int h = 0; by_head && h < 2; h++)
                    append_head(&kv, m, ROLE_K, il, bias, h), append_head(&kv, m, ROLE_V, il, bias, h);
                snprintf(name, sizeof name, "model.layers.%d.kv.%s", il, bias ? "bias" : "weight");
                file_add(&f, name, &kv);
                block_free(&kv), block_free(&k), block_free(&v);
            }
            block both = {0}, gate = block_of(m, ROLE_GATE, il, false), up = block_of(m, ROLE_UP, il, false);
            if (!by_head) block_append(&both, &up), block_append(&both, &gate);
            for (int r = 0; by_head && r < gate.n_rows; r++) {
                block g = block_rows(&gate, r, 1), u = block_rows(&up, r, 1);
                block_append(&both, &g), block_append(&both, &u);
                block_free(&g), block_free(&u);
            }
            snprintf(name, sizeof name, "model.layers.%d.mlp.both.weight", il);
            file_add(&f, name, &both);
            block_free(&both), block_free(&gate), block_free(&up);
        }
        snprintf(text, sizeof text,
                 LIKE_LLAMA "\"k\": null, \"v\": null, \"gate\": null, \"up\": null, "
                            "\"kv\": {\"name\": \"model.layers.{layer}.kv.weight\", \"order\": \"%s\"}, "
                            "\"gate_up\": {\"name\": \"model.layers.{layer}.mlp.both.weight\", \"order\": \"%s\"}}}",
                 2, by_head ? "heads" : "k,v", by_head ? "interleaved" : "up,gate");
        same_with_layout(m, &f, NULL, text);
        model_free(m);
    }
}

static void gains_stored_less_one_get_it_back(void **state) {
    (void)state;
    model_config c = made_config();
    model *m = made_random(&c);
    tensor_file f = {0};
    add_without_qkv(&f, m);
    file_add_layers(&f, m, ROLE_Q, "model.layers.%d.self_attn.q_proj.weight");
    file_add_layers(&f, m, ROLE_K, "model.layers.%d.self_attn.k_proj.weight");
    file_add_layers(&f, m, ROLE_V, "model.layers.%d.self_attn.v_proj.weight");
    block less = block_of(m, ROLE_FINAL_NORM, -1, false);
    for (int i = 0; i < less.n_rows; i++) less.x[i] -= 1;
    file_add(&f, "model.norm_less.weight", &less);
    char *folder = file_folder(&f, NULL), text[512];
    snprintf(text, sizeof text,
             LIKE_LLAMA
             "\"final_norm\": {\"name\": \"model.norm_less.weight\", \"offset\": 1}}, \"ignore\": [\"model.norm.weight\"]}",
             2);
    model_options o = with_layout(text);
    model *loaded = made_load(folder, &o);
    for (int i = 0; i < less.n_rows; i++) assert_true(loaded->final_norm.gain[i] == less.x[i] + 1.0f);
    assert_true(made_difference(m, loaded, 3) < 1e-5);
    block_free(&less), model_free(loaded), model_free(m);
    folder_remove(folder), folder_remove(layout_folder);
}

/* Vaswani et al. 2017: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) the cosine. */
static void sinusoidal_positions_are_computed_where_the_file_has_none(void **state) {
    (void)state;
    model_config c = gpt2_config();
    c.tied = false;
    model *m = made_random(&c);
    tensor_file f = {0};
    add_gpt2(&f, m, false);
    file_add_role(&f, m, ROLE_HEAD, -1, "lm_head.weight");
    char *folder = file_folder(&f, NULL);
    model_options o =
        with_layout("{\"name\": \"own\", \"like\": \"nanogpt\", \"config\": {\"n_heads\": 4, \"n_ctx\": 50, \"activation\": "
                    "\"gelu_tanh\"}, "
                    "\"ignore\": [\"transformer.wpe.weight\"], \"tensors\": {\"positions\": {\"computed\": \"sinusoidal\"}}}");
    model *loaded = made_load(folder, &o);
    assert_int_equal(loaded->positions.n_rows, 50);
    for (int pos = 0; pos < 50; pos++) {
        float row[24];
        matrix_row_f32(row, &loaded->positions, pos);
        for (int i = 0; i < 12; i++) {
            double angle = pos / pow(10000, 2.0 * i / 24);
            assert_true(fabs((double)row[2 * i] - sin(angle)) < 1e-6 && fabs((double)row[2 * i + 1] - cos(angle)) < 1e-6);
        }
    }
    model_free(loaded), model_free(m), folder_remove(folder), folder_remove(layout_folder);
}

/* docs/layouts.md walks through this model; its file must read it. */
static void the_worked_example_of_the_documentation_reads_its_model(void **state) {
    (void)state;
    model_config c = gpt2_config();
    c.n_layers = 2, c.attn_scale = (float)(1 / sqrt(24)), c.q_bias = c.kv_bias = false, c.d_ff = 96;
    model *m = made_random(&c);
    tensor_file f = {0};
    char name[128];
    file_add_role(&f, m, ROLE_EMBEDDING, -1, "net.words.weight");
    block places = block_of(m, ROLE_POSITIONS, -1, false);
    file_add_dims(&f, "net.places", &places, 3, (int[]){1, 64, 24});
    block_free(&places);
    static const struct {
        tensor_role role;
        bool bias, turned, by_head;
        const char *name;
    } tensors[] = {{ROLE_ATTN_PRE_NORM, 0, 0, 0, "calm1.gamma"},
                   {ROLE_ATTN_PRE_NORM, 1, 0, 0, "calm1.beta"},
                   {ROLE_Q, 0, 0, 1, "look.ask"},
                   {ROLE_K, 0, 0, 1, "look.hint"},
                   {ROLE_V, 0, 0, 1, "look.gist"},
                   {ROLE_O, 0, 0, 0, "look.join.weight"},
                   {ROLE_O, 1, 0, 0, "look.join.bias"},
                   {ROLE_POSITIONS, 0, 0, 0, "look.past_only"},
                   {ROLE_FFN_PRE_NORM, 0, 0, 0, "calm2.gamma"},
                   {ROLE_FFN_PRE_NORM, 1, 0, 0, "calm2.beta"},
                   {ROLE_UP, 0, 1, 0, "think.wide"},
                   {ROLE_UP, 1, 0, 0, "think.wide_bias"},
                   {ROLE_DOWN, 0, 1, 0, "think.narrow"},
                   {ROLE_DOWN, 1, 0, 0, "think.narrow_bias"}};
    for (int il = 0; il < 2; il++)
        for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
            for (int h = 0; h < (tensors[i].by_head ? 4 : 1); h++) {
                block all = block_of(m, tensors[i].role, il, tensors[i].bias);
                block b = tensors[i].turned    ? block_transposed(&all)
                          : tensors[i].by_head ? block_rows(&all, 6 * h, 6)
                                               : block_rows(&all, 0, all.n_rows);
                snprintf(name, sizeof name, "net.stages.%d.%s", il, tensors[i].name);
                size_t n = strlen(name);
                if (tensors[i].by_head) snprintf(name + n, sizeof name - n, ".%d.weight", h);
                file_add(&f, name, &b);
                block_free(&all), block_free(&b);
            }
    block gain = block_of(m, ROLE_FINAL_NORM, -1, false), beta = block_of(m, ROLE_FINAL_NORM, -1, true);
    file_add(&f, "net.calm_end.gamma", &gain), file_add(&f, "net.calm_end.beta", &beta);
    char *folder = file_folder(&f, "{\"letters\": {\"a\": 0, \"b\": 1}, \"settings\": {\"eps\": 1e-5}}");
    model_options o = made_options();
    o.layout_file = "docs/layouts/haiku.json";
    model *loaded = made_load(folder, &o);
    assert_int_equal(loaded->config.n_heads, 4);
    assert_true(made_difference(m, loaded, 20) == 0);
    assert_string_equal(json_string_value(json_array_get(loaded->vocabulary, 1)), "b");
    assert_string_equal(loaded->sample_prompt, "an old silent pond");
    block_free(&gain), block_free(&beta), model_free(loaded), model_free(m), folder_remove(folder);
}

static void mistakes_in_a_layout_file_are_named(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{", "layout.json: line 1"},
        {"[]", "layout.json: a layout must be a JSON object"},
        {"{\"name\": \"x\"}", "layout.json: the layout has no object 'tensors'"},
        {"{\"tensors\": {}, \"tensor\": {}}", "layout.json: the layout has an unknown key 'tensor'"},
        {"{\"tensors\": {\"query\": \"x\"}}", "layout.json: 'tensors' has an unknown role 'query'"},
        {"{\"tensors\": {\"q\": 7}}", "layout.json: 'q' must be a name, a list of names, or an object with a name"},
        {"{\"tensors\": {\"q\": {\"name\": \"x\", \"transpose\": true}}}", "layout.json: q has an unknown key 'transpose'"},
        {"{\"like\": \"gpt5\", \"tensors\": {}}", "layout.json: there is no built-in layout 'gpt5' to be like"},
        {"{\"like\": \"llama\", \"config\": {\"n_ctx\": {\"of\": \"d_ff\"}, \"d_ff\": {\"of\": \"n_ctx\"}}}",
         "refers in circles"},
        {"{\"like\": \"llama\", \"config\": {\"n_ctx\": 8, \"n_heads\": 4, \"colour\": 3}}", "unknown key \"colour\""},
        {"{\"like\": \"llama\", \"config\": {\"n_ctx\": 8, \"n_heads\": 4, \"norm\": \"batch\"}}", "norm is \"batch\""},
        {"{\"like\": \"llama\", \"config\": {\"n_ctx\": 8, \"n_heads\": {\"ask\": \"n_heads: how many?\"}}}",
         "n_heads: how many?"},
    };
    model_config c = made_config();
    model *m = made_random(&c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tensor_file f = {0};
        file_add_llama(&f, m, "");
        refused_with_layout(&f, NULL, cases[i][0], cases[i][1]);
    }
    model_free(m);
}

static void every_built_in_layout_reads_and_has_a_name_of_its_own(void **state) {
    (void)state;
    error e = {0};
    json_t *all = layouts_builtin(&e);
    if (all == NULL) fail_msg("%s", e.message);
    assert_true(json_array_size(all) > 20);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *layout = json_array_get(all, i);
        assert_ptr_equal(layout_named(all, layout_name(layout)), layout);
        assert_non_null(json_object_get(layout, "title"));
    }
    json_decref(all);
}

/* Written as JSON and read back, a configuration is the same, whatever the fields. */
static void a_configuration_survives_being_written_as_json(void **state) {
    (void)state;
    model_config a = made_config(), b;
    a.window = 5, a.layer_windowed[1] = 1, a.attn_softcap = 50, a.final_softcap = 0.3f, a.residual_scale = 0.22f,
    a.norm_eps = 1e-6f;
    a.rope_scaling = ROPE_SCALING_FACTORS, a.rope_factor = 1.7, a.rope_original_ctx = 12, a.rope_base = 500000.1;
    for (int i = 0; i < 5; i++) a.rope_factors[i] = 1 + (float)i / 3;
    snprintf(a.family, sizeof a.family, "made");
    error e = {0};
    json_t *object = config_to_object(&a);
    if (config_from_object(&b, object, &e) != OK) fail_msg("%s", e.message);
    assert_memory_equal(&a, &b, sizeof a);
    json_decref(object);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_in_conv1d_and_in_linear_form_gives_the_same_logits),
        cmocka_unit_test(q_and_k_in_meta_s_order_give_the_same_logits_with_fewer_kv_heads),
        cmocka_unit_test(eight_heads_on_two_kv_heads_equal_an_explicit_repeat),
        cmocka_unit_test(fused_qkv_is_taken_apart_in_every_order),
        cmocka_unit_test(an_order_that_the_heads_cannot_have_is_refused),
        cmocka_unit_test(matrices_of_single_heads_are_put_together),
        cmocka_unit_test(one_fused_matrix_a_head_is_taken_apart),
        cmocka_unit_test(fused_k_and_v_and_fused_gate_and_up_are_taken_apart),
        cmocka_unit_test(gains_stored_less_one_get_it_back),
        cmocka_unit_test(sinusoidal_positions_are_computed_where_the_file_has_none),
        cmocka_unit_test(the_worked_example_of_the_documentation_reads_its_model),
        cmocka_unit_test(mistakes_in_a_layout_file_are_named),
        cmocka_unit_test(every_built_in_layout_reads_and_has_a_name_of_its_own),
        cmocka_unit_test(a_configuration_survives_being_written_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
