/* tally run: a prompt in, its completion out, as it is made. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/generation.h"
#include "tools/ledger.h"
#include "tools/session.h"

typedef struct {
    session_options session;
    generation_options generation;
    const char *prompt, *file, *ids, *logits_out;
    int logit_rows;
    bool cost, verbose, json;
} run_options;

/* One completion. */
typedef struct {
    kv_sequence *kv;
    sample_rng rng;
    token_stream stream;
    int *ids; /* [room] prompt, then what was generated */
    int n_ids, n_prompt;
    const char *finish; /* NULL while it goes on */
    char *text;         /* of all that was generated, kept where several run at once */
    size_t n_text;
} completion;

typedef struct {
    const run_options *o;
    session s;
    ledger ledger;
    sample_scratch scratch;
    completion *all; /* [samples] */
    float *logits;   /* [max(samples, prompt rows wanted), n_vocab] */
    FILE *logits_file;
} run;

static void write_logits(run *r, const float *logits, int n_rows) {
    int n_vocab = r->s.model->config.n_vocab;
    for (int t = 0; r->logits_file != NULL && t < n_rows; t++) {
        for (int i = 0; i < n_vocab; i++) {
            fprintf(r->logits_file, "%s%.9g", i > 0 ? " " : "", (double)logits[(size_t)t * (size_t)n_vocab + (size_t)i]);
        }
        fputc('\n', r->logits_file);
    }
}

/* Text goes out at once where one completion runs, and is kept where several do. */
static status emit(run *r, completion *c, const char *text, size_t n, error *e) {
    if (r->o->generation.samples == 1 && !r->o->json) {
        fwrite(text, 1, n, stdout);
        fflush(stdout);
    }
    char *larger = realloc(c->text, c->n_text + n + 1);
    if (larger == NULL) return error_set(e, ERR_MEMORY, "out of memory for the completion");
    c->text = larger;
    memcpy(c->text + c->n_text, text, n);
    c->n_text += n;
    c->text[c->n_text] = '\0';
    return OK;
}

static status emit_token(run *r, completion *c, int id, error *e) {
    const char *text;
    size_t n;
    if (r->s.tokenizer == NULL) {
        char number[16];
        int written = snprintf(number, sizeof number, "%s%d", c->n_ids > c->n_prompt + 1 ? " " : "", id);
        return emit(r, c, number, (size_t)written, e);
    }
    status st = token_stream_push(&c->stream, id, &text, &n, e);
    return st == OK ? emit(r, c, text, n, e) : st;
}

/* Draws the next token of c from its logits, and says whether c goes on. */
static status completion_draw(run *r, completion *c, float *logits, error *e) {
    int id = sample_token(logits, &r->o->generation.sampling, c->ids, c->n_ids, &c->rng, &r->scratch);
    if (session_is_end(&r->s, id)) {
        c->finish = "end token";
        return OK;
    }
    c->ids[c->n_ids++] = id;
    status st = emit_token(r, c, id, e);
    int generated = c->n_ids - c->n_prompt;
    if (r->o->generation.n_predict >= 0 && generated >= r->o->generation.n_predict) {
        c->finish = "-n";
    } else if (c->kv->n_tokens >= engine_n_ctx(r->s.engine)) {
        c->finish = "context";
    }
    return st;
}

/* A completion goes on after the prompt's text; after special tokens alone (an empty prompt) it begins a text of its own. */
static unsigned stream_flags(const tokenizer *t, const int *ids, int n) {
    for (int i = 0; i < n; i++) {
        if (!tokenizer_is_special(t, ids[i])) return DETOKENIZE_CONTINUED;
    }
    return 0;
}

static status completions_create(run *r, const int *ids, int n, error *e) {
    const run_options *o = r->o;
    int ctx = engine_n_ctx(r->s.engine);
    r->all = calloc((size_t)o->generation.samples, sizeof *r->all);
    if (r->all == NULL) return error_set(e, ERR_MEMORY, "out of memory for %d samples", o->generation.samples);
    for (int i = 0; i < o->generation.samples; i++) {
        completion *c = &r->all[i];
        status st = kv_sequence_create(&c->kv, engine_cache(r->s.engine), ctx, e);
        if (st == OK && r->s.tokenizer != NULL)
            st = token_stream_init(&c->stream, r->s.tokenizer, stream_flags(r->s.tokenizer, ids, n), e);
        if (st != OK) return st;
        c->ids = malloc(((size_t)n + (size_t)ctx + 1) * sizeof *c->ids);
        c->text = calloc(1, 1);
        if (c->ids == NULL || c->text == NULL)
            return error_set(e, ERR_MEMORY, "out of memory for %d samples", o->generation.samples);
        memcpy(c->ids, ids, (size_t)n * sizeof *ids);
        c->n_ids = c->n_prompt = n;
        sample_rng_init(&c->rng, o->session.seed, (uint64_t)i);
    }
    return OK;
}

