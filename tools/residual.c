#include "tools/residual.h"

#include <string.h>

#include "tools/quantity.h"

static void line(residual *r, const char *words, const char *formula, int64_t n) {
    if (n != 0 && r->n_lines < RESIDUAL_LINES) r->lines[r->n_lines++] = (residual_line){words, formula, n};
}

static int64_t class_sum(const ledger_entry *s, term_class k) {
    return (int64_t)term_class_sum(&s->counted, k);
}

static void flops_make(residual *r, const ledger_entry *s, const model_config *c) {
    param_counts p = config_params(c);
    int64_t M = (int64_t)s->n_rows, R = (int64_t)s->n_logit_rows, d = c->d_model, q = config_q_dim(c);
    int64_t pairs = (int64_t)s->counted.n[TERM_KEYS_ATTENDED]; /* over all layers: nl S */
    r->key = "flops";
    r->lesson = 2 * (int64_t)p.total * M + 4 * d * pairs;
    r->counted = (int64_t)term_flops_sum(&s->counted);
    snprintf(r->expression, sizeof r->expression, "2 N M + 4 d nl S, FLOPs: 2 x %s x %s + 4 x %s x %s",
             format_exact(p.total).text, format_exact(s->n_rows).text, format_exact((uint64_t)d).text,
             format_exact((uint64_t)pairs).text);
    line(r, "embedding: a lookup, no product", "2 M N_emb", -2 * M * (int64_t)p.embedding);
    line(r, "positions: a lookup", "2 M N_pos", -2 * M * (int64_t)p.positions);
    line(r, "biases: added, not multiplied", "2 M N_bias", -2 * M * (int64_t)p.biases);
    line(r, "norm gains: no product", "2 M N_norm", -2 * M * (int64_t)p.norms);
    line(r, "head, for rows without logits", "2 (M-R) d V", -2 * (M - R) * d * (int64_t)c->n_vocab);
    line(r, "heads together wider than d_model, or narrower", "4 nl (q-d) S", 4 * (q - d) * pairs);
    for (int i = 0; i < N_TERMS; i++) {
        if (term_table[i].class_ == CLASS_OTHER) line(r, term_table[i].words, "other", (int64_t)s->counted.n[i]);
    }
}

static int64_t elem_bytes(dtype t) {
    return t == DTYPE_F32 ? 4 : t == DTYPE_F16 ? 2 : 1;
}

static void weights_make(residual *r, const ledger_entry *s, const model_config *c, const weight_storage *w) {
    param_counts p = config_params(c);
    int64_t b = elem_bytes(w->layers[0][MATRIX_Q].type), steps = s->n_steps;
    const uint64_t *n = s->counted.n;
    int64_t matrices = (int64_t)(n[TERM_BYTES_Q] + n[TERM_BYTES_KV] + n[TERM_BYTES_O] + n[TERM_BYTES_FFN] + n[TERM_BYTES_HEAD]);
    r->key = "weight_bytes";
    r->lesson = (int64_t)p.total * b * steps;
    r->counted = class_sum(s, CLASS_WEIGHT_BYTES);
    snprintf(r->expression, sizeof r->expression, "N x bytes x steps: %s x %d x %d", format_exact(p.total).text, (int)b,
             s->n_steps);
    line(r, "embedding table: only rows are read", "N_emb b", -(int64_t)p.embedding * b * steps);
    line(r, "position table: only rows are read", "N_pos b", -(int64_t)p.positions * b * steps);
    line(r, "biases are fp32, the head's not read without logits", "N_bias (4-b)",
         (int64_t)n[TERM_BYTES_BIAS] - (int64_t)p.biases * b * steps);
    line(r, "norm gains are fp32, the final one not read without logits", "N_norm (4-b)",
         (int64_t)n[TERM_BYTES_NORM] - (int64_t)p.norms * b * steps);
    line(r, "scales, tensors in other types, passes without the head", "matrices", matrices - (int64_t)p.matrices * b * steps);
    line(r, "embedding rows", "M rows", (int64_t)n[TERM_BYTES_EMBEDDING]);
    line(r, "position rows", "M rows", (int64_t)n[TERM_BYTES_POSITION]);
}

