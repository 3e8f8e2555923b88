/* batch_report.c - the lines that `tally batch` writes, and its summary. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cost.h"
#include "tools/batch.h"
#include "tools/quantity.h"
#include "tools/show.h"

void audit_observe(void *user, const step_report *r) {
    step_audit *a = user;
    term_counts predicted;
    cost_predict(&predicted, a->config, r->plan);
    term_counts_add(&a->predicted, &predicted);
    for (int t = 0; t < N_TERMS; t++) {
        if (predicted.n[t] == r->counted.n[t]) continue;
        if (a->n_mismatches++ > 0) continue;
        snprintf(a->first_mismatch, sizeof a->first_mismatch, "step %lld, %s: %" PRIu64 " predicted, %" PRIu64 " counted",
                 a->n_steps, term_table[t].words, predicted.n[t], r->counted.n[t]);
    }
    a->n_steps++;
}

/* Sums by class; "flops_" and "bytes_" as everywhere in --json. */
static json_t *classes_json(const term_counts *t) {
    static const char *const keys[] = {"flops_matmul",  "flops_attention", "flops_other",
                                       "bytes_weights", "bytes_kv",        "bytes_logits"};
    json_t *o = json_object();
    for (int k = CLASS_MATMUL; k <= CLASS_LOGIT_BYTES; k++) {
        json_object_set_new(o, keys[k], json_integer((json_int_t)term_class_sum(t, (term_class)k)));
    }
    return o;
}

static json_t *cost_json(const completion *c, const session *s) {
    const bill *b = &c->bill;
    size_t page = kv_cache_page_bytes(engine_cache(s->engine));
    return json_pack("{s:o, s:o, s:{s:i, s:i, s:I}, s:{s:i, s:I, s:I}, s:i, s:i, s:i, s:i}", "prefill",
                     classes_json(&b->prefill), "decode", classes_json(&b->decode), "pages", "most", b->n_pages, "shared",
                     b->n_pages_shared, "bytes", (json_int_t)((size_t)b->n_pages * page), "reused", "tokens", b->n_reused,
                     "flops", (json_int_t)b->flops_reused, "bytes_kv", (json_int_t)b->kv_bytes_reused, "n_steps", b->n_steps,
                     "n_computed", b->n_computed, "n_recomputed", b->n_recomputed, "n_preempted", b->n_preempted);
}

