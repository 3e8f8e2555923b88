#include "tools/session.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/model_tokenizer.h"
#include "tools/presets.h"

void session_options_init(session_options *o) {
    *o = (session_options){.kv_type = 1, .page_size = 16, .prefill_chunk = 512, .max_sequences = 1, .seed = 0};
}

size_t session_option_rows(session_options *o, option *rows) {
    const option all[] = {
        {"model", 'm', OPTION_TEXT, &o->model, "MODEL", "a checkpoint file or folder", 0, 0},
        {"tokenizer", 0, OPTION_TEXT, &o->tokenizer, "FILE", "the tokenizer, where it is not beside the model", 0, 0},
        {"weights", 0, OPTION_CHOICE, &o->weights, "auto|f32|f16|int8", "how weights are stored (auto: as the file has them)",
         0, 0},
        {"kv-type", 0, OPTION_CHOICE, &o->kv_type, "f32|f16|int8", "how K and V are stored (f16)", 0, 0},
        {"threads", 't', OPTION_INT, &o->n_threads, "N", "threads (found by trial, at most all processors)", 1, 256},
        {"ctx-size", 'c', OPTION_INT, &o->n_ctx, "N", "most tokens of a sequence (the model's, at most 4096)", 1, INT_MAX},
        {"page-size", 0, OPTION_INT, &o->page_size, "N", "tokens a page of the KV cache (16)", 1, 65536},
        {"kv-mem", 0, OPTION_SIZE, &o->kv_mem, "SIZE", "size of the KV cache's pool, as 64MiB", 1, 1e18},
        {"kv-pages", 0, OPTION_INT, &o->kv_pages, "N", "the same in pages", 1, 1 << 30},
        {"prefill-chunk", 0, OPTION_INT, &o->prefill_chunk, "N", "most rows of one step (512)", 1, 65536},
        {"isa", 0, OPTION_CHOICE, &o->isa, "auto|portable|avx2|avx512|neon", "instruction set (TALLY_ISA, else auto)", 0, 0},
        {"matmul", 0, OPTION_CHOICE, &o->matmul, "native|blas", "blas: steps of 8 rows and more through OpenBLAS", 0, 0},
        {"activations", 0, OPTION_CHOICE, &o->activations, "int8|f32", "what int8 weights are multiplied with (int8)", 0, 0},
        {"mmap", 0, OPTION_CHOICE, &o->mmap, "auto|on|off", "use a mapped file's weights where they lie", 0, 0},
        {"heads", 0, OPTION_INT, &o->n_heads, "N", "query heads, where the file does not say", 1, 65536},
        {"config", 0, OPTION_TEXT, &o->config, "FILE", "a config.json, where the file does not say", 0, 0},
        {"layout", 0, OPTION_TEXT, &o->layout, "FILE", "how a model of your own is laid out (docs/layouts.md)", 0, 0},
        {"random", 0, OPTION_FLAG, &o->random, NULL, "a model of random weights, with --shape or --preset", 0, 0},
        {"shape", 0, OPTION_TEXT, &o->shape, "FILE.json", "the shape of a random model", 0, 0},
        {"preset", 0, OPTION_TEXT, &o->preset, "NAME", "the same by name (tally cost --presets)", 0, 0},
        {"seed", 's', OPTION_COUNT, &o->seed, "N", "seed of sampling and of random weights (0)", 0, 9e15},
    };
    memcpy(rows, all, sizeof all);
    return sizeof all / sizeof *all;
}

int session_options_parse(const session_options *o, const command *c, int argc, char **argv) {
    int rc = options_parse(c, argc, argv, NULL);
    if (rc >= 0) return rc;
    bool shaped = o->preset != NULL || o->shape != NULL;
    if (o->random && o->model != NULL) return tool_usage("either -m MODEL or --random, not both");
    if (o->random && !shaped) return tool_usage("--random needs a shape: --shape FILE.json or --preset NAME");
    if (o->preset != NULL && o->shape != NULL) return tool_usage("either --preset or --shape, not both");
    if (!o->random && shaped) return tool_usage("--shape and --preset make a model of random weights: say --random too");
    if (!o->random && o->model == NULL) return tool_usage("a model is needed: -m MODEL (or --random --shape FILE.json)");
    if (o->kv_mem > 0 && o->kv_pages > 0) return tool_usage("either --kv-mem or --kv-pages, not both");
    return -1;
}

