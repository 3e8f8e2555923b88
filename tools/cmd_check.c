/* tally check: runs prefill and decode for real, and lays predicted, counted and measured side by side. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sample.h"
#include "tools/check_sweep.h"
#include "tools/commands.h"
#include "tools/ledger.h"
#include "tools/plot.h"
#include "tools/quality.h"
#include "tools/quantity.h"
#include "tools/residual.h"
#include "tools/roofs.h"
#include "tools/session.h"

typedef struct {
    session_options session;
    const char *prompt, *ids, *quality, *after;
    int prompt_tokens, n_steps, batch;
    const char *sweep, *plot;
    bool json, all, brief, csv;
} check_options;

/* Prompt: as given; the model's sample; or so many seeded ids. */
static status check_ids(const session *s, const check_options *o, int **ids, size_t *n, error *e) {
    const char *sample = s->model->sample_prompt;
    if (o->ids != NULL || o->prompt != NULL) {
        const char *text = o->prompt != NULL ? o->prompt : "";
        return session_prompt(s, o->ids, text, strlen(text), TOKENIZE_ADD_SPECIAL, ids, n, e);
    }
    if (o->prompt_tokens == 0 && sample != NULL && s->tokenizer != NULL) {
        return session_prompt(s, NULL, sample, strlen(sample), TOKENIZE_ADD_SPECIAL, ids, n, e);
    }
    int room = engine_n_ctx(s->engine) - o->n_steps, want = o->prompt_tokens > 0 ? o->prompt_tokens : room < 32 ? room : 32;
    if (want < 1) want = 1;
    *ids = malloc((size_t)want * sizeof **ids);
    if (*ids == NULL) return error_set(e, ERR_MEMORY, "out of memory for the prompt");
    uint64_t x = o->session.seed + 1;
    for (int i = 0; i < want; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        (*ids)[i] = (int)((x >> 33) % (uint64_t)s->model->config.n_vocab);
    }
    *n = (size_t)want;
    return OK;
}

/* Every sequence of the batch gets the prompt, turned by its number so that no two are the same, and then goes on greedily. */
static status check_run(session *s, ledger *l, const check_options *o, const int *ids, int n, error *e) {
    int B = o->batch, n_vocab = s->model->config.n_vocab;
    kv_sequence **seqs = calloc((size_t)B, sizeof *seqs);
    int *next = calloc((size_t)B, sizeof *next), *mine = calloc((size_t)n, sizeof *mine);
    float *logits = calloc((size_t)B * (size_t)n_vocab, sizeof *logits);
    status st = seqs == NULL || next == NULL || mine == NULL || logits == NULL
                    ? error_set(e, ERR_MEMORY, "out of memory for the check")
                    : OK;
    l->phase = PHASE_PREFILL;
    for (int b = 0; b < B && st == OK; b++) {
        for (int i = 0; i < n; i++) mine[i] = ids[(i + b) % n];
        st = kv_sequence_create(&seqs[b], engine_cache(s->engine), engine_n_ctx(s->engine), e);
        if (st == OK) st = engine_prefill(s->engine, seqs[b], mine, n, 1, logits, e);
        next[b] = sample_greedy(logits, n_vocab);
    }
    l->phase = PHASE_DECODE;
    for (int i = 0; i < o->n_steps && st == OK && seqs[0]->n_tokens < engine_n_ctx(s->engine); i++) {
        st = engine_decode(s->engine, seqs, next, B, logits, e);
        for (int b = 0; b < B && st == OK; b++) next[b] = sample_greedy(logits + (size_t)b * (size_t)n_vocab, n_vocab);
    }
    for (int b = 0; seqs != NULL && b < B; b++) kv_sequence_free(seqs[b], engine_cache(s->engine));
    free(seqs);
    free(next);
    free(mine);
    free(logits);
    return st == OK ? OK : error_prefix(e, s->name);
}

static const dtype kv_types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0}; /* by --kv-type */
static const char *const phase_names[N_PHASES] = {"prefill", "decode"};

