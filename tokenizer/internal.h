/* internal.h - the parts of a tokenizer, for the files of this folder only. */
#ifndef TALLY_TOKENIZER_INTERNAL_H
#define TALLY_TOKENIZER_INTERNAL_H

#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/buffer.h"
#include "tokenizer/steps.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unigram.h"
#include "tokenizer/vocab.h"

typedef enum {
    MODEL_BYTES,      /* id = byte */
    MODEL_WORDS,      /* every span is a piece, or unknown */
    MODEL_BPE,        /* pairs of ids are joined by rank */
    MODEL_SCORED_BPE, /* neighbours are joined where that makes a piece, by its score */
    MODEL_UNIGRAM     /* the most probable pieces */
} model_kind;

/* From a token back to text. Each step rewrites one piece. */
typedef enum {
    DECODE_BYTE_CHARS,    /* the characters of byte-level BPE become bytes */
    DECODE_REPLACE,       /* every a becomes b */
    DECODE_BYTE_FALLBACK, /* "<0xE6>" becomes a byte */
    DECODE_STRIP,         /* up to n_left characters a at the front of the piece, n_right at its end */
    DECODE_SUFFIX         /* a at the end of a piece becomes a space before the next one */
} decode_kind;

#define DECODE_MAX_TEXT   64 /* bytes of a and b */
#define DECODE_MAX_GROWTH 256

typedef struct {
    decode_kind kind;
    char a[DECODE_MAX_TEXT], b[DECODE_MAX_TEXT];
    size_t n_a, n_b;
    int n_left, n_right;
} decode_step;

struct tokenizer {
    char *source;          /* the file's name, for messages */
    const char *kind_name; /* static text */
    model_kind model;
    vocab vocab;

    /* From text to spans. added: looked for in the text as it is; added_later: in the text after the normaliser. */
    added_list added, added_later;
    step_list normalizer, cutter;

    /* MODEL_BPE */
    merge_table merges;
    bool ignore_merges; /* a span that is a piece is that piece, whatever the merges say */
    char *word_prefix;  /* in front of a piece that does not begin a word ("##"), or NULL */
    char *word_suffix;  /* after a piece that ends a word ("</w>"), or NULL */
    /* MODEL_SCORED_BPE */
    uint32_t *ranks;  /* [n_ids] 0: the best score */
    trie user_pieces; /* pieces that are kept whole wherever they stand */
    /* MODEL_UNIGRAM */
    unigram unigram;
    double *scores; /* [n_ids], owned */
    /* what the vocabulary cannot write */
    bool byte_fallback; /* bytes instead, where all of them have a piece */
    bool fuse_unknown;  /* unknown characters in a row are one unknown token */
    int byte_id[256];   /* the piece "<0x..>" of a byte, or -1 */

    /* BPE: bit h is set where two characters with hash h stand next to each other in a piece. No other two are ever joined: the
     * text is cut between them first, which changes nothing but the time. NULL: not known. */
    uint64_t *neighbours;

    int bos, pad, unk;      /* -1: none */
    id_list ends;           /* where generation ends; the first is "the" eos */
    id_list prefix, suffix; /* what TOKENIZE_ADD_SPECIAL puts around a text */

    /* From ids to text. */
    decode_step *decoder; /* [n_decoder] */
    size_t n_decoder, decoder_capacity;
    bool join_with_space; /* a space between pieces */
    char strip_text[8];   /* this character is left out at the front of a text, up to n_strip times */
    int n_strip;
    bool strip_each; /* ... of every piece, until there is text */
    bool fused;      /* while a decoder is read: its later parts see the whole text */
};

/* A tokenizer with nothing in it but its name; NULL: no memory. */
tokenizer *tokenizer_new(const char *source, const char *kind_name, model_kind model);
/* What every constructor does at its end: gives the tokenizer out, or frees it and puts its name before the message. */
status tokenizer_finish(tokenizer **out, tokenizer *t, status s, error *e);

/* A special or added token that stands in the vocabulary already: its kind, and how it is found in text. The text that is
 * looked for is the piece's own unless given. */
status tokenizer_add_added(tokenizer *t, added_token token, const char *text, size_t n, bool after_normalizer, error *e);
/* Marks "<0x00>" .. "<0xFF>" as byte pieces (kind PIECE_BYTE) and notes their ids. all: is every one there? */
void tokenizer_find_bytes(tokenizer *t, bool *all);
/* ends += id, unless id is -1 or there already; ERR_FORMAT where it is not in the vocabulary. */
status tokenizer_set_ids(tokenizer *t, int bos, int eos, int unk, int pad, error *e);
/* BPE: what neighbours is, once all pieces are there. */
status tokenizer_find_neighbours(tokenizer *t, error *e);
/* The length of the longest text that may be joined by itself, from the front of text on. */
size_t model_joinable(const tokenizer *t, const char *text, size_t n);
/* More ends: special tokens by the names that chat models end their turns with. */
status tokenizer_guess_ends(tokenizer *t, error *e);

status decoder_add(tokenizer *t, decode_kind kind, const char *a, const char *b, error *e);
/* MODEL_SCORED_BPE: ranks from scores [n_ids], and user_pieces from the pieces' kinds. */
status tokenizer_set_scores(tokenizer *t, const float *scores, error *e);
/* MODEL_UNIGRAM: takes scores over ([n_ids], malloc'd; freed also on failure). single_precision: as SentencePiece itself, where
 * user-defined pieces are the model's own, too. */
status tokenizer_set_unigram(tokenizer *t, double *scores, bool single_precision, error *e);
/* MODEL_BPE: joins the pieces left and right; both and the joined one must be in the vocabulary. */
status tokenizer_add_merge(tokenizer *t, const char *left, size_t n_left, const char *right, size_t n_right, uint32_t rank,
                           error *e);
/* The steps of byte-level BPE by the name of its way of cutting ("gpt-2", "llama-bpe", ...; presets.c), with the flags
 * that go with it. ERR_UNSUPPORTED: not known. */
status tokenizer_set_preset(tokenizer *t, const char *name, bool *add_bos, error *e);
/* The steps of SentencePiece around its model. */
typedef struct {
    bool prefix;     /* a space in front of the text */
    bool squeeze;    /* runs of spaces become one, and none at the ends */
    bool escape;     /* spaces are written as U+2581 */
    const char *map; /* [n_map] its map of characters, or NULL */
    size_t n_map;
} sentencepiece_steps;
status tokenizer_set_sentencepiece(tokenizer *t, const sentencepiece_steps *steps, error *e);

/* Scratch of one encoding. */
typedef struct {
    bpe_work bpe;
    unigram_node *nodes;
    size_t node_capacity;
    id_list path;
} model_work;
void model_work_free(model_work *w);

/* The ids of one span of text, appended to *ids. */
status model_encode(const tokenizer *t, model_work *w, const char *text, size_t n, id_list *ids, error *e);

/* "'x' (U+0078)" or "byte 0xff": the character at text, for messages. out: at least 32 bytes. */
const char *char_name(const char *text, size_t n, char *out);

#endif
