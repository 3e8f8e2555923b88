#include "tools/families.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/options.h"
#include "weights/layout.h"

/* A cell in the making: words separated by "; ". */
typedef struct {
    char text[768];
    size_t n;
} cell;

static void add(cell *c, const char *format, const char *value) {
    if (c->n + strlen(format) + strlen(value) + 3 >= sizeof c->text) return;
    if (c->n > 0) c->n += (size_t)snprintf(c->text + c->n, sizeof c->text - c->n, "; ");
    const char *at = strstr(format, "{}");
    int before = at != NULL ? (int)(at - format) : (int)strlen(format);
    c->n += (size_t)snprintf(c->text + c->n, sizeof c->text - c->n, "%.*s%s%s", before, format, at != NULL ? value : "",
                             at != NULL ? at + 2 : "");
}

static const json_t *config_of(const json_t *layout, const char *field) {
    return json_object_get(json_object_get(layout, "config"), field);
}

static bool has(const json_t *layout, const char *role) {
    return layout_spec(layout, role) != NULL;
}

static bool constant_is(const json_t *layout, const char *field, const char *word) {
    const char *value = json_string_value(config_of(layout, field));
    return value != NULL && strcmp(value, word) == 0;
}

/* A constant's text; "file" for an expression; NULL where the layout says nothing. */
static const char *said(const json_t *layout, const char *field) {
    const json_t *value = config_of(layout, field);
    if (value == NULL) return NULL;
    return json_is_string(value) ? json_string_value(value) : "as the file says";
}

static void describe_norms(cell *out, const json_t *layout) {
    add(out, constant_is(layout, "norm", "rms") ? "RMSNorm" : "LayerNorm", "");
    bool moves = config_of(layout, "attn_residual_norm") != NULL;
    if (has(layout, "attn_pre_norm") && has(layout, "ffn_pre_norm") && !moves) add(out, "before each half", "");
    if (has(layout, "attn_pre_norm") && !has(layout, "ffn_pre_norm")) add(out, "one, before both halves", "");
    if (moves) add(out, "before each half, or after the addition", "");
    if (has(layout, "attn_post_norm")) add(out, "on each branch's output", "");
    if (has(layout, "embedding_norm")) add(out, "of the embeddings", "");
    if (has(layout, "q_norm"))
        add(out, constant_is(layout, "qk_norm", "width") ? "of q and k, whole" : "of q and k, by head", "");
}

static void describe_attention(cell *out, const json_t *layout) {
    const json_t *kv = config_of(layout, "n_kv_heads");
    if (json_is_integer(kv)) add(out, "1 K/V head", "");
    if (config_of(layout, "window_layers") != NULL) {
        const char *word = json_string_value(config_of(layout, "window_layers"));
        add(out, word != NULL ? "window in {} layers" : "window in some layers", word != NULL ? word : "");
    }
    if (config_of(layout, "attn_softcap") != NULL) add(out, "soft caps", "");
    if (json_is_integer(config_of(layout, "attn_scale"))) add(out, "scores not scaled", "");
    if (json_object_get(config_of(layout, "attn_scale"), "default") != NULL && has(layout, "q") &&
        constant_is(layout, "position", "learned"))
        add(out, "scale asked for", "");
    if (has(layout, "qkv")) add(out, "fused q, k, v", "");
    const json_t *parallel = config_of(layout, "parallel_residual");
    if (json_is_true(parallel))
        add(out, "parallel with the feed-forward", "");
    else if (parallel != NULL)
        add(out, "parallel or not", "");
}

static void describe_positions(cell *out, const json_t *layout) {
    const char *kind = said(layout, "position"), *rope = said(layout, "rope");
    if (kind != NULL && strcmp(kind, "rope") == 0) {
        add(out, "rotary, {}", rope != NULL ? rope : "?");
        if (config_of(layout, "rope_dim") != NULL) add(out, "of as much of a head as the file says", "");
        if (config_of(layout, "rope_local_base") != NULL) add(out, "two bases", "");
    } else
        add(out, "{}", kind != NULL ? kind : "?");
}

static void describe_ffn(cell *out, const json_t *layout) {
    bool gated = has(layout, "gate") || has(layout, "gate_up");
    add(out, gated ? "gated (3 matrices)" : "plain (2 matrices)", "");
    const char *activation = said(layout, "activation");
    if (activation != NULL) add(out, "{}", activation);
    if (config_of(layout, "residual_scale") != NULL) add(out, "multipliers", "");
}