/* Progress of loading on a terminal, once it has taken long enough to wonder. */
static void show_progress(void *user, size_t done, size_t total) {
    (void)user;
    if (!isatty(STDERR_FILENO) || total < 64u << 20) return;
    fprintf(stderr, "\rloading %3d%%%s", (int)(100.0 * (double)done / (double)total), done == total ? "\r            \r" : "");
    fflush(stderr);
}

static model_options model_options_of(const session_options *o) {
    static const int types[] = {-1, DTYPE_F32, DTYPE_F16, DTYPE_Q8_0}, maps[] = {-1, 1, 0};
    model_options m;
    model_options_init(&m);
    m.weights = types[o->weights];
    m.mmap = maps[o->mmap];
    m.layout_file = o->layout;
    m.config_file = o->config;
    m.n_heads = o->n_heads;
    m.n_threads = o->n_threads;
    m.progress = show_progress;
    return m;
}

static status random_open(session *s, const session_options *o, error *e) {
    model_config c;
    model_options m = model_options_of(o);
    status st = o->preset != NULL ? preset_load(&c, o->preset, e) : shape_load(&c, o->shape, e);
    s->name = "random";
    return st == OK ? model_random(&s->model, &c, o->seed, &m, e) : st;
}

static status file_open(session *s, const session_options *o, error *e) {
    model_options m = model_options_of(o);
    s->name = o->model;
    status st = model_load(&s->model, o->model, &m, &s->source, e);
    if (st != OK) return st;
    st = model_tokenizer(&s->tokenizer, s->source, s->model->vocabulary, o->tokenizer, e);
    if (st == OK || o->tokenizer != NULL) return st;
    s->no_tokenizer = *e; /* the weights are there, and run on ids: said when text is asked for */
    return OK;
}

status session_open_model(session *s, const session_options *o, error *e) {
    *s = (session){0};
    status st = o->random ? random_open(s, o, e) : file_open(s, o, e);
    if (st == OK && s->tokenizer != NULL && tokenizer_n_vocab(s->tokenizer) > s->model->config.n_vocab && !o->random) {
        st =
            error_set(e, ERR_MISMATCH, "%s: the tokenizer has %d tokens and the model %d (give the right one with --tokenizer)",
                      s->name, tokenizer_n_vocab(s->tokenizer), s->model->config.n_vocab);
    }
    if (st != OK) session_close(s);
    return st;
}

engine_options session_engine_options(const session_options *o) {
    static const dtype kv_types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    static const char *const isas[] = {"auto", "portable", "avx2", "avx512", "neon"};
    engine_options e;
    engine_options_init(&e);
    e.n_threads = o->n_threads;
    e.n_ctx = o->n_ctx;
    e.max_sequences = o->max_sequences;
    e.prefill_chunk = o->prefill_chunk;
    e.page_size = o->page_size;
    e.n_pages = o->kv_pages;
    e.kv_bytes = (size_t)o->kv_mem;
    e.kv_type = kv_types[o->kv_type];
    e.int8_activations = o->activations == 0;
    e.blas = o->matmul == 1;
    e.profile = o->profile;
    const char *asked = getenv("TALLY_ISA");
    e.isa = o->isa == 0 && asked != NULL && *asked != '\0' ? asked : isas[o->isa];
    return e;
}

status session_engine(session *s, const session_options *o, error *e) {
    engine_options eo = session_engine_options(o);
    engine_free(s->engine);
    status st = engine_create(&s->engine, s->model, &eo, e);
    return st == OK ? OK : error_prefix(e, s->name);
}

status session_open(session *s, const session_options *o, error *e) {
    status st = session_open_model(s, o, e);
    if (st == OK) st = session_engine(s, o, e);
    if (st != OK) session_close(s);
    return st;
}

void session_close(session *s) {
    engine_free(s->engine);
    tokenizer_free(s->tokenizer);
    model_free(s->model);
    checkpoint_close(s->source);
    *s = (session){0};
}