static void cache_make(residual *r, const ledger_entry *s, const model_config *c, dtype kv_type) {
    int64_t plain = 2 * (int64_t)c->n_layers * config_kv_dim(c) * elem_bytes(kv_type);
    int64_t kappa = (int64_t)cost_kv_bytes_per_token(c, kv_type), C = (int64_t)s->n_cached, M = (int64_t)s->n_rows;
    int64_t cached = (int64_t)s->counted.n[TERM_BYTES_KV_CACHED], own = (int64_t)s->counted.n[TERM_BYTES_KV_OWN];
    r->key = "cache_bytes";
    r->lesson = C * plain;
    r->counted = cached + own;
    snprintf(r->expression, sizeof r->expression, "C x 2 nl kd b bytes of cache read: %s x %s", format_exact(s->n_cached).text,
             format_exact((uint64_t)plain).text);
    line(r, "scales of an int8 cache", "C (kappa - plain)", C * (kappa - plain));
    line(r, "the step's own tokens, read back", "M kappa", M * kappa);
    line(r, "own tokens: read again by later tiles, less those behind a window", "tiles, window", own - M * kappa);
    line(r, "cache: read again by later tiles, less what is shared or behind a window", "tiles, sharing, window",
         cached - C * kappa);
}

void residuals_make(residual out[N_RESIDUALS], const ledger_entry *s, const model_config *c, const weight_storage *w,
                    dtype kv_type) {
    memset(out, 0, N_RESIDUALS * sizeof *out);
    flops_make(&out[RESIDUAL_FLOPS], s, c);
    weights_make(&out[RESIDUAL_WEIGHTS], s, c, w);
    cache_make(&out[RESIDUAL_CACHE], s, c, kv_type);
    for (int i = 0; i < N_RESIDUALS; i++) {
        residual *r = &out[i];
        r->unexplained = r->counted - r->lesson;
        for (int k = 0; k < r->n_lines; k++) r->unexplained -= r->lines[k].n;
    }
}

static void print_line(FILE *out, const char *words, const char *formula, int64_t n) {
    fprintf(out, "    %c %16s  %s (%s)\n", n < 0 ? '-' : '+', format_exact((uint64_t)(n < 0 ? -n : n)).text, words, formula);
}

void residuals_print(const residual r[N_RESIDUALS], FILE *out) {
    for (int i = 0; i < N_RESIDUALS; i++) {
        fprintf(out, "  the lesson's %s = %s;", r[i].expression, format_exact((uint64_t)r[i].lesson).text);
        fprintf(out, " counted %s\n", format_exact((uint64_t)r[i].counted).text);
        for (int k = 0; k < r[i].n_lines; k++) print_line(out, r[i].lines[k].words, r[i].lines[k].formula, r[i].lines[k].n);
        if (r[i].unexplained != 0) print_line(out, "UNEXPLAINED", "a mistake of this program", r[i].unexplained);
    }
}

json_t *residuals_json(const residual r[N_RESIDUALS]) {
    json_t *all = json_object();
    for (int i = 0; i < N_RESIDUALS; i++) {
        json_t *lines = json_array();
        for (int k = 0; k < r[i].n_lines; k++) {
            json_array_append_new(lines, json_pack("{s:s, s:s, s:I}", "part", r[i].lines[k].words, "formula",
                                                   r[i].lines[k].formula, "value", (json_int_t)r[i].lines[k].n));
        }
        json_object_set_new(all, r[i].key,
                            json_pack("{s:s, s:I, s:I, s:o, s:I}", "formula", r[i].expression, "lesson",
                                      (json_int_t)r[i].lesson, "counted", (json_int_t)r[i].counted, "parts", lines,
                                      "unexplained", (json_int_t)r[i].unexplained));
    }
    return all;
}
