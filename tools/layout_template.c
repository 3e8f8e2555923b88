#include "tools/layout_template.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/options.h"
#include "tools/show.h"

/* A tensor's name with its first two numbers as {layer} and {head}, and what the first such tensor looks like. */
typedef struct {
    char pattern[256];
    const tensor *t; /* of layer 0 */
    bool in_layers;
} named;

typedef struct {
    named *items;
    size_t n;
    int64_t d_model; /* columns of the embedding table; 0: not found yet */
    json_t *tensors, *unknown;
} draft;

static bool is_number(const char *part, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)part[i])) return false;
    return n > 0;
}

/* blocks.0.heads.3.key.weight -> blocks.{layer}.heads.{head}.key.weight; *first: the numbers are all 0. Only what has the word heads
 * (or head) before it is a head: nn.Sequential numbers its members too. */
static bool make_pattern(char *out, size_t size, const char *name, bool *first, bool *in_layers) {
    size_t n = 0;
    *first = true, *in_layers = false;
    bool after_head = false;
    for (const char *p = name;; p++) {
        size_t length = strcspn(p, ".");
        const char *word = NULL;
        if (is_number(p, length) && !*in_layers)
            word = "{layer}", *in_layers = true;
        else if (is_number(p, length) && after_head)
            word = "{head}";
        if (word != NULL && !(length == 1 && *p == '0')) *first = false;
        int wrote = snprintf(out + n, size - n, "%.*s%s", word ? (int)strlen(word) : (int)length, word ? word : p,
                             p[length] ? "." : "");
        if (wrote < 0 || (size_t)wrote >= size - n) return false;
        n += (size_t)wrote;
        after_head = length >= 4 && memcmp(p, "head", 4) == 0;
        p += length;
        if (*p == '\0') return true;
    }
}

static status collect(draft *d, const checkpoint *c, error *e) {
    d->items = calloc(c->n_tensors + 1, sizeof *d->items);
    if (d->items == NULL) return error_set(e, ERR_MEMORY, "%s: no memory", c->path);
    for (size_t i = 0; i < c->n_tensors; i++) {
        named *item = &d->items[d->n];
        bool first;
        item->t = &c->tensors[i];
        if (make_pattern(item->pattern, sizeof item->pattern, item->t->name, &first, &item->in_layers) && first) d->n++;
    }
    return OK;
}

static bool has_word(const named *x, const char *const *words) {
    char lower[256];
    size_t n = strlen(x->pattern);
    for (size_t i = 0; i <= n; i++) lower[i] = (char)tolower((unsigned char)x->pattern[i]);
    for (; *words != NULL; words++)
        if (strstr(lower, *words) != NULL) return true;
    return false;
}

#define WORDS(...)                                                                                                             \
    (const char *const[]) {                                                                                                    \
        __VA_ARGS__, NULL                                                                                                      \
    }

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_free(const draft *d, const char *role) {
    return json_object_get(d->tensors, role) == NULL;
}

/* The role of a tensor outside the layers; NULL: no idea. */
static const char *global_role(const draft *d, const named *x) {
    if (x->t->n_dims == 1) return has_word(x, WORDS("norm", "ln")) ? "final_norm" : NULL;
    if (x->t->n_dims != 2) return NULL;
    if (has_word(x, WORDS("pos", "wpe"))) return "positions";
    if (has_word(x, WORDS("tok", "wte", "emb", "vocab")) && is_free(d, "embedding")) return "embedding";
    if (has_word(x, WORDS("head", "output", "unembed", "decoder", "proj", "logits", "fc"))) return "head";
    return is_free(d, "embedding") ? "embedding" : NULL;
}

static const char *attention_role(const draft *d, const named *x, int64_t rows, int64_t cols) {
    int64_t most = rows > cols ? rows : cols;
    if (has_word(x, WORDS("qkv", "c_attn", "query_key_value", "in_proj", "wqkv")) || (d->d_model && most == 3 * d->d_model))
        return "qkv";
    if (has_word(x, WORDS("q_proj", "query", "wq", ".q.", "to_q", "w_q"))) return "q";
    if (has_word(x, WORDS("k_proj", "key", "wk", ".k.", "to_k", "w_k"))) return "k";
    if (has_word(x, WORDS("v_proj", "value", "wv", ".v.", "to_v", "w_v"))) return "v";
    return "o";
}