static json_t *ids_json(const int *ids, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

/* What was generated, as text; the numbers themselves where the model has no tokenizer. Bytes that are no UTF-8 are U+FFFD. */
static json_t *text_json(const session *s, const completion *c) {
    const int *ids = c->ids + c->n_prompt;
    size_t n = (size_t)(c->n_ids - c->n_prompt), n_bytes = 0;
    char *text = NULL;
    if (s->tokenizer != NULL) {
        if (tokenizer_decode(s->tokenizer, ids, n, DETOKENIZE_CONTINUED, &text, &n_bytes, NULL) != OK) return json_null();
    } else {
        text = malloc(n * 12 + 1);
        for (size_t i = 0; text != NULL && i < n; i++) n_bytes += (size_t)sprintf(text + n_bytes, i > 0 ? " %d" : "%d", ids[i]);
    }
    json_t *o = text == NULL ? NULL : json_stringn(text, n_bytes);
    if (o == NULL && text != NULL) o = show_text(text, n_bytes);
    free(text);
    return o != NULL ? o : json_null();
}

static const prompt *prompt_at(const prompt_list *p, size_t number) {
    return &p->items[number];
}

static json_t *prompt_json(const prompt *q) {
    if (q->ids != NULL) return json_deep_copy(q->ids);
    json_t *o = json_stringn(q->text, q->n_bytes);
    return o != NULL ? o : show_text(q->text, q->n_bytes);
}

/* What every line begins with. */
static json_t *line_begin(const prompt_list *p, size_t number, int sample) {
    const prompt *q = prompt_at(p, number);
    json_t *o = json_pack("{s:I, s:i, s:i}", "index", (json_int_t)number, "sample", sample, "line", q->line);
    if (o != NULL && q->id != NULL) json_object_set_new(o, "id", json_deep_copy(q->id));
    if (o != NULL) json_object_set_new(o, q->ids != NULL ? "prompt_ids" : "prompt", prompt_json(q));
    return o;
}

static char *line_end(json_t *o) {
    char *line = o == NULL ? NULL : json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    json_decref(o);
    return line;
}

char *batch_line(const session *s, const prompt_list *p, size_t number, const completion *c) {
    json_t *o = line_begin(p, number, c->sample);
    if (o == NULL) return NULL;
    const bill *b = &c->bill;
    int n = c->n_ids - c->n_prompt;
    json_object_set_new(o, "text", text_json(s, c));
    json_object_set_new(o, "ids", ids_json(c->ids + c->n_prompt, n));
    json_object_set_new(o, "finish_reason", json_string(finish_words[c->finish]));
    if (c->finish == FINISH_FAILED) json_object_set_new(o, "error", json_string(c->error.message));
    json_object_set_new(o, "n_prompt", json_integer(c->n_prompt));
    json_object_set_new(o, "n_generated", json_integer(n));
    json_object_set_new(o, "cost", cost_json(c, s));
    double running = b->finished - b->admitted;
    json_t *first = b->first_token > 0 ? json_real(b->first_token - b->submitted) : json_null();
    json_object_set_new(o, "seconds",
                        json_pack("{s:f, s:o, s:f}", "queued", b->admitted - b->submitted, "first_token", first, "total",
                                  b->finished - b->submitted));
    json_object_set_new(o, "tokens_per_second", json_real(running > 0 ? n / running : 0));
    return line_end(o);
}

char *batch_line_refused(const prompt_list *p, size_t number, int sample, const char *why) {
    json_t *o = line_begin(p, number, sample);
    if (o == NULL) return NULL;
    json_object_set_new(o, "text", json_null());
    json_object_set_new(o, "ids", json_array());
    json_object_set_new(o, "finish_reason", json_string(finish_words[FINISH_FAILED]));
    json_object_set_new(o, "error", json_string(why));
    return line_end(o);
}

static status not_of_these(error *e) {
    return error_set(e, ERR_MISMATCH, "a line of it is not of these prompts (--resume needs the same -f and the same options)");
}

status batch_line_number(void *user, const char *text, size_t n_bytes, size_t *number, error *e) {
    const prompt_list *p = user;
    json_t *o = json_loadb(text, n_bytes, JSON_ALLOW_NUL, NULL);
    json_int_t index = -1, sample = -1;
    status st = o != NULL && json_unpack(o, "{s:I, s:I}", "index", &index, "sample", &sample) == 0 ? OK : not_of_these(e);
    if (st == OK && (index < 0 || (size_t)index >= p->n || sample < 0 || sample >= p->items[index].n_samples))
        st = not_of_these(e);
    if (st == OK) {
        const prompt *q = prompt_at(p, (size_t)index);
        json_t *mine = prompt_json(q);
        if (!json_equal(mine, json_object_get(o, q->ids != NULL ? "prompt_ids" : "prompt"))) st = not_of_these(e);
        json_decref(mine);
        *number = q->slot + (size_t)sample;
    }
    json_decref(o);
    return st;
}

static double per(double a, double b) {
    return b > 0 ? a / b : 0;
}

static uint64_t bytes_of(const term_counts *t) {
    return term_class_sum(t, CLASS_WEIGHT_BYTES) + term_class_sum(t, CLASS_KV_BYTES) + term_class_sum(t, CLASS_LOGIT_BYTES);
}

static uint64_t flops_of(const term_counts *t) {
    return term_class_sum(t, CLASS_MATMUL) + term_class_sum(t, CLASS_ATTENTION) + term_class_sum(t, CLASS_OTHER);
}

static void print_ends(const batch_summary *s, FILE *out) {
    fprintf(out, "%s prompts, %s of %s completions", format_exact(s->n_prompts).text, format_exact(s->n_made).text,
            format_exact(s->n_lines).text);
    if (s->n_resumed > 0) fprintf(out, " (%s were there)", format_exact(s->n_resumed).text);
    for (int f = 0; f < N_FINISH; f++) {
        if (s->n_finished[f] > 0)
            fprintf(out, "; %s ended by %s", format_exact((uint64_t)s->n_finished[f]).text, finish_words[f]);
    }
    if (s->n_refused > 0) fprintf(out, "; %s prompts refused", format_exact(s->n_refused).text);
    fprintf(out, "\n");
}

static void print_work(const batch_summary *s, FILE *out) {
    const scheduler_stats *k = s->stats;
    fprintf(out, "%s tokens generated in %s: %.0f tokens/s; %s rows computed, %.0f rows/s\n",
            format_exact((uint64_t)k->n_generated).text, format_rounded(k->seconds, UNIT_SECONDS, UNITS_DECIMAL).text,
            per((double)k->n_generated, k->seconds), format_exact((uint64_t)k->n_rows).text,
            per((double)k->n_rows, k->seconds));
    uint64_t n = k->n_steps > 0 ? (uint64_t)k->n_steps : 1;
    fprintf(out,
            "%s steps of %.1f rows; each, on average: %s bytes predicted, %s counted; %s FLOPs predicted, %s counted: %s\n",
            format_exact((uint64_t)k->n_steps).text, per((double)k->n_rows, (double)n),
            format_exact(bytes_of(&s->audit->predicted) / n).text, format_exact(bytes_of(&k->counted) / n).text,
            format_exact(flops_of(&s->audit->predicted) / n).text, format_exact(flops_of(&k->counted) / n).text,
            s->audit->n_mismatches == 0 ? "every term of every step agrees" : "DIFFERENT");
    if (s->audit->n_mismatches > 0) fprintf(out, "first difference: %s\n", s->audit->first_mismatch);
}

static void print_memory(const batch_summary *s, FILE *out) {
    const kv_usage *u = &s->stats->peak;
    const kv_cache *c = engine_cache(s->session->engine);
    const scheduler_stats *k = s->stats;
    fprintf(out,
            "pages of %d tokens: at most %s of %s held: %s bytes used, %s allocated, %s wasted; sharing saved %s bytes then\n",
            c->layout.page_size, format_exact((uint64_t)u->n_held).text, format_exact((uint64_t)c->n_pages).text,
            format_exact(u->used_bytes).text, format_exact(u->allocated_bytes).text, format_exact(u->wasted_bytes).text,
            format_exact(u->shared_bytes).text);
    const batch_memory *m = &s->memory;
    fprintf(out, "memory: %s bytes of weights, %s of pages, %s of tables, %s of activations: %s at most\n",
            format_exact(m->weights).text, format_exact(m->pool).text, format_exact(m->tables).text,
            format_exact(m->activations).text, format_exact(m->total).text);
    if (k->n_reused > 0) {
        fprintf(
            out,
            "%s tokens of prompts were not computed, as their pages were there: %s FLOPs and %s bytes of K and V not spent\n",
            format_exact((uint64_t)k->n_reused).text, format_exact(k->flops_reused).text,
            format_exact(k->kv_bytes_reused).text);
    }
    if (k->bytes_spared > 0) {
        fprintf(out, "%s bytes of K and V were read once for several sequences and not again\n",
                format_exact(k->bytes_spared).text);
    }
    if (k->n_preemptions > 0) {
        fprintf(out, "pages ran out %s times: %s tokens were computed again (raise --kv-pages or --kv-mem)\n",
                format_exact((uint64_t)k->n_preemptions).text, format_exact((uint64_t)k->n_recomputed).text);
    }
}

batch_memory batch_memory_use(const session *s, const scheduler *k, const prompt_list *p) {
    const kv_cache *c = engine_cache(s->engine);
    engine_memory e = engine_memory_use(s->engine);
    batch_memory m = {.weights = s->model->weight_bytes + s->model->vector_bytes - s->model->mapped_bytes,
                      .pool = (size_t)c->n_touched * kv_cache_page_bytes(c),
                      .tables = e.tables + scheduler_memory_use(k) + p->n_bytes + p->n * sizeof *p->items,
                      .activations = e.activations + e.scratch};
    m.total = m.weights + m.pool + m.tables + m.activations;
    return m;
}

void summary_print(const batch_summary *s, FILE *out) {
    print_ends(s, out);
    print_work(s, out);
    print_memory(s, out);
}

void summary_json(const batch_summary *s, FILE *out) {
    const scheduler_stats *k = s->stats;
    const kv_usage *u = &k->peak;
    const kv_cache *c = engine_cache(s->session->engine);
    json_t *ends = json_object();
    for (int f = 0; f < N_FINISH; f++) json_object_set_new(ends, finish_words[f], json_integer(s->n_finished[f]));
    json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "n_prompts", (json_int_t)s->n_prompts, "n_completions",
                          (json_int_t)s->n_lines, "n_made", (json_int_t)s->n_made, "n_resumed", (json_int_t)s->n_resumed,
                          "n_refused", (json_int_t)s->n_refused, "finished", ends);
    json_t *work = json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:o, s:o, s:I, s:I, s:b}", "n_steps", (json_int_t)k->n_steps,
                             "n_rows", (json_int_t)k->n_rows, "n_generated", (json_int_t)k->n_generated, "seconds", k->seconds,
                             "tokens_per_second", per((double)k->n_generated, k->seconds), "rows_per_second",
                             per((double)k->n_rows, k->seconds), "predicted", classes_json(&s->audit->predicted), "counted",
                             classes_json(&k->counted), "bytes_predicted", (json_int_t)bytes_of(&s->audit->predicted),
                             "bytes_counted", (json_int_t)bytes_of(&k->counted), "agrees", s->audit->n_mismatches == 0);
    const batch_memory *m = &s->memory;
    json_t *peak = json_pack("{s:I, s:I, s:I, s:I, s:I}", "weight_bytes", (json_int_t)m->weights, "pool_bytes",
                             (json_int_t)m->pool, "table_bytes", (json_int_t)m->tables, "activation_bytes",
                             (json_int_t)m->activations, "total_bytes", (json_int_t)m->total);
    json_t *memory =
        json_pack("{s:i, s:i, s:i, s:I, s:I, s:I, s:I}", "page_size", c->layout.page_size, "n_pages", c->n_pages, "most_held",
                  u->n_held, "used_bytes", (json_int_t)u->used_bytes, "allocated_bytes", (json_int_t)u->allocated_bytes,
                  "wasted_bytes", (json_int_t)u->wasted_bytes, "shared_bytes", (json_int_t)u->shared_bytes);
    json_t *reused = json_pack("{s:I, s:I, s:I, s:I}", "tokens", (json_int_t)k->n_reused, "flops", (json_int_t)k->flops_reused,
                               "bytes_kv", (json_int_t)k->kv_bytes_reused, "bytes_spared", (json_int_t)k->bytes_spared);
    json_object_set_new(o, "work", work);
    json_object_set_new(o, "pages", memory);
    json_object_set_new(o, "memory", peak);
    json_object_set_new(o, "reused", reused);
    json_object_set_new(o, "n_preemptions", json_integer(k->n_preemptions));
    json_object_set_new(o, "n_recomputed", json_integer(k->n_recomputed));
    json_dumpf(o, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    fputc('\n', out);
    json_decref(o);
}
