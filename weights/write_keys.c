#include "weights/write_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GGUF's numbers of value types. */
enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, TEXT = 8, ARRAY = 9, F64 = 12 };

void key_bytes(key_buffer *b, const void *bytes, size_t n) {
    if (b->failed || n == 0) return;
    if (n > b->capacity - b->n) {
        size_t capacity = 2 * b->capacity + n + 256;
        unsigned char *data = realloc(b->data, capacity);
        if (data == NULL) {
            b->failed = true;
            return;
        }
        b->data = data, b->capacity = capacity;
    }
    memcpy(b->data + b->n, bytes, n);
    b->n += n;
}

void key_zeros(key_buffer *b, size_t n) {
    static const unsigned char zero;
    while (n-- > 0) key_bytes(b, &zero, 1);
}

void key_u32(key_buffer *b, uint32_t v) {
    key_bytes(b, &v, sizeof v);
}

void key_u64(key_buffer *b, uint64_t v) {
    key_bytes(b, &v, sizeof v);
}

static void text_n(key_buffer *b, const char *text, size_t n) {
    key_u64(b, n);
    key_bytes(b, text, n);
}

void key_text(key_buffer *b, const char *text) {
    text_n(b, text, strlen(text));
}

/* The keys of one file in the making: {arch} is put in front of those that begin with a dot. */
typedef struct {
    key_buffer *b;
    const char *arch;
    uint64_t n;
} key_writer;

static void begin(key_writer *w, const char *key, uint32_t type) {
    char name[192];
    snprintf(name, sizeof name, "%s%s", key[0] == '.' ? w->arch : "", key);
    key_text(w->b, name);
    key_u32(w->b, type);
    w->n++;
}

static void put_u32(key_writer *w, const char *key, int value) {
    begin(w, key, U32);
    key_u32(w->b, (uint32_t)value);
}

static void put_f32(key_writer *w, const char *key, double value) {
    float x = (float)value;
    begin(w, key, F32);
    key_bytes(w->b, &x, sizeof x);
}

static void put_text(key_writer *w, const char *key, const char *value) {
    begin(w, key, TEXT);
    key_text(w->b, value);
}

static void put_bool(key_writer *w, const char *key, bool value) {
    unsigned char x = value;
    begin(w, key, BOOL);
    key_bytes(w->b, &x, 1);
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static void put_element(key_writer *w, const json_t *value, uint32_t type) {
    double x = json_number_value(value);
    float f = (float)x;
    if (type == TEXT)
        text_n(w->b, json_string_value(value), json_string_length(value));
    else if (type == F32)
        key_bytes(w->b, &f, sizeof f);
    else if (type == F64)
        key_bytes(w->b, &x, sizeof x);
    else
        key_u32(w->b, (uint32_t)json_integer_value(value));
}

/* A list of texts or of numbers, by its first member; reals are fp32 (what tokenizers' scores are) but in Tally's own keys. */
static void put_list(key_writer *w, const char *key, const json_t *list) {
    const json_t *first = json_array_get(list, 0);
    uint32_t type = json_is_string(first) ? TEXT : json_is_real(first) ? (strncmp(key, "tally.", 6) == 0 ? F64 : F32) : I32;
    begin(w, key, ARRAY);
    key_u32(w->b, type);
    key_u64(w->b, json_array_size(list));
    for (size_t i = 0; i < json_array_size(list); i++) put_element(w, json_array_get(list, i), type);
}

/* Any value, typed by what it is; ids are unsigned, as llama.cpp wants them. */
static void put_value(key_writer *w, const char *key, const json_t *value) {
    double x = json_number_value(value);
    if (json_is_array(value))
        put_list(w, key, value);
    else if (json_is_string(value))
        put_text(w, key, json_string_value(value));
    else if (json_is_boolean(value))
        put_bool(w, key, json_is_true(value));
    else if (json_is_integer(value)) {
        begin(w, key, ends_with(key, "_id") ? U32 : I32);
        key_u32(w->b, (uint32_t)json_integer_value(value));
    } else if (json_is_real(value)) {
        begin(w, key, F64);
        key_bytes(w->b, &x, sizeof x);
    }
}

static void put_object(key_writer *w, const char *prefix, const json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        char name[192];
        snprintf(name, sizeof name, "%s%s", prefix, key);
        put_value(w, name, value);
    }
}

const char *gguf_architecture(const json_t *layout) {
    const json_t *meta = json_object_get(json_object_get(layout, "recognise"), "meta");
    return json_string_value(json_array_get(json_object_get(meta, "general.architecture"), 0));
}

rope_style gguf_rope_style(const json_t *layout) {
    const char *word = json_string_value(json_object_get(json_object_get(layout, "config"), "rope"));
    return word != NULL && strcmp(word, "pairs") == 0 ? ROPE_PAIRS : ROPE_HALVES;
}

bool gguf_may_write(const json_t *layout, const model *m) {
    json_t *wanted = json_object_get(layout, "writes"), *have = config_to_object(&m->config), *value;
    const char *field;
    bool ok = have != NULL;
    json_object_foreach(wanted, field, value) {
        const json_t *x = json_object_get(have, field);
        ok = ok && (x != NULL ? json_equal(x, value) : json_is_false(value)); /* what is not there has its plain value */
    }
    json_decref(have);
    return ok;
}