static void check_print(const session *s, const ledger *l, const machine *m, const check_options *o) {
    const weight_storage *w = engine_storage(s->engine);
    printf("%s: %s weights of %s, %s cache, %s kernels\n\n", s->name, format_exact(config_params(&s->model->config).total).text,
           dtype_info(w->layers[0][MATRIX_Q].type)->name,
           o->session.kv_type == 2 ? "int8" : dtype_info(kv_types[o->session.kv_type])->name, engine_isa(s->engine));
    ledger_print_steps(l, stdout);
    for (int p = 0; p < N_PHASES; p++) {
        ledger_entry sum = ledger_sum(l, (phase)p);
        if (sum.n_steps == 0) continue;
        putchar('\n');
        ledger_print_phase(&sum, o->brief ? DETAIL_CLASSES : o->all ? DETAIL_ALL : DETAIL_TERMS, stdout);
        if (o->brief) continue;
        residual parts[N_RESIDUALS];
        residuals_make(parts, &sum, &s->model->config, w, kv_types[o->session.kv_type]);
        residuals_print(parts, stdout);
        roof_setting on = roof_setting_of(s, &o->session, sum.n_workers_most);
        roofs r;
        if (m != NULL && roofs_compute(&r, &sum, m, &on)) roofs_print(&r, &sum, stdout);
    }
    if (m == NULL && !o->brief) puts("\nno roofs: this machine's limits have not been measured (run tally machine once)");
    printf("\n%s\n", ledger_agrees(l) ? "counted = predicted in every term of every step" : "counted DIFFERS from predicted");
}

/* "lesson": {"prefill": {...}, "decode": {...}}: the simple formulas and every part of the difference. */
static void add_lesson(json_t *j, const session *s, const ledger *l, const check_options *o) {
    json_t *all = json_object();
    for (int p = 0; p < N_PHASES; p++) {
        ledger_entry sum = ledger_sum(l, (phase)p);
        residual parts[N_RESIDUALS];
        if (sum.n_steps == 0) continue;
        residuals_make(parts, &sum, &s->model->config, engine_storage(s->engine), kv_types[o->session.kv_type]);
        json_object_set_new(all, phase_names[p], residuals_json(parts));
    }
    json_object_set_new(j, "lesson", all);
}

/* "roofs": {"prefill": {...}, "decode": {...}}, where the machine has been measured. */
static void add_roofs(json_t *j, const session *s, const ledger *l, const machine *m, const check_options *o) {
    json_t *all = json_object();
    for (int p = 0; p < N_PHASES && m != NULL; p++) {
        ledger_entry sum = ledger_sum(l, (phase)p);
        roof_setting on = roof_setting_of(s, &o->session, sum.n_workers_most);
        roofs r;
        if (roofs_compute(&r, &sum, m, &on)) json_object_set_new(all, phase_names[p], roofs_json(&r));
    }
    json_object_set_new(j, "roofs", all);
}

static int sweep_main(const check_options *o) {
    error e = {0};
    session s;
    machine measured;
    bool agrees;
    check_sweep c = {.text = o->sweep,
                     .n_steps = o->n_steps,
                     .batch = o->batch,
                     .plot = o->plot,
                     .json = o->json,
                     .csv = o->csv,
                     .context = o->prompt_tokens > 0 ? o->prompt_tokens : 1};
    const machine *limits = machine_cached(&measured, NULL) == OK ? &measured : NULL;
    if (limits == NULL)
        fprintf(stderr,
                "tally: no prediction of times: this machine's limits have not been measured (run tally machine once)\n");
    status st = session_open_model(&s, &o->session, &e);
    if (st != OK) return tool_fail(&e);
    st = check_sweep_run(&s, &o->session, &c, limits, &agrees, &e);
    session_close(&s);
    if (st != OK) return tool_fail(&e);
    return agrees ? 0 : 1;
}

