/* tally trace: the KV cache step by step. The table of the lesson's first section, made by the program. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sample.h"
#include "tools/commands.h"
#include "tools/ledger.h"
#include "tools/quantity.h"
#include "tools/session.h"

typedef struct {
    session_options session;
    const char *prompt, *ids;
    int n_predict;
    bool json, no_cache;
} trace_options;

typedef struct {
    const trace_options *o;
    session s;
    ledger cached, uncached; /* the run, and the recompute beside it */
    kv_sequence *kv, *again;
    float *logits, *logits_again;
    size_t cached_from,
        uncached_from; /* the first step of the ledgers that belongs to the row being shown: chunks are several */
    int *ids;
    int n_ids, n_prompt;
    bool same; /* all logits of the recompute were the same bits */
    json_t *steps;
} trace;

static void piece(const trace *t, int id, char *out, size_t size) {
    size_t n = 0;
    const char *p = t->s.tokenizer != NULL ? tokenizer_piece(t->s.tokenizer, id, &n) : NULL;
    if (p == NULL) {
        snprintf(out, size, "%d", id);
    } else {
        snprintf(out, size, "%s", p);
    }
}

/* 0..6, or 7, or - */
static void span(char *out, size_t size, int first, int end) {
    if (end <= first) {
        snprintf(out, size, "-");
    } else if (end == first + 1) {
        snprintf(out, size, "%d", first);
    } else {
        snprintf(out, size, "%d..%d", first, end - 1);
    }
}

/* The page table: the pages' numbers, and the slots of the last as a picture: # a token that was there, + one of this step, . empty. */
static void print_pages(const kv_sequence *kv, int n_cached, int page_size) {
    printf("  ");
    for (int p = 0; p < kv->n_pages; p++) printf("%s%d", p > 0 ? " " : "", kv->pages[p]);
    putchar('[');
    for (int slot = 0; slot < page_size && slot < 64; slot++) {
        int pos = (kv->n_pages - 1) * page_size + slot;
        putchar(pos < n_cached ? '#' : pos < kv->n_tokens ? '+' : '.');
    }
    puts("]");
}

/* The same tokens from the start, without a cache: every key and value computed anew. */
static status recompute(trace *t, error *e) {
    kv_sequence_truncate(t->again, 0, engine_cache(t->s.engine));
    t->uncached.phase = PHASE_PREFILL;
    engine_observe(t->s.engine, ledger_observe, &t->uncached);
    status st = engine_prefill(t->s.engine, t->again, t->ids, t->n_ids, 1, t->logits_again, e);
    engine_observe(t->s.engine, ledger_observe, &t->cached);
    size_t bytes = (size_t)t->s.model->config.n_vocab * sizeof *t->logits;
    if (st == OK && memcmp(t->logits, t->logits_again, bytes) != 0) t->same = false;
    return st;
}

static json_t *step_json(const trace *t, int number, int n_cached, const ledger_entry *s) {
    json_t *tokens = json_array(), *pages = json_array();
    for (int i = n_cached; i < t->n_ids; i++) json_array_append_new(tokens, json_integer(t->ids[i]));
    for (int p = 0; p < t->kv->n_pages; p++) json_array_append_new(pages, json_integer(t->kv->pages[p]));
    json_t *counted = json_object();
    for (int i = 0; i < N_TERMS; i++)
        json_object_set_new(counted, term_table[i].key, json_integer((json_int_t)s->counted.n[i]));
    return json_pack("{s:i, s:o, s:i, s:i, s:o, s:o, s:f}", "step", number, "ids", tokens, "n_cached", n_cached, "n_tokens",
                     t->n_ids, "pages", pages, "counted", counted, "seconds", s->seconds);
}

static void print_heading(const trace *t) {
    printf("%4s  %-12s %-9s %-9s %12s %12s %8s %10s %12s", "step", "given", "computes", "reads", "FLOPs", "weights", "written",
           "from cache", "own k, v");
    if (t->o->no_cache) printf("   %5s %12s %-8s", "keys", "FLOPs", "logits");
    printf("  page table\n%4s  %-12s %-9s %-9s %12s %12s %8s %10s %12s", "", "", "k, v of", "k, v of", "", "bytes", "bytes",
           "bytes", "bytes");
    if (t->o->no_cache) printf("   %-27s", "without a cache");
    putchar('\n');
}

/* The first token whose keys the step may read: behind the window of every layer nothing is. */
static int reads_from(const model_config *c, int n_cached) {
    for (int il = 0; il < c->n_layers; il++) {
        if (!c->layer_windowed[il]) return 0;
    }
    return n_cached >= c->window ? n_cached - c->window + 1 : 0;
}

