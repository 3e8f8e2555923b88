/* sentencepiece_file.c - a SentencePiece .model: a protobuf message (sentencepiece_model.proto).
 *
 *   field 1 (repeated)   piece: 1 text, 2 score (fp32), 3 type
 *   field 2              trainer_spec: 3 model_type (1 unigram, 2 BPE, 3 word, 4 char), 24 white space as suffix,
 *                        35 byte_fallback, 40-43 ids of unk, bos, eos, pad
 *   field 3              normalizer_spec: 2 map of characters, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5 escape
 *   field 5              denormalizer_spec
 *
 * A field begins with its number and kind, number << 3 | kind: 0 a varint, 1 eight bytes, 2 bytes with their length in front,
 * 5 four bytes. */
#include "tokenizer/files.h"
#include "tokenizer/internal.h"
#include "tokenizer/sentencepiece.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const unsigned char *at, *end;
} message;

typedef struct {
    uint64_t number, value; /* value: of a varint, or four or eight bytes */
    message bytes;          /* of a field with a length */
    int kind;
} field;

static bool take_varint(message *m, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        unsigned char byte = *m->at++;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool take_fixed(message *m, size_t n, uint64_t *out) {
    if ((size_t)(m->end - m->at) < n) return false;
    *out = 0;
    memcpy(out, m->at, n);
    m->at += n;
    return true;
}

/* The next field; false: the message is malformed. at < end. */
static bool take_field(message *m, field *f) {
    uint64_t key, length;
    if (!take_varint(m, &key)) return false;
    *f = (field){.number = key >> 3, .kind = (int)(key & 7)};
    switch (f->kind) {
    case 0:
        return take_varint(m, &f->value);
    case 1:
        return take_fixed(m, 8, &f->value);
    case 5:
        return take_fixed(m, 4, &f->value);
    case 2:
        if (!take_varint(m, &length) || length > (uint64_t)(m->end - m->at)) return false;
        f->bytes = (message){m->at, m->at + length};
        m->at += length;
        return true;
    default:
        return false;
    }
}

bool sentencepiece_looks_like(const char *bytes, size_t n) {
    message m = {(const unsigned char *)bytes, (const unsigned char *)bytes + n};
    size_t n_pieces = 0;
    while (m.at < m.end) {
        field f;
        if (!take_field(&m, &f) || f.number == 0) return false;
        if (f.number == 1 && f.kind == 2) n_pieces++;
    }
    return n_pieces > 0;
}

typedef struct {
    int model_type;
    int unk, bos, eos, pad;
    bool byte_fallback, suffix, denormalizes;
    sentencepiece_steps steps;
    float *scores;
    size_t n_scores, score_capacity;
} model_file;

static status cut(error *e) {
    return error_set(e, ERR_FORMAT, "the SentencePiece model is cut or malformed");
}

static status read_piece(tokenizer *t, model_file *f, message m, error *e) {
    static const piece_kind kinds[] = {PIECE_NORMAL, PIECE_NORMAL, PIECE_UNKNOWN, PIECE_SPECIAL,
                                       PIECE_USER,   PIECE_UNUSED, PIECE_BYTE};
    message text = {NULL, NULL};
    float score = 0;
    uint64_t type = 1;
    while (m.at < m.end) {
        field in;
        if (!take_field(&m, &in)) return cut(e);
        if (in.number == 1 && in.kind == 2) text = in.bytes;
        if (in.number == 2 && in.kind == 5) memcpy(&score, &in.value, 4);
        if (in.number == 3 && in.kind == 0) type = in.value;
    }
    size_t id = f->n_scores;
    if (type < 1 || type > 6) return error_set(e, ERR_FORMAT, "token %zu is of type %llu", id, (unsigned long long)type);
    if (!array_reserve(&f->scores, &f->score_capacity, id, 1, sizeof *f->scores))
        return error_set(e, ERR_MEMORY, "no memory for %zu tokens", id);
    f->scores[f->n_scores++] = score;
    return vocab_add(&t->vocab, (int64_t)id, text.at != NULL ? (const char *)text.at : "", (size_t)(text.end - text.at),
                     kinds[type], e);
}

static status read_trainer(model_file *f, message m, error *e) {
    while (m.at < m.end) {
        field in;
        if (!take_field(&m, &in)) return cut(e);
        if (in.kind != 0) continue;
        int id = (int32_t)(uint32_t)in.value; /* negative ids are written as 64-bit two's complement */
        switch (in.number) {
        case 3:
            f->model_type = id;
            break;
        case 24:
            f->suffix = in.value != 0;
            break;
        case 35:
            f->byte_fallback = in.value != 0;
            break;
        case 40:
            f->unk = id;
            break;
        case 41:
            f->bos = id;
            break;
        case 42:
            f->eos = id;
            break;
        case 43:
            f->pad = id;
            break;
        default:
            break;
        }
    }
    return OK;
}

static status read_normalizer(model_file *f, message m, error *e) {
    while (m.at < m.end) {
        field in;
        if (!take_field(&m, &in)) return cut(e);
        if (in.number == 2 && in.kind == 2) {
            f->steps.map = (const char *)in.bytes.at;
            f->steps.n_map = (size_t)(in.bytes.end - in.bytes.at);
        }
        if (in.number == 3 && in.kind == 0) f->steps.prefix = in.value != 0;
        if (in.number == 4 && in.kind == 0) f->steps.squeeze = in.value != 0;
        if (in.number == 5 && in.kind == 0) f->steps.escape = in.value != 0;
    }
    return OK;
}

static status read_denormalizer(model_file *f, message m, error *e) {
    while (m.at < m.end) {
        field in;
        if (!take_field(&m, &in)) return cut(e);
        if (in.number == 2 && in.kind == 2 && in.bytes.end > in.bytes.at) f->denormalizes = true;
    }
    return OK;
}

static status read_model(tokenizer *t, model_file *f, message m, error *e) {
    status s = OK;
    while (s == OK && m.at < m.end) {
        field in;
        if (!take_field(&m, &in)) return cut(e);
        if (in.kind != 2) continue;
        if (in.number == 1) s = read_piece(t, f, in.bytes, e);
        if (in.number == 2) s = read_trainer(f, in.bytes, e);
        if (in.number == 3) s = read_normalizer(f, in.bytes, e);
        if (in.number == 5) s = read_denormalizer(f, in.bytes, e);
    }
    if (s == OK && f->n_scores == 0) return error_set(e, ERR_FORMAT, "has no tokens: is it a SentencePiece model?");
    return s;
}

static status set_kind(tokenizer *t, const model_file *f, error *e) {
    static const char *const names[] = {"?", "unigram", "BPE", "word", "char"};
    if (f->model_type != 1 && f->model_type != 2)
        return error_set(e, ERR_UNSUPPORTED, "a SentencePiece model of type %s is not supported: Tally has unigram and BPE",
                         names[f->model_type >= 0 && f->model_type < 5 ? f->model_type : 0]);
    t->model = f->model_type == 1 ? MODEL_UNIGRAM : MODEL_SCORED_BPE;
    t->kind_name = f->model_type == 1 ? "unigram" : "SentencePiece BPE";
    if (f->suffix) return error_set(e, ERR_UNSUPPORTED, "treat_whitespace_as_suffix is not supported");
    if (f->denormalizes) return error_set(e, ERR_UNSUPPORTED, "a denormalizer with a map of characters is not supported");
    for (size_t i = 0; t->model == MODEL_SCORED_BPE && i < t->vocab.n_ids; i++)
        if (t->vocab.kind[i] == PIECE_UNUSED)
            return error_set(e, ERR_UNSUPPORTED, "a BPE model with unused pieces (token %zu) is not supported", i);
    return OK;
}

/* Log probabilities; a user-defined piece wins over whatever it could be cut into. */
static status set_unigram(tokenizer *t, const model_file *f, error *e) {
    double *scores = malloc((t->vocab.n_ids + 1) * sizeof *scores);
    float best = 0;
    bool any = false;
    if (scores == NULL) return error_set(e, ERR_MEMORY, "no memory for %zu scores", t->vocab.n_ids);
    for (size_t i = 0; i < t->vocab.n_ids; i++) {
        if (t->vocab.kind[i] != PIECE_NORMAL) continue;
        if (!any || f->scores[i] > best) best = f->scores[i];
        any = true;
    }
    for (size_t i = 0; i < t->vocab.n_ids; i++) {
        bool user = t->vocab.kind[i] == PIECE_USER;
        scores[i] = user ? (double)((float)t->vocab.length[i] * best) - 0.1 : (double)f->scores[i];
    }
    return tokenizer_set_unigram(t, scores, true, e);
}

static status set_special(tokenizer *t, const model_file *f, error *e) {
    int n = (int)t->vocab.n_ids, unk = f->unk;
    if (unk < 0 || unk >= n || t->vocab.kind[unk] != PIECE_UNKNOWN) { /* the piece itself says which it is */
        unk = -1;
        for (int i = 0; i < n; i++)
            if (t->vocab.kind[i] == PIECE_UNKNOWN) unk = i;
    }
    status s = tokenizer_set_ids(t, f->bos < n ? f->bos : -1, f->eos < n ? f->eos : -1, unk, f->pad < n ? f->pad : -1, e);
    for (int id = 0; s == OK && id < n; id++) {
        piece_kind kind = t->vocab.kind[id];
        if (kind == PIECE_SPECIAL || kind == PIECE_UNKNOWN)
            s = tokenizer_add_added(t, (added_token){.id = id, .special = true}, NULL, 0, false, e);
    }
    if (s == OK) s = tokenizer_guess_ends(t, e);
    if (s == OK && t->bos >= 0 && !ids_append(&t->prefix, t->bos)) s = error_set(e, ERR_MEMORY, "no memory for a tokenizer");
    return s;
}

static status fill(tokenizer *t, const char *path, error *e) {
    model_file f = {
        .model_type = 1, .unk = 0, .bos = 1, .eos = 2, .pad = -1, .steps = {.prefix = true, .squeeze = true, .escape = true}};
    byte_buffer file;
    bool all_bytes;
    status s = file_bytes(path, &file, e);
    if (s != OK) return s;
    message m = {(const unsigned char *)file.data, (const unsigned char *)file.data + file.n};
    s = read_model(t, &f, m, e);
    if (s == OK) s = set_kind(t, &f, e);
    if (s == OK) tokenizer_find_bytes(t, &all_bytes);
    t->byte_fallback = f.byte_fallback;
    t->fuse_unknown = true;
    if (s == OK) s = set_special(t, &f, e);
    if (s == OK) s = tokenizer_set_sentencepiece(t, &f.steps, e);
    if (s == OK) s = t->model == MODEL_UNIGRAM ? set_unigram(t, &f, e) : tokenizer_set_scores(t, f.scores, e);
    free(f.scores);
    buffer_free(&file);
    return s;
}

status tokenizer_from_sentencepiece(tokenizer **out, const char *path, error *e) {
    *out = NULL;
    tokenizer *t = tokenizer_new(path, "SentencePiece", MODEL_SCORED_BPE);
    if (t == NULL) return error_set(e, ERR_MEMORY, "no memory for a tokenizer");
    return tokenizer_finish(out, t, fill(t, path, e), e);
}
