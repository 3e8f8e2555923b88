/* assemble.c - what the readers of tokenizer files put tokenizers together with. */
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

static status no_memory(error *e) {
    return error_set(e, ERR_MEMORY, "no memory for a tokenizer");
}

status tokenizer_add_added(tokenizer *t, added_token token, const char *text, size_t n, bool after_normalizer, error *e) {
    if (text == NULL) text = vocab_piece(&t->vocab, token.id, &n);
    unsigned char *kind = &t->vocab.kind[token.id];
    if (*kind != PIECE_UNKNOWN) *kind = token.special ? PIECE_SPECIAL : PIECE_USER;
    if (n == 0) return OK;
    return added_add(after_normalizer ? &t->added_later : &t->added, token, text, n, e);
}

void tokenizer_find_bytes(tokenizer *t, bool *all) {
    *all = true;
    for (int i = 0; i < 256; i++) {
        static const char digits[] = "0123456789ABCDEF";
        char piece[6] = {'<', '0', 'x', digits[i >> 4], digits[i & 15], '>'};
        int id = vocab_find(&t->vocab, piece, sizeof piece);
        t->byte_id[i] = id;
        if (id >= 0) t->vocab.kind[id] = PIECE_BYTE;
        if (id < 0) *all = false;
    }
}

static bool id_fits(const tokenizer *t, int id) {
    return id == -1 || (id >= 0 && (size_t)id < t->vocab.n_ids && t->vocab.kind[id] != PIECE_NONE);
}

status tokenizer_set_ids(tokenizer *t, int bos, int eos, int unk, int pad, error *e) {
    const int ids[4] = {bos, eos, unk, pad};
    static const char *const names[4] = {"beginning", "end", "unknown", "padding"};
    for (int i = 0; i < 4; i++)
        if (!id_fits(t, ids[i]))
            return error_set(e, ERR_FORMAT, "the %s token's id %d is not in the vocabulary of %zu", names[i], ids[i],
                             t->vocab.n_ids);
    for (int i = 0; i < 3; i++)
        if (ids[i] >= 0 && !tokenizer_has(t, ids[i]))
            return error_set(e, ERR_FORMAT, "the %s token %d is marked as unused", names[i], ids[i]);
    t->bos = bos;
    t->unk = unk;
    t->pad = pad;
    if (eos < 0 || tokenizer_is_eos(t, eos)) return OK;
    return ids_append(&t->ends, eos) ? OK : no_memory(e);
}

status tokenizer_guess_ends(tokenizer *t, error *e) {
    static const char *const names[] = {"<|eot_id|>",      "<|im_end|>", "<|end|>",         "<end_of_turn>",
                                        "<|endoftext|>",   "</s>",       "<|end_of_text|>", "<|eom_id|>",
                                        "<|end_of_turn|>", "<eos>",      "<|return|>",      "<｜end▁of▁sentence｜>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int id = vocab_find(&t->vocab, names[i], strlen(names[i]));
        if (id < 0 || t->vocab.kind[id] != PIECE_SPECIAL || tokenizer_is_eos(t, id)) continue;
        if (!ids_append(&t->ends, id)) return no_memory(e);
    }
    return OK;
}

status decoder_add(tokenizer *t, decode_kind kind, const char *a, const char *b, error *e) {
    decode_step d = {.kind = kind, .n_a = strlen(a), .n_b = strlen(b)};
    if (d.n_a >= DECODE_MAX_TEXT || d.n_b >= DECODE_MAX_TEXT || t->n_decoder >= 16)
        return error_set(e, ERR_LIMIT, "a decoder with a text of more than %d bytes, or more than 16 decoders",
                         DECODE_MAX_TEXT - 1);
    size_t growth = 1; /* times: what the replacements together may make of a piece */
    for (size_t i = 0; i <= t->n_decoder; i++) {
        const decode_step *at = i < t->n_decoder ? &t->decoder[i] : &d;
        if (at->kind == DECODE_REPLACE && at->n_a > 0) growth *= at->n_b / at->n_a + 1;
        if (growth > DECODE_MAX_GROWTH)
            return error_set(e, ERR_LIMIT, "the decoder makes pieces more than %d times as long", DECODE_MAX_GROWTH);
    }
    memcpy(d.a, a, d.n_a);
    memcpy(d.b, b, d.n_b);
    if (!array_reserve(&t->decoder, &t->decoder_capacity, t->n_decoder, 1, sizeof *t->decoder)) return no_memory(e);
    t->decoder[t->n_decoder++] = d;
    return OK;
}

typedef struct {
    float score;
    uint32_t id;
} scored_id;

static int best_first(const void *a, const void *b) {
    const scored_id *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score;
}

