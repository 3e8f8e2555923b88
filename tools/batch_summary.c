/* batch_summary.c - what a run of `tally batch` came to. */
#include <inttypes.h>

#include "engine/cost.h"
#include "tools/batch.h"
#include "tools/quantity.h"

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

static double per(double a, double b) {
    return b > 0 ? a / b : 0;
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
    fprintf(out, "%s tokens generated in steps of %s: %.0f tokens/s; %s rows computed, %.0f rows/s\n",
            format_exact((uint64_t)k->n_generated).text, format_rounded(k->seconds, UNIT_SECONDS, UNITS_DECIMAL).text,
            per((double)k->n_generated, k->seconds), format_exact((uint64_t)k->n_rows).text,
            per((double)k->n_rows, k->seconds));
    uint64_t n = k->n_steps > 0 ? (uint64_t)k->n_steps : 1;
    fprintf(out,
            "%s steps of %.1f rows; each, on average: %s bytes predicted, %s counted; %s FLOPs predicted, %s counted: %s\n",
            format_exact((uint64_t)k->n_steps).text, per((double)k->n_rows, (double)n),
            format_exact(term_bytes_sum(&s->audit->predicted) / n).text, format_exact(term_bytes_sum(&k->counted) / n).text,
            format_exact(term_flops_sum(&s->audit->predicted) / n).text, format_exact(term_flops_sum(&k->counted) / n).text,
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
    if (c->n_copies > 0)
        fprintf(out, "%s pages that others held too were copied before they were written\n",
                format_exact((uint64_t)c->n_copies).text);
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

/* Sets several counts at once. */
typedef struct {
    const char *key;
    uint64_t n;
} counted_key;

static json_t *counts_json(const counted_key *keys, size_t n) {
    json_t *o = json_object();
    for (size_t i = 0; i < n; i++) json_object_set_new(o, keys[i].key, json_integer((json_int_t)keys[i].n));
    return o;
}
#define COUNTS(...)                                                                                                            \
    counts_json((const counted_key[]){__VA_ARGS__}, sizeof((const counted_key[]){__VA_ARGS__}) / sizeof(counted_key))

static json_t *work_json(const batch_summary *s) {
    const scheduler_stats *k = s->stats;
    json_t *o =
        COUNTS({"n_steps", (uint64_t)k->n_steps}, {"n_rows", (uint64_t)k->n_rows}, {"n_generated", (uint64_t)k->n_generated},
               {"n_preemptions", (uint64_t)k->n_preemptions}, {"n_recomputed", (uint64_t)k->n_recomputed},
               {"bytes_predicted", term_bytes_sum(&s->audit->predicted)}, {"bytes_counted", term_bytes_sum(&k->counted)});
    json_object_set_new(o, "predicted", batch_classes_json(&s->audit->predicted));
    json_object_set_new(o, "counted", batch_classes_json(&k->counted));
    json_object_set_new(o, "agrees", json_boolean(s->audit->n_mismatches == 0));
    json_object_set_new(o, "seconds", json_real(k->seconds));
    json_object_set_new(o, "tokens_per_second", json_real(per((double)k->n_generated, k->seconds)));
    json_object_set_new(o, "rows_per_second", json_real(per((double)k->n_rows, k->seconds)));
    return o;
}

static json_t *pages_json(const batch_summary *s) {
    const kv_usage *u = &s->stats->peak;
    const kv_cache *c = engine_cache(s->session->engine);
    return COUNTS({"page_size", (uint64_t)c->layout.page_size}, {"n_pages", (uint64_t)c->n_pages},
                  {"most_held", (uint64_t)u->n_held}, {"used_bytes", u->used_bytes}, {"allocated_bytes", u->allocated_bytes},
                  {"wasted_bytes", u->wasted_bytes}, {"shared_bytes", u->shared_bytes}, {"n_copied", (uint64_t)c->n_copies},
                  {"n_forgotten", (uint64_t)c->n_forgotten});
}

void summary_json(const batch_summary *s, FILE *out) {
    const scheduler_stats *k = s->stats;
    const batch_memory *m = &s->memory;
    json_t *ends = json_object();
    for (int f = 0; f < N_FINISH; f++) json_object_set_new(ends, finish_words[f], json_integer(s->n_finished[f]));
    json_t *o = COUNTS({"n_prompts", s->n_prompts}, {"n_completions", s->n_lines}, {"n_made", s->n_made},
                       {"n_resumed", s->n_resumed}, {"n_refused", s->n_refused});
    json_object_set_new(o, "finished", ends);
    json_object_set_new(o, "work", work_json(s));
    json_object_set_new(o, "pages", pages_json(s));
    json_object_set_new(o, "memory",
                        COUNTS({"weight_bytes", m->weights}, {"pool_bytes", m->pool}, {"table_bytes", m->tables},
                               {"activation_bytes", m->activations}, {"total_bytes", m->total}));
    json_object_set_new(o, "reused",
                        COUNTS({"tokens", (uint64_t)k->n_reused}, {"flops", k->flops_reused}, {"bytes_kv", k->kv_bytes_reused},
                               {"bytes_spared", k->bytes_spared}));
    json_dumpf(o, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    fputc('\n', out);
    json_decref(o);
}