static int check_main(check_options *o) {
    error e = {0};
    session s;
    ledger l;
    int *ids = NULL;
    size_t n = 0;
    o->session.max_sequences = o->batch;
    o->session.profile = true;
    if (session_open(&s, &o->session, &e) != OK) return tool_fail(&e);
    ledger_init(&l, &s.model->config);
    engine_observe(s.engine, ledger_observe, &l);
    status st = check_ids(&s, o, &ids, &n, &e);
    if (st == OK && n > (size_t)INT_MAX) st = error_set(&e, ERR_LIMIT, "the prompt is longer than any context");
    if (st == OK) st = check_run(&s, &l, o, ids, (int)n, &e);
    bool agrees = st == OK && ledger_agrees(&l);
    machine measured;
    const machine *limits = machine_cached(&measured, NULL) == OK ? &measured : NULL;
    if (st == OK && o->json) {
        json_t *j = ledger_json(&l);
        json_object_set_new(j, "model", json_string(s.name));
        add_lesson(j, &s, &l, o);
        add_roofs(j, &s, &l, limits, o);
        json_dumpf(j, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        putchar('\n');
        json_decref(j);
    } else if (st == OK) {
        check_print(&s, &l, limits, o);
    }
    free(ids);
    ledger_free(&l);
    session_close(&s);
    if (st != OK) return tool_fail(&e);
    return agrees ? 0 : 1;
}

int cmd_check(int argc, char **argv) {
    check_options o = {.n_steps = 8, .batch = 1};
    session_options_init(&o.session);
    option rows[SESSION_ROWS + 16];
    size_t n = session_option_rows(&o.session, rows);
    const option mine[] = {
        {"prompt", 'p', OPTION_TEXT, &o.prompt, "TEXT", "the prompt (the model's sample, or 32 seeded ids)", 0, 0},
        {"ids", 0, OPTION_TEXT, &o.ids, "1,5,6", "the prompt as token ids", 0, 0},
        {"prompt-tokens", 0, OPTION_INT, &o.prompt_tokens, "N", "a prompt of N seeded ids", 1, INT_MAX},
        {"steps", 0, OPTION_INT, &o.n_steps, "N", "decode steps (8)", 0, INT_MAX},
        {"batch", 0, OPTION_INT, &o.batch, "B", "sequences decoded together (1)", 1, 65536},
        {"brief", 0, OPTION_FLAG, &o.brief, NULL, "sums only: no terms, no lesson, no roofs", 0, 0},
        {"all", 0, OPTION_FLAG, &o.all, NULL, "terms that are 0 too", 0, 0},
        {"sweep", 0, OPTION_TEXT, &o.sweep, "batch=1:64", "measure decode over batch or context (after --prompt-tokens, 1)", 0,
         0},
        {"csv", 0, OPTION_FLAG, &o.csv, NULL, "the sweep as comma-separated values", 0, 0},
        {"plot", 0, OPTION_TEXT, &o.plot, "FILE.svg", "the sweep as a picture (svg or png; needs gnuplot)", 0, 0},
        {"quality", 0, OPTION_TEXT, &o.quality, "FILE", "compare every storage with fp32 on a text (or ids, a line each)", 0,
         0},
        {"after", 0, OPTION_TEXT, &o.after, "TEXT", "--quality: of each line, score only what follows TEXT", 0, 0},
        OPTION_JSON(&o.json),
    };
    memcpy(rows + n, mine, sizeof mine);
    const command help = {
        "check",
        "-m MODEL [options]",
        "Runs prefill and decode, and lays what was predicted, counted and measured side by side, term by term. Exit "
        "status 1 where counted differs from predicted. With --quality: what every storage of weights, cache and activations "
        "costs in accuracy.",
        "tally check -m models/level21.pt\n  "
        "tally check -m models/level21.pt --quality tests/data/level21/unseen_sums.txt --after =",
        rows,
        n + sizeof mine / sizeof *mine};
    int rc = session_options_parse(&o.session, &help, argc, argv);
    if (rc >= 0) return rc;
    if (o.sweep == NULL && (o.csv || o.plot != NULL)) return tool_usage("--csv and --plot are of a --sweep");
    if (o.prompt != NULL && o.ids != NULL) return tool_usage("one prompt: -p or --ids");
    error e = {0};
    if (o.plot != NULL && plot_check(o.plot, &e) != OK) return tool_fail(&e);
    if (o.quality != NULL) return quality_main(&o.session, o.quality, o.after, o.json);
    return o.sweep != NULL ? sweep_main(&o) : check_main(&o);
}