static const char *layer_role(const draft *d, const named *x) {
    static const char *const attention[] = {"attn", "attention", "heads", "sa.", "mha", NULL};
    static const char *const forward[] = {"mlp",     "ffn",     "ff", "feed", "fc", "c_fc",
                                          "linear1", "linear2", "w1", "w2",   "w3", NULL};
    bool is_norm = x->t->n_dims == 1 && has_word(x, WORDS("norm", "ln", "gamma", "gain"));
    if (is_norm) return is_free(d, "attn_pre_norm") ? "attn_pre_norm" : "ffn_pre_norm";
    if (x->t->n_dims != 2) return NULL;
    int64_t rows = x->t->shape[0], cols = x->t->shape[1];
    if (has_word(x, attention) || !has_word(x, forward)) return attention_role(d, x, rows, cols);
    if (has_word(x, WORDS("gate", "w1.")) && !has_word(x, WORDS("linear1"))) return "gate";
    if (d->d_model != 0 && rows == d->d_model && cols != d->d_model) return "down";
    return is_free(d, "up") ? "up" : "down";
}

static void place(draft *d, const named *x) {
    const char *role = x->in_layers ? layer_role(d, x) : global_role(d, x);
    if (role == NULL || !is_free(d, role)) {
        json_array_append_new(d->unknown, json_string(x->pattern));
        return;
    }
    json_object_set_new(d->tensors, role, json_string(x->pattern));
    if (strcmp(role, "embedding") == 0) d->d_model = x->t->shape[1];
}

/* Is it the bias of a tensor that has a place? */
static bool is_bias(const named *x) {
    return ends_with(x->pattern, "bias") || ends_with(x->pattern, "beta");
}

static json_t *questions(const draft *d) {
    bool learned = !is_free(d, "positions");
    json_t *config =
        json_pack("{s:{s:s}, s:{s:s}, s:f, s:{s:s}, s:{s:s, s:f}}", "n_heads", "ask", "n_heads: how many query heads?", "norm",
                  "ask", "norm: rms or layer?", "norm_eps", 1e-5, "activation", "ask",
                  "activation: relu, silu, gelu_erf or gelu_tanh?", "attn_scale", "of", "head_dim", "power", -0.5);
    if (learned)
        json_object_set_new(config, "position", json_string("learned"));
    else
        json_object_set_new(config, "position",
                            json_pack("{s:s}", "ask", "position: rope (and rope: halves or pairs), alibi or none? And n_ctx"));
    return config;
}

static int print_draft(draft *d) {
    json_t *layout = json_pack("{s:s, s:O, s:o?}", "name", "mine", "tensors", d->tensors, "config", questions(d));
    if (json_array_size(d->unknown) > 0) json_object_set(layout, "ignore", d->unknown);
    int rc = show_json(layout);
    json_decref(layout);
    return rc;
}

int layout_template(checkpoint *c, const model_options *o) {
    error e = {0};
    model_description known;
    if (model_describe(&known, c, o, &e) == OK) {
        json_object_del(known.recognised,
                        "like"); /* it is whole: what it is like has been laid under it, and some of that taken away */
        int rc = show_json(known.recognised);
        model_description_free(&known);
        return rc;
    }
    draft d = {.tensors = json_object(), .unknown = json_array()};
    status s = collect(&d, c, &e);
    /* The embedding table first: its width tells the other shapes apart. */
    for (size_t i = 0; s == OK && i < d.n; i++)
        if (!d.items[i].in_layers && !is_bias(&d.items[i])) place(&d, &d.items[i]);
    for (size_t i = 0; s == OK && i < d.n; i++)
        if (d.items[i].in_layers && !is_bias(&d.items[i])) place(&d, &d.items[i]);
    int rc = s == OK ? print_draft(&d) : tool_fail(&e);
    json_decref(d.tensors);
    json_decref(d.unknown);
    free(d.items);
    return rc;
}
