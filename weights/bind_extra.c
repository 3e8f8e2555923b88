/* bind_extra.c - tensors that no slot has used: buffers and what training keeps are left alone, all others are refused. */
#include <string.h>

#include "weights/bind.h"
#include "weights/layout.h"
#include "weights/pattern.h"

/* Buffers that training code saves beside its weights: masks, tables of angles, counters. */
static const char *const buffers[] = {
    "*.inv_freq",   "*.freqs_cis",   "*.freqs_cos",   "*.freqs_sin",  "freqs_cis",     "freqs_cos", "freqs_sin", "*.cos_cached",
    "*.sin_cached", "*.mask",        "*.causal_mask", "*.attn_mask",  "*.masked_bias", "*.tril",    "*.triu",    "mask",
    "tril",         "*position_ids", "*.bias_mask",   "*.rope_cache", "*.cos",         "*.sin",     "*.causal",
};

/* What training saves beside the model, under its own key in a .pt. */
static const char *const siblings[] = {"optimizer*", "optim*", "opt.*", "opt_state*", "*scheduler*",
                                       "*scaler*",   "ema*",   "rng*",  "*rng_*",     "*optimizer*"};

static bool among(const char *name, const char *const *patterns, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (pattern_fits(patterns[i], name)) return true;
    return false;
}

static bool is_ignored(const resolver *r, const tensor *t) {
    const char *name = t->name;
    size_t n = strlen(r->prefix);
    const json_t *ignore = json_object_get(r->layout, "ignore");
    /* Beside the model's own tree: what training keeps, and single numbers such as the best loss. */
    if (strncmp(name, r->prefix, n) != 0) return t->n_dims == 0 || among(name, siblings, sizeof siblings / sizeof *siblings);
    return among(name + n, buffers, sizeof buffers / sizeof *buffers) || pattern_matches(ignore, name + n) ||
           (n == 0 && among(name, siblings, sizeof siblings / sizeof *siblings));
}

status bind_check_extra(const resolver *r, error *e) {
    for (size_t i = 0; i < r->c->n_tensors; i++) {
        const tensor *t = &r->c->tensors[i];
        if (r->used[i] || is_ignored(r, t)) continue;
        char shape[128];
        tensor_shape_text(shape, sizeof shape, t);
        return error_set(
            e, ERR_MISMATCH,
            "%s: tensor '%s' %s has no place in layout '%s' (a --layout file can list it under \"ignore\" if it is no "
            "weight)",
            r->c->path, t->name, shape, layout_name(r->layout));
    }
    return OK;
}