bool session_is_end(const session *s, int id) {
    for (int i = 0; i < s->model->n_eos; i++) {
        if (s->model->eos_ids[i] == id) return true;
    }
    return s->tokenizer != NULL && tokenizer_is_eos(s->tokenizer, id);
}

int session_n_tokens(const session *s) {
    int n = s->model->config.n_vocab;
    if (s->tokenizer == NULL) return n;
    if (tokenizer_n_vocab(s->tokenizer) < n) n = tokenizer_n_vocab(s->tokenizer);
    while (n > 1 && !tokenizer_has(s->tokenizer, n - 1)) n--; /* padding that has ids in the file */
    return n;
}

status ids_parse(const char *text, int **ids, size_t *n, error *e) {
    *ids = NULL;
    *n = 0;
    int *list = malloc((strlen(text) / 2 + 1) * sizeof *list); /* an id takes a digit and a separator */
    if (list == NULL) return error_set(e, ERR_MEMORY, "out of memory for --ids");
    size_t count = 0;
    for (const char *p = text; *p != '\0';) {
        char *end;
        errno = 0;
        long id = strtol(p, &end, 10);
        if (end == p || errno != 0 || id < 0 || id > INT_MAX) {
            free(list);
            return error_set(e, ERR_ARGUMENT, "--ids: '%s' is not a list of token ids (as 1,5,6)", text);
        }
        list[count++] = (int)id;
        p = end + strspn(end, " \t\n");
        bool comma = *p == ',';
        if (comma) p++;
        p += strspn(p, " \t\n");
        if ((comma && *p == '\0') || (!comma && p == end && *p != '\0')) {
            free(list);
            return error_set(e, ERR_ARGUMENT, "--ids: '%s' is not a list of token ids (as 1,5,6)", text);
        }
    }
    *ids = list;
    *n = count;
    return OK;
}

status session_prompt(const session *s, const char *ids_text, const char *text, size_t n_bytes, unsigned flags, int **ids,
                      size_t *n, error *e) {
    *ids = NULL;
    *n = 0;
    status st;
    if (ids_text != NULL) {
        st = ids_parse(ids_text, ids, n, e);
    } else if (s->no_tokenizer.code != OK) {
        return error_set(e, s->no_tokenizer.code, "%s (or give token ids with --ids)", s->no_tokenizer.message);
    } else if (s->tokenizer == NULL) {
        return error_set(e, ERR_ARGUMENT,
                         "%s: there is no tokenizer with the model (give token ids with --ids, or --tokenizer FILE)", s->name);
    } else {
        st = tokenizer_encode(s->tokenizer, text, n_bytes, flags, ids, n, e);
    }
    if (st == OK && *n == 0) {
        free(*ids);
        *ids = NULL;
        return error_set(e, ERR_ARGUMENT,
                         "%s: the prompt is empty, and the model has no token that begins a text (give a prompt)", s->name);
    }
    return st;
}

status file_read(const char *path, char **text, size_t *n_bytes, error *e) {
    *text = NULL;
    *n_bytes = 0;
    bool standard = strcmp(path, "-") == 0;
    FILE *f = standard ? stdin : fopen(path, "rb");
    if (f == NULL) return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    /* More text than any context: a device that never ends is not read until memory does. */
    const size_t most = (size_t)1 << 30;
    size_t room = 1 << 16, n = 0, got;
    char *buffer = malloc(room);
    while (buffer != NULL && (got = fread(buffer + n, 1, room - n - 1, f)) > 0) {
        n += got;
        if (n < room - 1) continue;
        if (n >= most) {
            free(buffer);
            if (!standard) fclose(f);
            return error_set(e, ERR_LIMIT, "%s: more than %zu bytes of text", path, most);
        }
        char *larger = room > SIZE_MAX / 2 ? NULL : realloc(buffer, room *= 2);
        if (larger == NULL) free(buffer);
        buffer = larger;
    }
    int failed = ferror(f);
    if (!standard) fclose(f);
    if (buffer == NULL) return error_set(e, ERR_MEMORY, "%s: out of memory", path);
    if (failed) {
        free(buffer);
        return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    }
    buffer[n] = '\0';
    *text = buffer;
    *n_bytes = n;
    return OK;
}