/* One row: the lesson's table. */
static void print_step(const trace *t, int number, int n_cached) {
    char given[64], computed[32], read[32];
    ledger_entry sum = ledger_since(&t->cached, t->cached_from), *s = &sum;
    span(computed, sizeof computed, n_cached, t->n_ids);
    span(read, sizeof read, reads_from(&t->s.model->config, n_cached), n_cached);
    if (t->n_ids - n_cached == 1) {
        piece(t, t->ids[n_cached], given, sizeof given);
    } else {
        snprintf(given, sizeof given, "%d tokens", t->n_ids - n_cached);
    }
    printf("%4d  %-12.12s %-9s %-9s %12s", number, given, computed, read, format_exact(term_flops_sum(&s->counted)).text);
    printf(" %12s", format_exact(term_class_sum(&s->counted, CLASS_WEIGHT_BYTES)).text);
    printf(" %8s", format_exact(s->counted.n[TERM_BYTES_KV_WRITTEN]).text);
    printf(" %10s", format_exact(s->counted.n[TERM_BYTES_KV_CACHED]).text);
    printf(" %12s", format_exact(s->counted.n[TERM_BYTES_KV_OWN]).text);
    if (t->o->no_cache) {
        ledger_entry again = ledger_since(&t->uncached, t->uncached_from), *u = &again;
        printf("   %5s", format_exact(u->counted.n[TERM_KEYS_COMPUTED] / (uint64_t)t->s.model->config.n_layers).text);
        printf(" %12s %-8s", format_exact(term_flops_sum(&u->counted)).text, t->same ? "the same" : "DIFFER");
    }
    print_pages(t->kv, n_cached, engine_cache(t->s.engine)->layout.page_size);
}

static void print_completion(const trace *t) {
    char *text = NULL;
    size_t n = 0;
    const int *ids = t->ids + t->n_prompt;
    int n_ids = t->n_ids - t->n_prompt;
    if (t->s.tokenizer != NULL &&
        tokenizer_decode(t->s.tokenizer, ids, (size_t)n_ids, DETOKENIZE_CONTINUED, &text, &n, NULL) == OK) {
        fwrite(text, 1, n, stdout);
    } else {
        for (int i = 0; i < n_ids; i++) printf("%s%d", i > 0 ? " " : "", ids[i]);
    }
    free(text);
    putchar('\n');
}

/* Keys computed with the cache and without it, beside the lesson's n and n(n+1)/2: the prompt is taken token by token for that. */
static void print_totals(const trace *t) {
    uint64_t nl = (uint64_t)t->s.model->config.n_layers, n = (uint64_t)t->kv->n_tokens, with = 0, without = 0;
    for (size_t i = 0; i < t->cached.n; i++) with += t->cached.entries[i].counted.n[TERM_KEYS_COMPUTED];
    for (size_t i = 0; i < t->uncached.n; i++) without += t->uncached.entries[i].counted.n[TERM_KEYS_COMPUTED];
    printf("\n%s tokens: %s keys computed in each layer", format_exact(n).text, format_exact(with / nl).text);
    if (t->o->no_cache) {
        printf(" with the cache, %s without (n(n+1)/2 = %s); %s", format_exact(without / nl).text,
               format_exact(n * (n + 1) / 2).text, t->same ? "the same logits, bit for bit" : "logits DIFFER");
    }
    printf("\ncompleted: ");
    print_completion(t);
}

static status trace_steps(trace *t, error *e) {
    engine *en = t->s.engine;
    int n = t->n_ids, number = 0, end = t->o->n_predict < 0 ? INT_MAX : t->o->n_predict;
    bool single = t->o->no_cache; /* token by token, as in the lesson: else the prompt is one prefill */
    t->n_ids = single ? 1 : n;
    for (int generated = 0;; number++) {
        int n_cached = t->kv->n_tokens;
        t->cached_from = t->cached.n, t->uncached_from = t->uncached.n;
        t->cached.phase = n_cached < t->n_prompt ? PHASE_PREFILL : PHASE_DECODE;
        status st = engine_prefill(en, t->kv, t->ids + n_cached, t->n_ids - n_cached, 1, t->logits, e);
        if (st == OK && t->o->no_cache) st = recompute(t, e);
        if (st != OK) return error_prefix(e, t->s.name);
        bool in_prompt = t->n_ids < t->n_prompt;
        int next = in_prompt ? t->ids[t->n_ids] : sample_greedy(t->logits, session_n_tokens(&t->s));
        if (t->o->json) {
            ledger_entry sum = ledger_since(&t->cached, t->cached_from);
            json_array_append_new(t->steps, step_json(t, number, n_cached, &sum));
        } else {
            if (number == 0) print_heading(t);
            print_step(t, number, n_cached);
        }
        if (!in_prompt && (generated++ >= end || session_is_end(&t->s, next))) return OK;
        if (t->n_ids >= engine_n_ctx(en)) return OK;
        t->ids[t->n_ids++] = next;
    }
}

