/* merges_file.c - vocab.json and merges.txt (GPT-2's own names: encoder.json and vocab.bpe): byte-level BPE in two files.
 *
 * The first is an object of pieces and ids. The second has one merge a line, best first, "left right"; its first line may be
 * "#version: 0.2". */
#include "tokenizer/companions.h"
#include "tokenizer/files.h"

#include <string.h>

static status add_pieces(tokenizer *t, json_t *list, error *e) {
    const char *piece;
    json_t *id;
    json_object_foreach(list, piece, id) {
        if (!json_is_integer(id)) return error_set(e, ERR_FORMAT, "the token \"%.100s\" has no id", piece);
        status s = vocab_add(&t->vocab, json_integer_value(id), piece, strlen(piece), PIECE_NORMAL, e);
        if (s != OK) return s;
    }
    return t->vocab.n_pieces > 0 ? OK : error_set(e, ERR_FORMAT, "has no tokens");
}

static status add_merge_line(tokenizer *t, const char *line, size_t n, uint32_t rank, error *e) {
    const char *space = memchr(line, ' ', n);
    size_t n_left = space != NULL ? (size_t)(space - line) : 0, n_right = space != NULL ? n - n_left - 1 : 0;
    if (n_left == 0 || n_right == 0 || memchr(space + 1, ' ', n_right) != NULL)
        return error_set(e, ERR_FORMAT, "merge %u (\"%.*s\") is not a pair of tokens", rank, (int)(n < 100 ? n : 100), line);
    return tokenizer_add_merge(t, line, n_left, space + 1, n_right, rank, e);
}

static status add_merges(tokenizer *t, const byte_buffer *file, error *e) {
    uint32_t rank = 0;
    status s = OK;
    for (size_t i = 0; s == OK && i < file->n;) {
        const char *line = file->data + i, *end = memchr(line, '\n', file->n - i);
        size_t n = end != NULL ? (size_t)(end - line) : file->n - i;
        bool version = i == 0 && n >= 8 && memcmp(line, "#version", 8) == 0;
        i += n + 1;
        if (n > 0 && line[n - 1] == '\r') n--;
        if (n > 0 && !version) s = add_merge_line(t, line, n, rank++, e);
    }
    return s;
}

static status read_vocab(tokenizer *t, const char *path, error *e) {
    byte_buffer text;
    json_t *list = NULL;
    status s = file_bytes(path, &text, e);
    if (s != OK) return s;
    s = json_parse(text.data, text.n, 0, &list, e);
    if (s == OK) s = add_pieces(t, list, e);
    json_decref(list);
    buffer_free(&text);
    return s == OK ? OK : error_prefix(e, path);
}

static status read_merges(tokenizer *t, const char *path, error *e) {
    byte_buffer text;
    status s = file_bytes(path, &text, e);
    if (s != OK) return s;
    s = add_merges(t, &text, e);
    buffer_free(&text);
    return s == OK ? OK : error_prefix(e, path);
}

/* GPT-2's own end of text is in the vocabulary like any word; it is special all the same. */
static status set_end_of_text(tokenizer *t, error *e) {
    static const char name[] = "<|endoftext|>";
    int id = vocab_find(&t->vocab, name, sizeof name - 1);
    if (id < 0) return OK;
    status s = t->vocab.kind[id] == PIECE_NORMAL
                   ? tokenizer_add_added(t, (added_token){.id = id, .special = true}, NULL, 0, false, e)
                   : OK;
    return s == OK ? tokenizer_set_ids(t, id, id, -1, -1, e) : s;
}

static status fill(tokenizer *t, const char *vocab_path, const char *merges_path, const char *cut, error *e) {
    bool add_bos;
    status s = read_vocab(t, vocab_path, e);
    if (s == OK) s = read_merges(t, merges_path, e);
    if (s == OK) s = companions_add_tokens(t, vocab_path, e);
    if (s == OK) s = tokenizer_set_preset(t, cut != NULL ? cut : "gpt-2", &add_bos, e);
    if (s == OK) s = set_end_of_text(t, e);
    return s == OK ? tokenizer_guess_ends(t, e) : s;
}

status tokenizer_from_vocab_merges(tokenizer **out, const char *vocab_path, const char *merges_path, const char *cut,
                                   error *e) {
    *out = NULL;
    tokenizer *t = tokenizer_new(vocab_path, "byte-level BPE", MODEL_BPE);
    if (t == NULL) return error_set(e, ERR_MEMORY, "no memory for a tokenizer");
    return tokenizer_finish(out, t, fill(t, vocab_path, merges_path, cut, e), e);
}