static void describe_recognition(cell *out, const json_t *layout) {
    const json_t *how = json_object_get(layout, "recognise"), *meta = json_object_get(how, "meta"), *values;
    const char *path;
    json_object_foreach((json_t *)meta, path, values) {
        const char *value = json_string_value(json_array_get(values, 0));
        add(out, strcmp(path, "model_type") == 0 ? "`model_type` {}" : "GGUF `{}`", value != NULL ? value : "?");
    }
    if (json_is_true(json_object_get(how, "names"))) add(out, "its names", "");
}

static void print_row(const json_t *layout) {
    const char *title = json_string_value(json_object_get(layout, "title"));
    const char *golden = json_string_value(json_object_get(layout, "golden"));
    cell cells[5] = {0};
    describe_recognition(&cells[0], layout);
    describe_norms(&cells[1], layout);
    describe_attention(&cells[2], layout);
    describe_positions(&cells[3], layout);
    describe_ffn(&cells[4], layout);
    printf("| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", layout_name(layout), title, cells[0].text, cells[1].text,
           cells[2].text, cells[3].text, cells[4].text, golden != NULL ? golden : "none");
}

static const char *const before =
    "# Families\n\n"
    "Printed by `tally inspect --families` from the layouts in `weights/layouts/`; a test compares (`make families` writes it "
    "anew). One forward pass "
    "serves all of them: what differs is data.\n\n"
    "`--layout NAME` takes any of these for a file that does not say what it is. *Golden* says what its logits were compared "
    "with: the original library's "
    "(files in `../shared`), llama.cpp's greedy tokens on random weights (`tools/check_llama_cpp.sh`), or the double-precision "
    "forward pass written from "
    "the papers (`tests/reference.c`), on checkpoints that the tests make in the family's names.\n\n"
    "| layout | what it is | recognised by | norms | attention | positions | feed-forward | golden |\n"
    "|---|---|---|---|---|---|---|---|\n";

static const char *const after =
    "\n## What that does to bytes and FLOPs\n\n"
    "Symbols as in [cost-model.md](cost-model.md): d model width, f feed-forward width, q = heads x head_dim, V vocabulary, M "
    "rows of a step, nl layers.\n\n"
    "| what | bytes | FLOPs |\n|---|---|---|\n"
    "| LayerNorm in place of RMSNorm | with biases, 4d more a norm and pass | 6d+5 (+d with bias) a row in place of 4d+4 |\n"
    "| one norm for both halves | 4d (8d with bias) a layer less | one norm a layer and row less |\n"
    "| norms on branches' outputs too | 8d a layer more | two norms a layer and row more |\n"
    "| norms of q and k | 8 head_dim a layer (by head), or 4(q + kd) | (heads + K/V heads)(4 head_dim + 4) a layer and row |\n"
    "| fewer K/V heads | cache 2 nl K/V-heads head_dim bytes-a-number a token; k and v matrices shrink alike | k and v "
    "products shrink; attention does not |\n"
    "| window w | the cache keeps every token, but reads at most w of them in such a layer | scores and values of min(p+1, w) "
    "keys at position p |\n"
    "| soft cap | none | 3 a score; 3V a row of logits |\n"
    "| gated feed-forward | 3 d f weights a layer in place of 2 d f | 6 d f a layer and row in place of 4 d f, and f products "
    "|\n"
    "| learned positions | one row of the table a row; n_ctx d parameters | d additions a row |\n"
    "| rotary positions | none counted | 3 for each rotated element of q and k |\n"
    "| ALiBi | none | 2 a score |\n"
    "| tied head | V d parameters less; the same bytes a step | the same |\n"
    "| multipliers | none | one for each number multiplied |\n"
    "| parallel halves | the same | the same; both read one input |\n";

int families_print(void) {
    error e = {0};
    json_t *layouts = layouts_builtin(&e);
    if (layouts == NULL) return tool_fail(&e);
    fputs(before, stdout);
    for (size_t i = 0; i < json_array_size(layouts); i++) {
        const json_t *layout = json_array_get(layouts, i);
        if (json_object_get(layout, "recognise") != NULL) print_row(layout);
    }
    fputs(after, stdout);
    json_decref(layouts);
    return fflush(stdout) == 0 ? 0 : 1;
}
