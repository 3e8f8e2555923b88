#include "tools/model_tokenizer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "weights/model.h"

#define GGUF_MODEL "tokenizer.ggml.model"

/* ---- vocabularies of characters and words ---- */

/* Notes the special token that a piece is by its name, if it is one. */
static void note_special(char_vocab *v, const char *piece, int id) {
    static const char *const names[4][4] = {{"<bos>", "<s>", "<|bos|>", "<sos>"},
                                            {"<eos>", "</s>", "<|eos|>", "<|endoftext|>"},
                                            {"<pad>", "<|pad|>", "[PAD]", "<pad>"},
                                            {"<unk>", "<|unk|>", "[UNK]", "<unk>"}};
    int *const ids[4] = {&v->bos, &v->eos, &v->pad, &v->unk};
    for (int kind = 0; kind < 4; kind++)
        for (int i = 0; i < 4; i++)
            if (strcasecmp(piece, names[kind][i]) == 0) *ids[kind] = id;
}

static status from_pieces(tokenizer **out, const char **pieces, size_t n, bool add_bos, const char *source, error *e) {
    char_vocab v = {.pieces = pieces, .n_pieces = (int)n, .bos = -1, .eos = -1, .pad = -1, .unk = -1, .source = source};
    for (size_t i = 0; i < n; i++)
        if (pieces[i] != NULL) note_special(&v, pieces[i], (int)i);
    v.add_bos = add_bos && v.bos >= 0;
    return tokenizer_from_chars(out, &v, e);
}

static status from_layout(tokenizer **out, const json_t *vocabulary, error *e) {
    size_t n = json_array_size(vocabulary);
    const char **pieces = calloc(n + 1, sizeof *pieces);
    if (pieces == NULL) return error_set(e, ERR_MEMORY, "no memory for the vocabulary");
    for (size_t i = 0; i < n; i++) pieces[i] = json_string_value(json_array_get(vocabulary, i));
    status s = from_pieces(out, pieces, n, true, "the layout's vocabulary", e);
    free(pieces);
    return s;
}

/* One entry of stoi (piece: id) or itos (id: piece), by_id; false: it is neither, or the id is out of range or taken. */
static bool put_entry(const char **pieces, size_t n, const char *key, json_t *value, bool by_id) {
    char *end = NULL;
    long long id = by_id ? strtoll(key, &end, 10) : json_integer_value(value);
    const char *piece = by_id ? json_string_value(value) : key;
    bool fits = by_id ? end != key && *end == '\0' : json_is_integer(value);
    if (!fits || piece == NULL || id < 0 || (unsigned long long)id >= n || pieces[id] != NULL) return false;
    pieces[id] = piece;
    return true;
}

static status from_object(tokenizer **out, json_t *map, bool by_id, const char *source, error *e) {
    const char *key;
    json_t *value;
    size_t n = json_object_size(map) + 1024; /* ids may have gaps, but not large ones */
    const char **pieces = calloc(n, sizeof *pieces);
    if (pieces == NULL) return error_set(e, ERR_MEMORY, "no memory for the vocabulary");
    status s = OK;
    json_object_foreach(map, key, value) {
        if (s == OK && !put_entry(pieces, n, key, value, by_id))
            s = error_set(e, ERR_FORMAT, "%s: %s has the entry \"%.100s\", which is not a token and an id of its own", source,
                          by_id ? "itos" : "stoi", key);
    }
    while (n > 0 && pieces[n - 1] == NULL) n--;
    if (s == OK) s = from_pieces(out, pieces, n, false, source, e);
    free(pieces);
    return s;
}

/* stoi, or else itos, of a training program's own vocabulary. *out stays NULL where there is neither. */
static status from_meta(tokenizer **out, const json_t *meta, const char *source, error *e) {
    json_t *stoi = json_object_get(meta, "stoi"), *itos = json_object_get(meta, "itos");
    if (json_object_size(stoi) > 0) return from_object(out, stoi, false, source, e);
    return json_object_size(itos) > 0 ? from_object(out, itos, true, source, e) : OK;
}

/* ---- files beside the checkpoint ---- */

