/* session.h - what run, check, trace, batch and bench have in common: the options that choose a model and how it runs, and the model,
 * tokenizer and engine that they open. */
#ifndef TALLY_SESSION_H
#define TALLY_SESSION_H

#include "engine/engine.h"
#include "tokenizer/tokenizer.h"
#include "tools/options.h"
#include "weights/model.h"

typedef struct {
    const char *model, *tokenizer, *layout, *config;
    bool random;
    const char *preset, *shape;
    uint64_t seed;
    int weights;     /* index into "auto|f32|f16|int8" */
    int kv_type;     /* "f32|f16|int8" */
    int activations; /* "int8|f32" */
    int isa;         /* "auto|portable|avx2|avx512|neon" */
    int matmul;      /* "native|blas" */
    int mmap;        /* "auto|on|off" */
    int n_heads, n_threads, n_ctx, page_size, kv_pages, prefill_chunk;
    uint64_t kv_mem;
    int max_sequences; /* set by the command, not by an option */
    bool profile;      /* set by the command */
} session_options;

void session_options_init(session_options *o);

/* The rows of these options, for a command's table: writes at most SESSION_ROWS rows, returns how many. */
enum { SESSION_ROWS = 32 };
size_t session_option_rows(session_options *o, option *rows);

typedef struct {
    model *model;
    checkpoint *source;   /* NULL for a random model */
    tokenizer *tokenizer; /* NULL: the model runs on ids */
    error no_tokenizer;   /* why there is none, where the file's own cannot be used: what a command says that needs text */
    engine *engine;
    const char *name; /* the file, or "random" */
} session;

/* options_parse, and then the refusal of options that contradict each other or without which nothing can be opened. -1: go on. */
int session_options_parse(const session_options *o, const command *c, int argc, char **argv);

/* Opens all of it. On failure everything is closed, and the error names the file. */
status session_open(session *s, const session_options *o, error *e);
/* The model and its tokenizer only; s->engine stays NULL. */
status session_open_model(session *s, const session_options *o, error *e);
/* A new engine for the model that is open, in place of the one there is. */
status session_engine(session *s, const session_options *o, error *e);
/* What these options say of the engine. */
engine_options session_engine_options(const session_options *o);
void session_close(session *s);

/* Does generation end at this id? By the model's configuration or the tokenizer's. */
bool session_is_end(const session *s, int id);
/* Ids below this may be sampled: a padded vocabulary has more rows than tokens. */
int session_n_tokens(const session *s);

/* "1,5,6" or "1 5 6" to ids; the error says what is wrong with the text. The caller frees *ids. */
status ids_parse(const char *text, int **ids, size_t *n, error *e);
/* The prompt of a command: --ids, else text through the tokenizer. The caller frees *ids. An empty prompt is BOS, or an error. */
status session_prompt(const session *s, const char *ids_text, const char *text, size_t n_bytes, unsigned flags, int **ids,
                      size_t *n, error *e);
/* A whole file, NUL-terminated besides; "-" is standard input. The caller frees it. */
status file_read(const char *path, char **text, size_t *n_bytes, error *e);

#endif