status tokenizer_set_scores(tokenizer *t, const float *scores, error *e) {
    size_t n = t->vocab.n_ids;
    scored_id *order = malloc((n + 1) * sizeof *order);
    t->ranks = malloc((n + 1) * sizeof *t->ranks);
    if (order == NULL || t->ranks == NULL) {
        free(order);
        return no_memory(e);
    }
    status s = OK;
    for (size_t i = 0; i < n; i++) {
        order[i] = (scored_id){scores[i], (uint32_t)i};
        if (scores[i] != scores[i]) s = error_set(e, ERR_FORMAT, "the score of token %zu is not a number", i);
    }
    if (s == OK) {
        qsort(order, n, sizeof *order, best_first);
        uint32_t rank = 0; /* equal scores have the same rank */
        for (size_t i = 0; i < n; i++) {
            if (i > 0 && order[i].score < order[i - 1].score) rank++;
            t->ranks[order[i].id] = rank;
        }
    }
    free(order);
    for (size_t i = 0; s == OK && i < n; i++) {
        size_t length;
        const char *piece = vocab_piece(&t->vocab, (int)i, &length);
        if (t->vocab.kind[i] == PIECE_USER && !trie_add(&t->user_pieces, piece, length, (int)i)) s = no_memory(e);
    }
    return s;
}

status tokenizer_set_unigram(tokenizer *t, double *scores, bool single_precision, error *e) {
    t->scores = scores;
    t->unigram.scores = scores;
    t->unigram.single_precision = single_precision;
    double lowest = 0;
    bool any = false;
    for (size_t i = 0; i < t->vocab.n_ids; i++) {
        piece_kind kind = t->vocab.kind[i];
        size_t n;
        const char *piece = vocab_piece(&t->vocab, (int)i, &n);
        if (scores[i] != scores[i]) return error_set(e, ERR_FORMAT, "the score of token %zu is not a number", i);
        if (kind != PIECE_NORMAL && !(kind == PIECE_USER && single_precision)) continue;
        if (n > UNIGRAM_MAX_PIECE)
            return error_set(e, ERR_LIMIT, "token %zu has %zu bytes (at most %d)", i, n, UNIGRAM_MAX_PIECE);
        if (!any || scores[i] < lowest) lowest = scores[i];
        any = true;
        if (!trie_add(&t->unigram.pieces, piece, n, (int)i)) return no_memory(e);
    }
    t->unigram.unknown = lowest - 10;
    return OK;
}

status tokenizer_add_merge(tokenizer *t, const char *left, size_t n_left, const char *right, size_t n_right, uint32_t rank,
                           error *e) {
    char text[2048];
    size_t n_prefix = t->word_prefix != NULL ? strlen(t->word_prefix) : 0;
    int a = vocab_find(&t->vocab, left, n_left), b = vocab_find(&t->vocab, right, n_right);
    int shown = (int)(n_left < 60 ? n_left : 60), shown_right = (int)(n_right < 60 ? n_right : 60);
    if (a < 0 || b < 0)
        return error_set(e, ERR_FORMAT, "merge %u names the token \"%.*s\", which is not in the vocabulary", rank,
                         a < 0 ? shown : shown_right, a < 0 ? left : right);
    if (n_left + n_right > sizeof text)
        return error_set(e, ERR_LIMIT, "merge %u makes a token of %zu bytes (at most %zu)", rank, n_left + n_right,
                         sizeof text);
    if (n_prefix > 0 && n_right >= n_prefix && memcmp(right, t->word_prefix, n_prefix) == 0) {
        right += n_prefix;
        n_right -= n_prefix;
    }
    memcpy(text, left, n_left);
    memcpy(text + n_left, right, n_right);
    int joined = vocab_find(&t->vocab, text, n_left + n_right);
    if (joined < 0)
        return error_set(e, ERR_FORMAT, "merge %u makes the token \"%.*s%.*s\", which is not in the vocabulary", rank, shown,
                         left, shown_right, right);
    return merges_add(&t->merges, a, b, rank, joined, e);
}

status tokenizer_set_sentencepiece(tokenizer *t, const sentencepiece_steps *steps, error *e) {
    static const char space[] = "\xE2\x96\x81"; /* U+2581 */
    const char *mark = steps->escape ? space : " ";
    step_list *l = &t->normalizer;
    status s = OK;
    if (steps->n_map > 0) {
        s = charsmap_check(steps->map, steps->n_map, e);
        if (s == OK) s = steps_add(l, STEP_CHARSMAP, steps->map, steps->n_map, NULL, 0, NULL, 0, NULL, e);
    }
    if (s == OK && steps->squeeze) s = steps_add(l, STEP_SQUEEZE, mark, strlen(mark), NULL, 0, NULL, 0, NULL, e);
    if (s == OK && steps->escape) s = steps_add_replace(l, " ", space, e);
    if (s == OK && steps->prefix) s = steps_add(l, STEP_PREPEND, mark, strlen(mark), NULL, 0, NULL, 0, NULL, e);
    if (s == OK && steps->escape) s = decoder_add(t, DECODE_REPLACE, space, " ", e);
    if (s == OK) s = decoder_add(t, DECODE_BYTE_FALLBACK, "", "", e);
    t->n_strip = steps->prefix || steps->squeeze ? 1 : 0;
    t->strip_each = steps->squeeze;
    t->strip_text[0] = ' ';
    return s;
}
