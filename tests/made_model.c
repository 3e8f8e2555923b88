#include "tests/made_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/reference.h"

static block block_make(int n_rows, int n_cols) {
    block b = {.n_rows = n_rows, .n_cols = n_cols};
    b.x = calloc((size_t)n_rows * (size_t)(n_cols ? n_cols : 1), sizeof *b.x);
    assert_non_null(b.x);
    return b;
}

static size_t width(const block *b) {
    return (size_t)(b->n_cols ? b->n_cols : 1);
}

void block_free(block *b) {
    free(b->x);
    b->x = NULL;
}

block block_of(const model *m, tensor_role role, int layer, bool bias) {
    model *mutable = (model *)m; /* the accessors are for builders too */
    if (role_kind_of(role) == ROLE_MATRIX && !bias) {
        const matrix *w = model_matrix(mutable, role, layer);
        block b = block_make(w->n_rows, w->n_cols);
        for (int r = 0; r < w->n_rows; r++) matrix_row_f32(b.x + (size_t)r * width(&b), w, r);
        return b;
    }
    const float *x;
    int n;
    if (role_kind_of(role) == ROLE_MATRIX) {
        x = model_matrix(mutable, role, layer)->bias, n = model_matrix(mutable, role, layer)->n_rows;
    } else {
        const norm_weights *norm = model_norm(mutable, role, layer);
        x = bias ? norm->bias : norm->gain, n = norm->n;
    }
    assert_non_null(x);
    block b = block_make(n, 0);
    memcpy(b.x, x, (size_t)n * sizeof *x);
    return b;
}

block block_transposed(const block *b) {
    block t = block_make(b->n_cols, b->n_rows);
    for (int r = 0; r < b->n_rows; r++)
        for (int k = 0; k < b->n_cols; k++) t.x[k * b->n_rows + r] = b->x[r * b->n_cols + k];
    return t;
}

block block_rows(const block *b, int first, int n) {
    block out = block_make(n, b->n_cols);
    memcpy(out.x, b->x + (size_t)first * width(b), (size_t)n * width(b) * sizeof *b->x);
    return out;
}

void block_append(block *a, const block *b) {
    if (a->x == NULL) {
        *a = block_rows(b, 0, b->n_rows);
        return;
    }
    assert_int_equal(a->n_cols, b->n_cols);
    block both = block_make(a->n_rows + b->n_rows, a->n_cols);
    size_t n = (size_t)a->n_rows * width(a);
    memcpy(both.x, a->x, n * sizeof *a->x);
    memcpy(both.x + n, b->x, (size_t)b->n_rows * width(b) * sizeof *b->x);
    block_free(a);
    *a = both;
}

block block_to_pairs(const block *b, int head_dim) {
    block out = block_make(b->n_rows, b->n_cols);
    for (int r = 0; r < b->n_rows; r++) {
        int i = r % head_dim, half = head_dim / 2, to = r - i + (i < half ? 2 * i : 2 * (i - half) + 1);
        memcpy(out.x + (size_t)to * width(b), b->x + (size_t)r * width(b), width(b) * sizeof *b->x);
    }
    return out;
}

static void add_numbers(tensor_file *f, const char *name, const block *b, const char *type, const char *shape) {
    size_t n = (size_t)b->n_rows * width(b), start = f->data.n;
    char entry[512];
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &b->x[i], sizeof bits);
        if (strcmp(type, "F32") == 0)
            put_f32(&f->data, b->x[i]);
        else
            put_u16(&f->data, strcmp(type, "F16") == 0 ? f32_to_f16(b->x[i]) : (uint16_t)(bits >> 16));
    }
    snprintf(entry, sizeof entry, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
             f->header.n ? ',' : '{', name, type, shape, start, f->data.n);
    put_text(&f->header, entry);
}

void file_add_as(tensor_file *f, const char *name, const block *b, const char *type) {
    char shape[64];
    if (b->n_cols)
        snprintf(shape, sizeof shape, "[%d,%d]", b->n_rows, b->n_cols);
    else
        snprintf(shape, sizeof shape, "[%d]", b->n_rows);
    add_numbers(f, name, b, type, shape);
}

void file_add_dims(tensor_file *f, const char *name, const block *b, int n_dims, const int *dims) {
    char shape[64];
    size_t n = 0, count = 1;
    for (int i = 0; i < n_dims; i++) {
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%c%d", i ? ',' : '[', dims[i]);
        count *= (size_t)dims[i];
    }
    snprintf(shape + n, sizeof shape - n, "]");
    assert_int_equal(count, (size_t)b->n_rows * width(b));
    add_numbers(f, name, b, "F32", shape);
}

void file_add(tensor_file *f, const char *name, const block *b) {
    file_add_as(f, name, b, "F32");
}

/* "....weight" as "....bias". */
static void bias_name(char *name) {
    size_t n = strlen(name);
    assert_true(n > 6 && strcmp(name + n - 6, "weight") == 0);
    memcpy(name + n - 6, "bias", 5);
}

void file_add_role(tensor_file *f, const model *m, tensor_role role, int layer, const char *format) {
    for (int bias = 0; bias < 2; bias++) {
        if (!role_wanted(&m->config, role, bias)) continue;
        char name[256];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(name, sizeof name, format, layer);
#pragma GCC diagnostic pop
        if (bias) bias_name(name);
        block b = block_of(m, role, layer, bias);
        file_add(f, name, &b);
        block_free(&b);
    }
}

