/* llama2c_file.c - tokenizer.bin of llama2.c: a SentencePiece BPE vocabulary without its kinds of tokens.
 *
 *   bytes 0-3              the longest piece's length, int32
 *   a piece, to the end:   score, fp32; length, int32; its bytes
 *
 * Spaces are written as spaces. Ids 0, 1, 2 are <unk>, <s>, </s>, the last two between newlines. */
#include "tokenizer/files.h"
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *at;
    size_t left;
} bytes_left;

static bool take(bytes_left *b, void *out, size_t n) {
    if (b->left < n) return false;
    if (out != NULL) memcpy(out, b->at, n);
    b->at += n;
    b->left -= n;
    return true;
}

/* Little-endian, as this program's machines are. */
static bool take_piece(bytes_left *b, float *score, int32_t *length, const char **text) {
    if (!take(b, score, 4) || !take(b, length, 4)) return false;
    *text = b->at;
    return *length >= 0 && take(b, NULL, (size_t)*length);
}

/* Spaces become U+2581, as SentencePiece itself writes them. */
static bool mark_spaces(byte_buffer *out, const char *text, size_t n) {
    out->n = 0;
    for (size_t i = 0; i < n; i++)
        if (!(text[i] == ' ' ? buffer_append(out, "\xE2\x96\x81", 3) : buffer_append(out, text + i, 1))) return false;
    return buffer_append(out, "", 1);
}

static void trim_newlines(const char **text, int32_t *n) {
    for (; *n > 1 && **text == '\n'; ++*text) --*n;
    while (*n > 1 && (*text)[*n - 1] == '\n') --*n;
}

static status add_pieces(tokenizer *t, const byte_buffer *file, float **scores, size_t *n_scores, error *e) {
    bytes_left b = {file->data, file->n};
    byte_buffer piece = {0};
    int32_t longest, length = 0;
    size_t capacity = 0, id = 0;
    status s = OK;
    if (!take(&b, &longest, 4)) return error_set(e, ERR_FORMAT, "%zu bytes: too short for a llama2.c tokenizer", file->n);
    for (; s == OK && b.left > 0; id++) {
        float score;
        const char *text;
        if (!take_piece(&b, &score, &length, &text)) {
            s = error_set(e, ERR_FORMAT, "token %zu (%d bytes long) runs past the end of the file", id, (int)length);
            break;
        }
        if (id == 1 || id == 2) trim_newlines(&text, &length);
        piece_kind kind = id == 0 ? PIECE_UNKNOWN : id < 3 ? PIECE_SPECIAL : PIECE_NORMAL;
        if (!mark_spaces(&piece, text, (size_t)length) || !array_reserve(scores, &capacity, id, 1, sizeof **scores))
            s = error_set(e, ERR_MEMORY, "no memory for %zu tokens", id);
        if (s == OK) s = vocab_add(&t->vocab, (int64_t)id, piece.data, piece.n - 1, kind, e);
        if (s == OK) (*scores)[id] = score;
    }
    buffer_free(&piece);
    *n_scores = id;
    return s;
}

static status fill(tokenizer *t, const char *path, error *e) {
    byte_buffer file;
    float *scores = NULL;
    size_t n = 0;
    bool all_bytes;
    status s = file_bytes(path, &file, e);
    if (s != OK) return s;
    s = add_pieces(t, &file, &scores, &n, e);
    if (s == OK && n < 3) s = error_set(e, ERR_FORMAT, "%zu tokens: <unk>, <s> and </s> must be there", n);
    tokenizer_find_bytes(t, &all_bytes);
    t->byte_fallback = true;
    t->fuse_unknown = true;
    if (s == OK) s = tokenizer_set_ids(t, 1, 2, 0, -1, e);
    for (int id = 0; s == OK && id < 3; id++)
        s = tokenizer_add_added(t, (added_token){.id = id, .special = true}, NULL, 0, false, e);
    if (s == OK) s = tokenizer_set_scores(t, scores, e);
    if (s == OK) s = tokenizer_set_sentencepiece(t, &(sentencepiece_steps){.prefix = true, .escape = true}, e);
    if (s == OK && !ids_append(&t->prefix, 1)) s = error_set(e, ERR_MEMORY, "no memory for a tokenizer");
    free(scores);
    buffer_free(&file);
    return s;
}

status tokenizer_from_llama2c(tokenizer **out, const char *path, error *e) {
    *out = NULL;
    tokenizer *t = tokenizer_new(path, "SentencePiece BPE", MODEL_SCORED_BPE);
    if (t == NULL) return error_set(e, ERR_MEMORY, "no memory for a tokenizer");
    return tokenizer_finish(out, t, fill(t, path, e), e);
}