static void put_dims(key_writer *w, const model_config *c, int n_ctx) {
    put_u32(w, ".block_count", c->n_layers);
    put_u32(w, ".context_length", n_ctx);
    put_u32(w, ".embedding_length", c->d_model);
    put_u32(w, ".feed_forward_length", c->d_ff);
    put_u32(w, ".attention.head_count", c->n_heads);
    put_u32(w, ".attention.head_count_kv", c->n_kv_heads);
    put_u32(w, ".attention.key_length", c->head_dim);
    put_u32(w, ".attention.value_length", c->head_dim);
    put_u32(w, ".vocab_size", c->n_vocab);
    put_f32(w, c->norm == NORM_RMS ? ".attention.layer_norm_rms_epsilon" : ".attention.layer_norm_epsilon",
            (double)c->norm_eps);
}

static void put_rope(key_writer *w, const model_config *c) {
    if (c->position != POSITION_ROPE) return;
    put_u32(w, ".rope.dimension_count", c->rope_dim);
    put_f32(w, ".rope.freq_base", c->rope_base);
    if (c->rope_local_base != 0) put_f32(w, ".rope.freq_base_swa", c->rope_local_base);
    if (c->rope_scaling != ROPE_SCALING_LINEAR && c->rope_scaling != ROPE_SCALING_YARN) return;
    put_text(w, ".rope.scaling.type", c->rope_scaling == ROPE_SCALING_LINEAR ? "linear" : "yarn");
    put_f32(w, ".rope.scaling.factor", c->rope_factor);
    if (c->rope_scaling == ROPE_SCALING_LINEAR) return;
    put_u32(w, ".rope.scaling.original_context_length", c->rope_original_ctx);
    put_f32(w, ".rope.scaling.yarn_beta_fast", c->rope_beta_fast);
    put_f32(w, ".rope.scaling.yarn_beta_slow", c->rope_beta_slow);
    if (c->rope_attn_factor != 0) put_f32(w, ".rope.scaling.attn_factor", c->rope_attn_factor);
}

/* What only some families have: written where the model has it, and read back by the check that follows. */
static void put_rest(key_writer *w, const model_config *c) {
    if (c->window != 0) put_u32(w, ".attention.sliding_window", c->window);
    if (c->attn_softcap != 0) put_f32(w, ".attn_logit_softcapping", (double)c->attn_softcap);
    if (c->final_softcap != 0) put_f32(w, ".final_logit_softcapping", (double)c->final_softcap);
    if (strcmp(w->arch, "granite") == 0) {
        put_f32(w, ".attention.scale", (double)c->attn_scale);
        put_f32(w, ".embedding_scale", (double)c->embedding_scale);
        put_f32(w, ".residual_scale", (double)c->residual_scale);
        put_f32(w, ".logit_scale", 1 / (double)c->logit_scale);
    }
    if (strcmp(w->arch, "gptneox") == 0 || strcmp(w->arch, "stablelm") == 0)
        put_bool(w, ".use_parallel_residual", c->parallel_residual);
    if (c->position == POSITION_ALIBI) put_f32(w, ".attention.max_alibi_bias", 8);
}

/* Tally's own form: every field by its name, and what the layout knew about the tokens. */
static void put_own(key_writer *w, const model *m, const model_config *c) {
    json_t *fields = config_to_object(c), *ends = json_array();
    json_object_del(fields, "family");
    put_object(w, "tally.", fields);
    bool ok = fields != NULL && ends != NULL;
    for (int i = 0; i < m->n_eos; i++) ok = json_array_append_new(ends, json_integer(m->eos_ids[i])) == 0 && ok;
    if (!ok) w->b->failed = true;
    if (m->n_eos > 0) put_list(w, "tally.eos", ends);
    if (m->bos_id >= 0) put_u32(w, "tally.bos", m->bos_id);
    if (m->pad_id >= 0) put_u32(w, "tally.pad", m->pad_id);
    if (m->sample_prompt != NULL) put_text(w, "tally.sample_prompt", m->sample_prompt);
    json_decref(fields);
    json_decref(ends);
}

uint64_t gguf_put_keys(key_buffer *b, const save_plan *p, const char *name, const json_t *tokenizer) {
    const model_config *c = &p->config;
    key_writer w = {.b = b, .arch = gguf_architecture(p->layout)};
    bool has_window = json_object_get(json_object_get(p->layout, "config"), "window") != NULL;
    put_text(&w, "general.architecture", w.arch);
    put_text(&w, "general.name", name != NULL ? name : c->family);
    put_u32(&w, "general.file_type",
            p->n_tensors > 0 && p->tensors[0].type == DTYPE_Q8_0 ? 7 : p->tensors[0].type == DTYPE_F16);
    if (strcmp(w.arch, "tally") == 0)
        put_own(&w, p->m, c);
    else {
        /* A family without windows computes the same as long as the context is no wider than one. */
        put_dims(&w, c, c->window != 0 && !has_window && c->window < c->n_ctx ? c->window : c->n_ctx);
        put_rope(&w, c);
        put_rest(&w, c);
    }
    if (p->m->vocabulary != NULL && (tokenizer == NULL || json_object_get(tokenizer, "tally.vocabulary") == NULL))
        put_list(&w, "tally.vocabulary", p->m->vocabulary);
    if (json_object_get(tokenizer, "tokenizer.ggml.model") == NULL) put_text(&w, "tokenizer.ggml.model", "no_vocab");
    if (tokenizer != NULL) put_object(&w, "", tokenizer);
    return w.n;
}
