/* chars.c - vocabularies of characters, of words, and of bytes: no merging, every span of text is one piece. */
#include "tokenizer/internal.h"

#include <string.h>

#include "tokenizer/utf8.h"

static bool is_reserved(const char_vocab *v, int id) {
    return id == v->bos || id == v->eos || id == v->pad || id == v->unk;
}

/* How many pieces are longer than a character, and does one of them hold white space? */
static void look_at_pieces(const tokenizer *t, size_t *n_long, bool *has_space) {
    *n_long = 0;
    *has_space = false;
    for (size_t id = 0; id < t->vocab.n_ids; id++) {
        size_t n;
        const char *piece = vocab_piece(&t->vocab, (int)id, &n);
        if (t->vocab.kind[id] != PIECE_NORMAL || n == 0) continue;
        if (utf8_step(piece, n) != n) ++*n_long;
        if (memchr(piece, ' ', n) != NULL) *has_space = true;
    }
}

static status add_pieces(tokenizer *t, const char_vocab *v, error *e) {
    for (int id = 0; id < v->n_pieces; id++) {
        const char *piece = v->pieces[id];
        if (piece == NULL) continue;
        size_t n = v->lengths != NULL ? v->lengths[id] : strlen(piece);
        piece_kind kind = id == v->unk ? PIECE_UNKNOWN : is_reserved(v, id) ? PIECE_SPECIAL : PIECE_NORMAL;
        status s = vocab_add(&t->vocab, id, piece, n, kind, e);
        if (s != OK) return s;
    }
    return OK;
}

static status set_special(tokenizer *t, const char_vocab *v, error *e) {
    status s = tokenizer_set_ids(t, v->bos, v->eos, v->unk, v->pad, e);
    bool room = true;
    if (s == OK && v->add_bos && v->bos >= 0) room = ids_append(&t->prefix, v->bos);
    if (s == OK && v->add_eos && v->eos >= 0) room = room && ids_append(&t->suffix, v->eos);
    for (size_t id = 0; s == OK && id < t->vocab.n_ids; id++) {
        piece_kind kind = t->vocab.kind[id];
        if (kind == PIECE_SPECIAL || kind == PIECE_UNKNOWN)
            s = tokenizer_add_added(t, (added_token){.id = (int)id, .special = true}, NULL, 0, false, e);
    }
    return room ? s : error_set(e, ERR_MEMORY, "no memory for the special tokens");
}

static status fill(tokenizer *t, const char_vocab *v, error *e) {
    status s = add_pieces(t, v, e);
    if (s == OK) s = set_special(t, v, e);
    if (s != OK) return s;
    size_t n_long;
    bool has_space;
    look_at_pieces(t, &n_long, &has_space);
    if (n_long > 0) t->kind_name = "words";
    t->join_with_space = n_long > 0 && !has_space;
    step *cut;
    s = steps_add(&t->cutter, n_long > 0 ? STEP_WORDS : STEP_CHARS, NULL, 0, NULL, 0, NULL, 0, &cut, e);
    if (s == OK) cut->drop_space = t->join_with_space;
    return s;
}

status tokenizer_from_chars(tokenizer **out, const char_vocab *v, error *e) {
    *out = NULL;
    tokenizer *t = tokenizer_new(v->source, "characters", MODEL_WORDS);
    if (t == NULL) return error_set(e, ERR_MEMORY, "no memory for a tokenizer");
    return tokenizer_finish(out, t, fill(t, v, e), e);
}

status tokenizer_bytes(tokenizer **out, error *e) {
    *out = NULL;
    tokenizer *t = tokenizer_new("bytes", "bytes", MODEL_BYTES);
    if (t == NULL) return error_set(e, ERR_MEMORY, "no memory for a tokenizer");
    status s = OK;
    for (int i = 0; s == OK && i < 256; i++) {
        char byte = (char)i;
        s = vocab_add(&t->vocab, i, &byte, 1, PIECE_NORMAL, e);
    }
    return tokenizer_finish(out, t, s, e);
}