/* The prompt once; then every sample has its tokens, and shares its pages. */
static status run_prefill(run *r, error *e) {
    const run_options *o = r->o;
    completion *first = &r->all[0];
    size_t n_vocab = (size_t)r->s.model->config.n_vocab;
    int n = first->n_prompt, rows = o->logit_rows == 1 ? n : 1;
    r->ledger.phase = PHASE_PREFILL;
    status st = engine_prefill(r->s.engine, first->kv, first->ids, n, rows, r->logits, e);
    if (st != OK) return error_prefix(e, r->s.name);
    write_logits(r, r->logits, rows);
    float *last = r->logits + (size_t)(rows - 1) * n_vocab;
    memmove(r->logits, last, n_vocab * sizeof *last);
    for (int i = 1; i < o->generation.samples; i++) {
        kv_sequence_fork(r->all[i].kv, first->kv, engine_cache(r->s.engine));
        memcpy(r->logits + (size_t)i * n_vocab, r->logits, n_vocab * sizeof *r->logits);
    }
    return OK;
}

/* One step for all completions that go on. */
static status run_decode(run *r, kv_sequence **seqs, int *ids, int *which, error *e) {
    size_t n_vocab = (size_t)r->s.model->config.n_vocab;
    r->ledger.phase = PHASE_DECODE;
    for (;;) {
        int B = 0;
        for (int i = 0; i < r->o->generation.samples; i++) {
            completion *c = &r->all[i];
            if (c->finish != NULL) continue;
            seqs[B] = c->kv;
            ids[B] = c->ids[c->n_ids - 1];
            which[B++] = i;
        }
        if (B == 0) return OK;
        status st = engine_decode(r->s.engine, seqs, ids, B, r->logits, e);
        if (st != OK) return error_prefix(e, r->s.name);
        write_logits(r, r->logits, B);
        for (int b = 0; b < B && st == OK; b++) st = completion_draw(r, &r->all[which[b]], r->logits + (size_t)b * n_vocab, e);
        if (st != OK) return st;
    }
}

static status run_generate(run *r, error *e) {
    size_t n_vocab = (size_t)r->s.model->config.n_vocab;
    if (r->o->generation.n_predict == 0) return OK;
    for (int i = 0; i < r->o->generation.samples; i++) {
        status st = completion_draw(r, &r->all[i], r->logits + (size_t)i * n_vocab, e);
        if (st != OK) return st;
    }
    kv_sequence **seqs = calloc((size_t)r->o->generation.samples, sizeof *seqs);
    int *ids = calloc((size_t)r->o->generation.samples, 2 * sizeof *ids);
    status st = seqs == NULL || ids == NULL ? error_set(e, ERR_MEMORY, "out of memory for %d samples", r->o->generation.samples)
                                            : run_decode(r, seqs, ids, ids + r->o->generation.samples, e);
    free(seqs);
    free(ids);
    for (int i = 0; i < r->o->generation.samples && st == OK && r->s.tokenizer != NULL; i++) {
        const char *text;
        size_t n;
        token_stream_flush(&r->all[i].stream, &text, &n);
        st = emit(r, &r->all[i], text, n, e);
    }
    return st;
}

static json_t *run_json(const run *r) {
    json_t *samples = json_array();
    for (int i = 0; i < r->o->generation.samples; i++) {
        const completion *c = &r->all[i];
        json_t *ids = json_array(), *one = json_object();
        for (int k = c->n_prompt; k < c->n_ids; k++) json_array_append_new(ids, json_integer(c->ids[k]));
        json_t *text = json_stringn(c->text, c->n_text); /* NULL where it is not UTF-8: the ids say it all */
        json_object_set_new(one, "text", text != NULL ? text : json_null());
        json_object_set_new(one, "ids", ids);
        json_object_set_new(one, "finish_reason", json_string(c->finish == NULL ? "-n" : c->finish));
        json_array_append_new(samples, one);
    }
    return json_pack("{s:s, s:i, s:I, s:o, s:o}", "model", r->s.name, "n_prompt", r->all[0].n_prompt, "seed",
                     (json_int_t)r->o->session.seed, "samples", samples, "cost", ledger_json(&r->ledger));
}

