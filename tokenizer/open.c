/* open.c - a tokenizer out of a file or a folder: which kind of file it is, and what belongs to it. */
#include "tokenizer/companions.h"
#include "tokenizer/files.h"
#include "tokenizer/json_steps.h"
#include "tokenizer/sentencepiece.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* The names of the two files of a byte-level BPE vocabulary. */
static const char *const pairs[][2] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};
#define N_PAIRS (sizeof pairs / sizeof *pairs)

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static status open_pair(tokenizer **out, const char *vocab_path, const char *merges_path, error *e) {
    const char *cut;
    status s = companions_cut(vocab_path, &cut, e);
    if (s != OK) return error_prefix(e, vocab_path);
    return tokenizer_from_vocab_merges(out, vocab_path, merges_path, cut, e);
}

/* The other of the two files lies beside. column: which of the two path is, by its content. */
static status open_half(tokenizer **out, const char *path, int column, error *e) {
    status s = error_set(e, ERR_FORMAT, "%s: %s of a byte-level BPE vocabulary; the other file is not beside it", path,
                         column == 0 ? "the tokens" : "the merges");
    bool found = false;
    for (size_t i = 0; i < N_PAIRS && !found; i++) {
        char *other = path_beside(path, pairs[i][1 - column]);
        found = other != NULL && strcmp(name_of(path), pairs[i][column]) == 0 && is_file(other);
        if (found) s = column == 0 ? open_pair(out, path, other, e) : open_pair(out, other, path, e);
        free(other);
    }
    return s;
}

/* {"model": {...}} is a tokenizer.json; pieces with ids are a vocab.json. */
static status open_json(tokenizer **out, const char *path, const byte_buffer *text, error *e) {
    json_t *root;
    status s = json_parse(text->data, text->n, 0, &root, e);
    if (s != OK) return error_prefix(e, path);
    bool whole = json_is_object(json_object_get(root, "model")) || json_object_size(root) == 0 ||
                 !json_is_integer(json_object_iter_value(json_object_iter(root)));
    s = whole ? tokenizer_from_json_object(out, root, path, e) : open_half(out, path, 0, e);
    json_decref(root);
    return s;
}

static bool begins(const byte_buffer *b, const char *with) {
    size_t n = strlen(with);
    return b->n >= n && memcmp(b->data, with, n) == 0;
}

static status open_content(tokenizer **out, const char *path, const byte_buffer *b, error *e) {
    size_t i = 0;
    while (i < b->n && strchr(" \t\r\n", b->data[i]) != NULL && b->data[i] != '\0') i++;
    if (b->n == 0) return error_set(e, ERR_FORMAT, "%s: is empty", path);
    if (i < b->n && b->data[i] == '{') return open_json(out, path, b, e);
    if (begins(b, "GGUF")) return error_set(e, ERR_FORMAT, "%s: a GGUF file: give it as the model", path);
    if (begins(b, "#version")) return open_half(out, path, 1, e);
    if (sentencepiece_looks_like(b->data, b->n)) return tokenizer_from_sentencepiece(out, path, e);
    return tokenizer_from_llama2c(out, path, e);
}

static status open_file(tokenizer **out, const char *path, error *e) {
    byte_buffer bytes;
    status s = file_bytes(path, &bytes, e);
    if (s != OK) return s;
    s = open_content(out, path, &bytes, e);
    buffer_free(&bytes);
    if (s != OK) return s;
    s = companions_apply(*out, path, e);
    if (s != OK) {
        tokenizer_free(*out);
        *out = NULL;
        return error_prefix(e, path);
    }
    return OK;
}

char *tokenizer_bin_in(const char *folder) {
    DIR *d = opendir(folder);
    struct dirent *entry;
    char *found = NULL;
    int n_found = 0;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        size_t n = strlen(entry->d_name);
        if (n < 7 || strncmp(entry->d_name, "tok", 3) != 0 || strcmp(entry->d_name + n - 4, ".bin") != 0) continue;
        if (n_found++ == 0) found = path_in(folder, entry->d_name);
    }
    if (d != NULL) closedir(d);
    if (n_found == 1) return found;
    free(found);
    return NULL;
}

char *tokenizer_file_in(const char *folder) {
    static const char *const names[] = {"tokenizer.json", "vocab.json", "encoder.json", "tokenizer.model", "tokenizer.bin"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = path_in(folder, names[i]);
        if (path != NULL && is_file(path)) return path;
        free(path);
    }
    return tokenizer_bin_in(folder);
}

status tokenizer_open(tokenizer **out, const char *path, error *e) {
    *out = NULL;
    if (!is_folder(path)) return open_file(out, path, e);
    char *file = tokenizer_file_in(path);
    if (file == NULL)
        return error_set(e, ERR_IO, "%s: no tokenizer.json, vocab.json, tokenizer.model or tokenizer.bin in this folder", path);
    status s = open_file(out, file, e);
    free(file);
    return s;
}