static status trace_open(trace *t, const trace_options *o, error *e) {
    size_t n = 0, n_bytes;
    int *ids = NULL;
    const char *text = o->prompt != NULL ? o->prompt : t->s.model->sample_prompt != NULL ? t->s.model->sample_prompt : "";
    n_bytes = strlen(text);
    status st = session_prompt(&t->s, o->ids, text, n_bytes, TOKENIZE_ADD_SPECIAL, &ids, &n, e);
    int ctx = engine_n_ctx(t->s.engine);
    if (st == OK && n > (size_t)ctx) {
        st = error_set(e, ERR_LIMIT, "%s: a prompt of %zu tokens does not fit the context of %d (shorten it)", t->s.name, n,
                       ctx);
    }
    if (st == OK) st = kv_sequence_create(&t->kv, engine_cache(t->s.engine), ctx, e);
    if (st == OK) st = kv_sequence_create(&t->again, engine_cache(t->s.engine), ctx, e);
    size_t n_vocab = (size_t)t->s.model->config.n_vocab;
    t->ids = malloc(((size_t)ctx + 1) * sizeof *t->ids);
    t->logits = calloc(n_vocab, sizeof *t->logits);
    t->logits_again = calloc(n_vocab, sizeof *t->logits);
    t->steps = json_array();
    if (st == OK && (t->ids == NULL || t->logits == NULL || t->logits_again == NULL))
        st = error_set(e, ERR_MEMORY, "out of memory");
    if (st == OK) {
        memcpy(t->ids, ids, n * sizeof *ids);
        t->n_ids = t->n_prompt = (int)n;
        t->same = true;
        ledger_init(&t->cached, &t->s.model->config);
        ledger_init(&t->uncached, &t->s.model->config);
        engine_observe(t->s.engine, ledger_observe, &t->cached);
    }
    free(ids);
    return st;
}

static void trace_close(trace *t) {
    if (t->s.engine != NULL) {
        kv_sequence_free(t->kv, engine_cache(t->s.engine));
        kv_sequence_free(t->again, engine_cache(t->s.engine));
    }
    free(t->ids);
    free(t->logits);
    free(t->logits_again);
    json_decref(t->steps);
    ledger_free(&t->cached);
    ledger_free(&t->uncached);
    session_close(&t->s);
}

static void trace_print_json(trace *t) {
    json_t *o = json_pack("{s:s, s:i, s:O, s:o}", "model", t->s.name, "n_prompt", t->n_prompt, "steps", t->steps, "cost",
                          ledger_json(&t->cached));
    if (t->o->no_cache) {
        json_object_set_new(o, "no_cache", ledger_json(&t->uncached));
        json_object_set_new(o, "same_logits", json_boolean(t->same));
    }
    json_dumpf(o, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(o);
}

int cmd_trace(int argc, char **argv) {
    trace_options o = {.n_predict = -1};
    session_options_init(&o.session);
    option rows[SESSION_ROWS + 8];
    size_t n = session_option_rows(&o.session, rows);
    const option mine[] = {
        {"prompt", 'p', OPTION_TEXT, &o.prompt, "TEXT", "the prompt (the model's sample)", 0, 0},
        {"ids", 0, OPTION_TEXT, &o.ids, "1,5,6", "the prompt as token ids", 0, 0},
        {"n-predict", 'n', OPTION_INT, &o.n_predict, "N", "most tokens to generate", -1, INT_MAX},
        {"no-cache", 0, OPTION_FLAG, &o.no_cache, NULL,
         "take the prompt token by token, and recompute everything beside each step", 0, 0},
        OPTION_JSON(&o.json),
    };
    memcpy(rows + n, mine, sizeof mine);
    const command help = {
        "trace",
        "-m MODEL -p PROMPT [options]",
        "Shows the KV cache step by step: what was computed, what was read from the cache, the page table, and what it cost.",
        "tally trace -m models/level21.pt -p \"23+58=\"\ntally trace -m models/level21.pt -p \"23+58=\" --no-cache",
        rows,
        n + sizeof mine / sizeof *mine};
    int rc = session_options_parse(&o.session, &help, argc, argv);
    if (rc >= 0) return rc;
    if (o.prompt != NULL && o.ids != NULL) return tool_usage("one prompt: -p or --ids");
    error e = {0};
    trace t = {.o = &o};
    o.session.max_sequences = 2; /* the second for the recompute */
    status st = session_open(&t.s, &o.session, &e);
    if (st == OK) st = trace_open(&t, &o, &e);
    if (st == OK) st = trace_steps(&t, &e);
    if (st == OK && o.json) trace_print_json(&t);
    if (st == OK && !o.json) print_totals(&t);
    bool same = t.same;
    trace_close(&t);
    return st != OK ? tool_fail(&e) : same ? 0 : 1;
}