static void run_print(const run *r) {
    if (r->o->json) {
        json_t *o = run_json(r);
        json_dumpf(o, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        json_decref(o);
    } else if (r->o->generation.samples > 1) {
        for (int i = 0; i < r->o->generation.samples; i++) printf("== sample %d\n%s\n", i + 1, r->all[i].text);
    }
    /* Piped, stdout is the completion and not a byte more; a terminal's next prompt, or a table, begins a line of its own. */
    bool ends = r->o->cost || isatty(STDOUT_FILENO);
    if (r->o->json || (ends && r->o->generation.samples == 1 && r->o->generation.n_predict != 0)) putchar('\n');
    if (!r->o->cost || r->o->json) return;
    for (int p = 0; p < N_PHASES; p++) {
        ledger_entry s = ledger_sum(&r->ledger, (phase)p);
        if (s.n_steps > 0) putchar('\n');
        ledger_print_phase(&s, DETAIL_TERMS, stdout);
    }
}

/* What was assumed, and what the run was: on stderr, so that stdout is the completion alone. */
static void run_explain(const run *r) {
    if (!r->o->verbose) return;
    const model *m = r->s.model;
    size_t i;
    json_t *line;
    fprintf(stderr, "model: %s, layout %s, %llu parameters, kernels %s, threads: %d, %d found for a step of one row\n",
            r->s.name, m->layout[0] != '\0' ? m->layout : "none", (unsigned long long)config_params(&m->config).total,
            engine_isa(r->s.engine), engine_n_threads(r->s.engine), engine_workers_found(r->s.engine, 1));
    json_array_foreach(m->assumptions, i, line) fprintf(stderr, "assumed: %s\n", json_string_value(line));
    if (r->s.no_tokenizer.code != OK) fprintf(stderr, "no tokenizer: %s\n", r->s.no_tokenizer.message);
    for (int k = 0; k < r->o->generation.samples && r->all != NULL; k++) {
        fprintf(stderr, "%d tokens of prompt, %d generated, ended by %s\n", r->all[k].n_prompt,
                r->all[k].n_ids - r->all[k].n_prompt, r->all[k].finish == NULL ? "-n" : r->all[k].finish);
    }
    if (r->o->generation.sampling.temperature > 0)
        fprintf(stderr, "seed: %llu (repeat with -s)\n", (unsigned long long)r->o->session.seed);
}

static status run_all(run *r, const int *ids, int n, error *e) {
    const run_options *o = r->o;
    size_t rows = o->logit_rows == 1 && n > o->generation.samples ? (size_t)n : (size_t)o->generation.samples;
    r->logits = calloc(rows * (size_t)r->s.model->config.n_vocab, sizeof *r->logits);
    if (r->logits == NULL) return error_set(e, ERR_MEMORY, "out of memory for %zu rows of logits", rows);
    status st = sample_scratch_create(&r->scratch, r->s.model->config.n_vocab, session_n_tokens(&r->s), e);
    if (st == OK) st = completions_create(r, ids, n, e);
    if (st == OK) st = run_prefill(r, e);
    if (st == OK) st = run_generate(r, e);
    return st;
}

static void run_close(run *r) {
    for (int i = 0; r->all != NULL && i < r->o->generation.samples; i++) {
        completion *c = &r->all[i];
        if (c->kv != NULL) kv_sequence_free(c->kv, engine_cache(r->s.engine));
        token_stream_free(&c->stream);
        free(c->ids);
        free(c->text);
    }
    free(r->all);
    free(r->logits);
    sample_scratch_free(&r->scratch);
    ledger_free(&r->ledger);
    session_close(&r->s);
}

/* The prompt as ids: --ids, -f or -p. */
static status run_ids(const run *r, int **ids, size_t *n, error *e) {
    const run_options *o = r->o;
    char *owned = NULL;
    const char *text = o->prompt != NULL ? o->prompt : "";
    size_t n_bytes = strlen(text);
    if (o->file != NULL) {
        status st = file_read(o->file, &owned, &n_bytes, e);
        if (st != OK) return st;
        text = owned;
        if (n_bytes > 0 && text[n_bytes - 1] == '\n') n_bytes--; /* the line end that editors put after the last line */
    }
    unsigned flags = TOKENIZE_ADD_SPECIAL | (o->generation.parse_special ? TOKENIZE_PARSE_SPECIAL : 0u);
    status st = session_prompt(&r->s, o->ids, text, n_bytes, flags, ids, n, e);
    if (st == OK && *n > (size_t)INT_MAX) st = error_set(e, ERR_LIMIT, "the prompt is longer than any context");
    free(owned);
    return st;
}

static int run_main(run_options *o) {
    error e = {0};
    run r = {.o = o};
    int *ids = NULL;
    size_t n = 0;
    o->session.max_sequences = o->generation.samples;
    status st = generation_settle(&o->generation, &e);
    if (st != OK) return tool_usage("%s", e.message);
    st = session_open(&r.s, &o->session, &e);
    if (st == OK) {
        ledger_init(&r.ledger, &r.s.model->config);
        engine_observe(r.s.engine, ledger_observe, &r.ledger);
        st = run_ids(&r, &ids, &n, &e);
    }
    if (st == OK && o->logits_out != NULL && (r.logits_file = fopen(o->logits_out, "w")) == NULL) {
        st = error_set(&e, ERR_IO, "%s: cannot be written", o->logits_out);
    }
    if (st == OK) st = run_all(&r, ids, (int)n, &e);
    if (r.logits_file != NULL && fclose(r.logits_file) != 0 && st == OK)
        st = error_set(&e, ERR_IO, "%s: cannot be written", o->logits_out);
    if (st == OK) run_print(&r);
    if (st == OK) run_explain(&r);
    free(ids);
    if (st != OK && r.all != NULL && r.all[0].n_text > 0 && o->generation.samples == 1 && !o->json) putchar('\n');
    if (st == OK && fflush(stdout) != 0) st = error_set(&e, ERR_IO, "stdout: cannot be written");
    run_close(&r);
    return st == OK ? 0 : tool_fail(&e);
}

int cmd_run(int argc, char **argv) {
    run_options o = {0};
    session_options_init(&o.session);
    generation_init(&o.generation);
    option rows[SESSION_ROWS + GENERATION_ROWS + 12];
    size_t n = session_option_rows(&o.session, rows);
    n += generation_option_rows(&o.generation, rows + n);
    const option mine[] = {
        {"prompt", 'p', OPTION_TEXT, &o.prompt, "TEXT", "the prompt", 0, 0},
        {"file", 'f', OPTION_TEXT, &o.file, "FILE", "the prompt from a file (- is standard input)", 0, 0},
        {"ids", 0, OPTION_TEXT, &o.ids, "1,5,6", "the prompt as token ids", 0, 0},
        {"logits-out", 0, OPTION_TEXT, &o.logits_out, "FILE", "write logits as text, one row a line", 0, 0},
        {"logit-rows", 0, OPTION_CHOICE, &o.logit_rows, "last|all", "of the prompt: its last row, or all (last)", 0, 0},
        {"cost", 0, OPTION_FLAG, &o.cost, NULL, "print what it cost: predicted, counted, measured", 0, 0},
        {"verbose", 'v', OPTION_FLAG, &o.verbose, NULL, "say what was assumed and why it ended, on stderr", 0, 0},
        OPTION_JSON(&o.json),
    };
    memcpy(rows + n, mine, sizeof mine);
    const command help = {"run",
                          "-m MODEL -p PROMPT [options]",
                          "Completes a prompt. Greedy unless --temp is given; ends at the end token, at -n, or at the context.",
                          "tally run -m models/level21.pt -p \"23+58=\" --cost",
                          rows,
                          n + sizeof mine / sizeof *mine};
    int rc = session_options_parse(&o.session, &help, argc, argv);
    if (rc >= 0) return rc;
    if ((o.prompt != NULL) + (o.file != NULL) + (o.ids != NULL) > 1) return tool_usage("one prompt: -p, -f or --ids");
    return run_main(&o);
}