void file_add_layers(tensor_file *f, const model *m, tensor_role role, const char *format) {
    for (int il = 0; il < m->config.n_layers; il++) file_add_role(f, m, role, il, format);
}

char *file_folder(tensor_file *f, const char *config_json) {
    bytes file = {0};
    put_text(&f->header, "}");
    put_u64(&file, f->header.n);
    put(&file, f->header.data, f->header.n);
    put(&file, f->data.data, f->data.n);
    char *folder = folder_make();
    folder_put(folder, "model.safetensors", file.data, file.n);
    if (config_json != NULL) folder_put(folder, "config.json", config_json, strlen(config_json));
    bytes_free(&file), bytes_free(&f->header), bytes_free(&f->data);
    return folder;
}

model_config made_config(void) {
    model_config c;
    config_init(&c);
    c.n_layers = 3, c.d_model = 24, c.n_heads = 4, c.n_kv_heads = 2, c.head_dim = 10, c.d_ff = 28, c.n_vocab = 31, c.n_ctx = 64;
    c.rope_dim = 10, c.attn_scale = (float)(1 / sqrt(10));
    return c;
}

model *made_random(const model_config *c) {
    model_options o = made_options();
    model *m = NULL;
    error e;
    if (model_random(&m, c, 77, &o, &e) != OK) fail_msg("%s", e.message);
    return m;
}

model_options made_options(void) {
    model_options o;
    model_options_init(&o);
    return o;
}

model *made_load(const char *folder, const model_options *o) {
    model *m = NULL;
    error e;
    if (model_load(&m, folder, o, NULL, &e) != OK) fail_msg("%s", e.message);
    return m;
}

void made_refused(const char *folder, const model_options *o, const char *why) {
    model *m = (model *)1;
    checkpoint *c = (checkpoint *)1;
    error e = {0};
    if (model_load(&m, folder, o, &c, &e) == OK) fail_msg("loaded, where '%s' was expected", why);
    assert_null(m);
    assert_null(c);
    if (strstr(e.message, why) == NULL) fail_msg("refused with '%s', expected '%s'", e.message, why);
}

double made_difference(const model *a, const model *b, int n) {
    int ids[256];
    double worst = 0;
    assert_int_equal(a->config.n_vocab, b->config.n_vocab);
    for (int i = 0; i < n; i++) ids[i] = (i * 7 + 3) % a->config.n_vocab;
    double *x = reference_logits(a, ids, n), *y = reference_logits(b, ids, n);
    for (size_t i = 0; i < (size_t)n * (size_t)a->config.n_vocab; i++) {
        double d = fabs(x[i] - y[i]);
        if (!(d <= worst)) worst = d; /* a NaN is taken, and fails the caller's comparison */
    }
    free(x), free(y);
    return worst;
}

void file_add_llama_body(tensor_file *f, const model *m, const char *prefix) {
    static const struct {
        tensor_role role;
        const char *name;
    } names[] = {{ROLE_ATTN_PRE_NORM, "input_layernorm"},
                 {ROLE_Q, "self_attn.q_proj"},
                 {ROLE_K, "self_attn.k_proj"},
                 {ROLE_V, "self_attn.v_proj"},
                 {ROLE_O, "self_attn.o_proj"},
                 {ROLE_FFN_PRE_NORM, "post_attention_layernorm"},
                 {ROLE_GATE, "mlp.gate_proj"},
                 {ROLE_UP, "mlp.up_proj"},
                 {ROLE_DOWN, "mlp.down_proj"},
                 {ROLE_Q_NORM, "self_attn.q_norm"},
                 {ROLE_K_NORM, "self_attn.k_norm"}};
    char format[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(format, sizeof format, "%smodel.layers.%%d.%s.weight", prefix, names[i].name);
        file_add_layers(f, m, names[i].role, format);
    }
    snprintf(format, sizeof format, "%smodel.norm.weight", prefix);
    file_add_role(f, m, ROLE_FINAL_NORM, -1, format);
}

void file_add_llama(tensor_file *f, const model *m, const char *prefix) {
    char format[256];
    file_add_llama_body(f, m, prefix);
    snprintf(format, sizeof format, "%smodel.embed_tokens.weight", prefix);
    file_add_role(f, m, ROLE_EMBEDDING, -1, format);
    snprintf(format, sizeof format, "%slm_head.weight", prefix);
    if (!m->config.tied) file_add_role(f, m, ROLE_HEAD, -1, format);
}

char *llama_config(const model_config *c, const char *extra) {
    char *text;
    int n =
        asprintf(&text,
                 "{\"model_type\": \"llama\", \"hidden_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
                 "\"num_key_value_heads\": %d, \"head_dim\": %d, \"intermediate_size\": %d, \"vocab_size\": %d, "
                 "\"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\", "
                 "\"tie_word_embeddings\": %s%s%s}",
                 c->d_model, c->n_layers, c->n_heads, c->n_kv_heads, c->head_dim, c->d_ff, c->n_vocab, c->n_ctx,
                 c->tied ? "true" : "false", extra ? ", " : "", extra ? extra : "");
    assert_true(n > 0);
    return text;
}