static bool is_file(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static char *in_folder(const checkpoint *c, const char *name) {
    size_t size = strlen(c->folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path == NULL) return NULL;
    snprintf(path, size, "%s/%s", c->folder, name);
    if (is_file(path)) return path;
    free(path);
    return NULL;
}

static status from_pickle(tokenizer **out, const char *path, error *e) {
    checkpoint *meta;
    status s = checkpoint_open(&meta, path, e);
    if (s != OK) return s;
    s = from_meta(out, meta->meta, path, e);
    checkpoint_close(meta);
    return s;
}

/* llama2.c: tokenizer.bin, or the only tok*.bin of the folder; its vocabulary has the model's size. */
static status beside_llama2c(tokenizer **out, const checkpoint *c, error *e) {
    char *path = in_folder(c, "tokenizer.bin");
    if (path == NULL) path = tokenizer_bin_in(c->folder);
    status s = path != NULL ? tokenizer_from_llama2c(out, path, e) : OK;
    json_int_t n = json_integer_value(json_object_get(c->meta, "vocab_size"));
    if (s == OK && *out != NULL && tokenizer_n_vocab(*out) != n) {
        s = error_set(e, ERR_MISMATCH, "%s: %d tokens, but %s has %lld (give the right one with --tokenizer)", path,
                      tokenizer_n_vocab(*out), c->path, (long long)n);
        tokenizer_free(*out);
        *out = NULL;
    }
    free(path);
    return s;
}

static status beside(tokenizer **out, const checkpoint *c, error *e) {
    if (c->folder == NULL) return OK;
    if (c->kind == CHECKPOINT_LLAMA2C) return beside_llama2c(out, c, e);
    char *path = in_folder(c, "meta.pkl");
    status s = path != NULL ? from_pickle(out, path, e) : OK;
    free(path);
    if (s != OK || *out != NULL) return s;
    path = tokenizer_file_in(c->folder);
    s = path != NULL ? tokenizer_open(out, path, e) : OK;
    free(path);
    return s;
}

status model_tokenizer(tokenizer **out, const checkpoint *c, const json_t *vocabulary, const char *path, error *e) {
    *out = NULL;
    if (path != NULL) return tokenizer_open(out, path, e);
    if (c == NULL) return vocabulary != NULL ? from_layout(out, vocabulary, e) : OK;
    const char *kind = json_string_value(json_object_get(c->meta, GGUF_MODEL));
    if (kind != NULL && strcmp(kind, "no_vocab") != 0 && strcmp(kind, "none") != 0)
        return tokenizer_from_gguf(out, c->meta, c->path, e);
    status s = from_meta(out, c->meta, c->path, e);
    if (s == OK && *out == NULL && vocabulary != NULL) s = from_layout(out, vocabulary, e);
    return s == OK && *out == NULL ? beside(out, c, e) : s;
}

/* ---- a model or a tokenizer ---- */

/* A model's; its weights are loaded only to learn which layout it has, and with that its vocabulary. */
static status of_model(tokenizer **out, checkpoint *c, error *e) {
    status s = model_tokenizer(out, c, NULL, NULL, e);
    if (s != OK || *out != NULL) return s;
    model *m;
    model_options o;
    model_options_init(&o);
    s = model_load(&m, c->path, &o, NULL, e);
    if (s != OK) return s;
    s = model_tokenizer(out, c, m->vocabulary, NULL, e);
    model_free(m);
    if (s == OK && *out == NULL) s = error_set(e, ERR_ARGUMENT, "%s: this model has no tokenizer: it runs on ids", c->path);
    return s;
}

/* Does the file begin like JSON text, or with the words of a merges.txt? */
static bool begins_like_text(const char *path) {
    char first[9] = {0};
    FILE *f = fopen(path, "rb");
    size_t n = f != NULL ? fread(first, 1, 8, f) : 0;
    if (f != NULL) fclose(f);
    return n > 0 && (strcmp(first, "#version") == 0 || first[strspn(first, " \t\r\n")] == '{');
}

/* Was it JSON, but nothing of a tokenizer? Weights may be written as JSON, too. */
static bool may_be_weights(status s, const error *e) {
    return s == ERR_FORMAT && strstr(e->message, "is it a tokenizer.json?") != NULL;
}

/* Anything but a folder and text: a model, or else a tokenizer in bytes. */
static status of_bytes(tokenizer **out, const char *path, error *e) {
    checkpoint *c;
    error of_checkpoint = {0};
    status s = checkpoint_open(&c, path, &of_checkpoint);
    if (s == OK) {
        s = of_model(out, c, e);
        checkpoint_close(c);
        return s;
    }
    if (is_file(path)) return tokenizer_open(out, path, e);
    *e = of_checkpoint;
    return s;
}

status any_tokenizer(tokenizer **out, const char *path, error *e) {
    char *file = is_file(path) ? NULL : tokenizer_file_in(path);
    bool text = file == NULL && begins_like_text(path);
    *out = NULL;
    if (file == NULL && !text) return of_bytes(out, path, e);
    free(file);
    status s = tokenizer_open(out, path, e);
    return text && may_be_weights(s, e) ? of_bytes(out, path, e) : s;
}
