/* tally.c - the public header's functions over the engine's own. */
#include "engine/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cost.h"
#include "engine/engine.h"

struct tally {
    model *model;
    engine *engine;
    kv_sequence **batch; /* [max_sequences] */
    int max_sequences;
    term_counts predicted; /* of the last step: its plan does not outlive it */
};

struct tally_sequence {
    kv_sequence *kv;
};

tally_options tally_default_options(void) {
    engine_options e;
    engine_options_init(&e);
    return (tally_options){.weights = "auto",
                           .kv_type = "f16",
                           .isa = e.isa,
                           .max_sequences = e.max_sequences,
                           .prefill_chunk = e.prefill_chunk,
                           .page_size = e.page_size};
}

static int failed(const error *e, char *why) {
    if (why != NULL) snprintf(why, TALLY_MESSAGE, "%s", e->message);
    return (int)e->code;
}

/* "f32", "f16", "int8"; N_DTYPES for another word. */
static dtype type_of(const char *word) {
    if (strcmp(word, "int8") == 0) return DTYPE_Q8_0;
    return strcmp(word, "f32") == 0 ? DTYPE_F32 : strcmp(word, "f16") == 0 ? DTYPE_F16 : N_DTYPES;
}

static void observe(void *user, const step_report *r) {
    tally *t = user;
    cost_predict(&t->predicted, &t->model->config, r->plan);
}

static status open_all(tally *t, const char *path, const tally_options *o, error *e) {
    model_options m;
    engine_options eo;
    model_options_init(&m);
    engine_options_init(&eo);
    if (o->weights == NULL || o->kv_type == NULL || o->isa == NULL) {
        return error_set(e, ERR_ARGUMENT, "weights, kv_type and isa are words (begin with tally_default_options())");
    }
    if (o->n_threads < 0 || o->n_ctx < 0 || o->n_pages < 0) {
        return error_set(e, ERR_ARGUMENT, "n_threads, n_ctx and n_pages are 0 or more");
    }
    bool as_stored = strcmp(o->weights, "auto") == 0;
    dtype weights = type_of(o->weights), kv = type_of(o->kv_type);
    if (kv == N_DTYPES || (!as_stored && weights == N_DTYPES)) {
        return error_set(e, ERR_ARGUMENT, "weights '%s', kv_type '%s': f32, f16 or int8 (weights: auto too)", o->weights,
                         o->kv_type);
    }
    m.weights = as_stored ? -1 : (int)weights;
    m.layout_file = o->layout;
    m.n_threads = eo.n_threads = o->n_threads;
    eo.kv_type = kv;
    eo.isa = o->isa;
    eo.n_ctx = o->n_ctx;
    eo.max_sequences = o->max_sequences;
    eo.prefill_chunk = o->prefill_chunk;
    eo.page_size = o->page_size;
    eo.n_pages = o->n_pages;
    status st = model_load(&t->model, path, &m, NULL, e);
    if (st == OK) st = engine_create(&t->engine, t->model, &eo, e);
    if (st != OK) return st;
    t->max_sequences = engine_max_sequences(t->engine);
    t->batch = calloc((size_t)t->max_sequences, sizeof *t->batch);
    if (t->batch == NULL) return error_set(e, ERR_MEMORY, "out of memory for %d sequences", t->max_sequences);
    engine_observe(t->engine, observe, t);
    return OK;
}

int tally_open(tally **out, const char *path, const tally_options *o, char *why) {
    error e = {0};
    *out = NULL;
    tally *t = calloc(1, sizeof *t);
    status st = t == NULL ? error_set(&e, ERR_MEMORY, "out of memory") : open_all(t, path, o, &e);
    if (st != OK) {
        tally_close(t);
        return failed(&e, why);
    }
    *out = t;
    return 0;
}

void tally_close(tally *t) {
    if (t == NULL) return;
    engine_free(t->engine);
    model_free(t->model);
    free(t->batch);
    free(t);
}

int tally_n_vocab(const tally *t) {
    return t->model->config.n_vocab;
}

int tally_n_ctx(const tally *t) {
    return engine_n_ctx(t->engine);
}

int tally_sequence_begin(tally *t, tally_sequence **out, char *why) {
    error e = {0};
    *out = calloc(1, sizeof **out);
    status st = *out == NULL ? error_set(&e, ERR_MEMORY, "out of memory for a sequence")
                             : kv_sequence_create(&(*out)->kv, engine_cache(t->engine), engine_n_ctx(t->engine), &e);
    if (st == OK) return 0;
    free(*out);
    *out = NULL;
    return failed(&e, why);
}

int tally_sequence_fork(tally *t, tally_sequence **out, const tally_sequence *from, char *why) {
    int rc = tally_sequence_begin(t, out, why);
    if (rc == 0) kv_sequence_fork((*out)->kv, from->kv, engine_cache(t->engine));
    return rc;
}

void tally_sequence_end(tally *t, tally_sequence *s) {
    if (s == NULL) return;
    kv_sequence_free(s->kv, engine_cache(t->engine));
    free(s);
}

int tally_sequence_n_tokens(const tally_sequence *s) {
    return s->kv->n_tokens;
}

int tally_prefill(tally *t, tally_sequence *s, const int *ids, int n, float *logits, char *why) {
    error e = {0};
    return engine_prefill(t->engine, s->kv, ids, n, 1, logits, &e) == OK ? 0 : failed(&e, why);
}

int tally_decode(tally *t, tally_sequence *const *seqs, const int *ids, int B, float *logits, char *why) {
    error e = {0};
    for (int b = 0; b < B && b < t->max_sequences; b++) t->batch[b] = seqs[b]->kv;
    return engine_decode(t->engine, t->batch, ids, B, logits, &e) == OK ? 0 : failed(&e, why);
}

int tally_n_terms(void) {
    return N_TERMS;
}

const char *tally_term_key(int term_number) {
    return term_number < 0 || term_number >= N_TERMS ? NULL : term_table[term_number].key;
}

uint64_t tally_counted(const tally *t, int term_number) {
    return tally_term_key(term_number) == NULL ? 0 : engine_last_report(t->engine)->counted.n[term_number];
}

uint64_t tally_predicted(const tally *t, int term_number) {
    return tally_term_key(term_number) == NULL ? 0 : t->predicted.n[term_number];
}

double tally_seconds(const tally *t) {
    return engine_last_report(t->engine)->seconds;
}
