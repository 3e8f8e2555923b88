/* tokenizer.h - text to token ids and back, as the model's own tokenizer does it.
 *
 * Kinds: characters, words, straight bytes, byte-level BPE, SentencePiece BPE with byte fallback, unigram (Viterbi).
 * Text is bytes: any bytes may come in, and where the vocabulary can write every byte (byte-level BPE, byte fallback,
 * straight bytes) decode(encode(x)) is x, valid UTF-8 or not. What a tokenizer's file asks for and Tally does not do is an
 * error that names it when the file is opened, never a silent difference. Files are untrusted: see docs/tokenizers.md.
 *
 * A tokenizer does not change after it is made: any number of threads may use one. */
#ifndef TALLY_TOKENIZER_H
#define TALLY_TOKENIZER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/status.h"

typedef struct tokenizer tokenizer;

void tokenizer_free(tokenizer *t);

/* ADD_SPECIAL: puts around the text what the model was trained to see around it (most often a beginning-of-sequence token
 * in front; exactly one, also where the text has one already). PARSE_SPECIAL: special tokens written in the text ("<s>",
 * "<|im_start|>") become their ids; without it they are text like any other. */
enum { TOKENIZE_ADD_SPECIAL = 1, TOKENIZE_PARSE_SPECIAL = 2 };

/* *ids: [*n_ids], the caller frees it (never NULL on success). A character that the vocabulary cannot write, where it has no
 * unknown token either, is ERR_ARGUMENT and names the character. Time is n log n, memory linear, no recursion. */
status tokenizer_encode(const tokenizer *t, const char *text, size_t n_bytes, unsigned flags, int **ids, size_t *n_ids,
                        error *e);

/* SPECIAL: special tokens are written as their text; without it they are left out. CONTINUED: the ids go on after others, so
 * that the space which some tokenizers put in front of a text is kept. */
enum { DETOKENIZE_SPECIAL = 1, DETOKENIZE_CONTINUED = 2 };

/* *text: *n_bytes bytes and a terminating zero; the caller frees it. An id that is not in the vocabulary is ERR_ARGUMENT. */
status tokenizer_decode(const tokenizer *t, const int *ids, size_t n_ids, unsigned flags, char **text, size_t *n_bytes,
                        error *e);

/* Decoding token by token, as a model writes: gives out whole characters only, and holds back the bytes of one that is
 * incomplete. The texts of push and flush one after another are what tokenizer_decode gives. Nothing is allocated after
 * init. */
typedef struct {
    const tokenizer *t;
    unsigned flags;
    size_t n_tokens; /* tokens written so far */
    int n_strip;     /* leading characters still to be left out */
    bool separate;   /* a space comes before the next token */
    char *bytes;     /* [n_bytes]: what was pushed and not yet given out, after the last text given */
    size_t n_bytes, n_given, capacity;
} token_stream;

status token_stream_init(token_stream *s, const tokenizer *t, unsigned flags, error *e);
void token_stream_free(token_stream *s);
/* *text: *n_bytes bytes (perhaps none), owned by the stream, valid until its next call. */
status token_stream_push(token_stream *s, int id, const char **text, size_t *n_bytes, error *e);
/* What is still held back: the bytes of a character that never became whole. */
void token_stream_flush(token_stream *s, const char **text, size_t *n_bytes);

/* Ids run from 0 to n_vocab - 1; some may not be there (a padded vocabulary): those must not be sampled. */
int tokenizer_n_vocab(const tokenizer *t);
bool tokenizer_has(const tokenizer *t, int id);
int tokenizer_bos(const tokenizer *t); /* -1: none; eos alike, the first of them where there are several */
int tokenizer_eos(const tokenizer *t);
bool tokenizer_is_eos(const tokenizer *t, int id); /* does generation end at this id? */
bool tokenizer_is_special(const tokenizer *t, int id);
/* The piece as the file writes it ("Ġworld", "▁world", "<0x0A>"), *n_bytes long, zero-terminated. NULL: no such id. */
const char *tokenizer_piece(const tokenizer *t, int id, size_t *n_bytes);
int tokenizer_find(const tokenizer *t, const char *piece); /* the id of a piece; -1: none */
const char *tokenizer_kind(const tokenizer *t);            /* "byte-level BPE", for people */

/* One more id at which generation ends (a configuration names some that the tokenizer's file does not). */
status tokenizer_add_eos(tokenizer *t, int id, error *e);

/* ---- where tokenizers come from; *out is NULL on failure ---- */

/* A vocabulary handed over by whoever read it: characters, or words (runs of letters, digits and '_'; every other character
 * by itself). Special pieces stand for themselves and are never characters of a text. */
typedef struct {
    const char *const *pieces; /* [n_pieces]: NULL where there is no such id. Copied. */
    const size_t *lengths;     /* [n_pieces] bytes; NULL: the pieces are zero-terminated */
    int n_pieces;
    int bos, eos, pad, unk; /* ids of special pieces, or -1 */
    bool add_bos, add_eos;
    const char *source; /* the file's name, for messages */
} char_vocab;
status tokenizer_from_chars(tokenizer **out, const char_vocab *v, error *e);

/* Straight bytes: id = byte, 256 ids. */
status tokenizer_bytes(tokenizer **out, error *e);

/* A tokenizer.json of Hugging Face. source: its name, for messages. What lies beside the file (tokenizer_config.json and the
 * like) is read by tokenizer_open only. */
status tokenizer_from_json(tokenizer **out, const char *text, size_t n_bytes, const char *source, error *e);

/* The metadata of a GGUF file: an object of its keys. Only read. */
status tokenizer_from_gguf(tokenizer **out, json_t *meta, const char *source, error *e);

/* vocab.json and merges.txt, or encoder.json and vocab.bpe: byte-level BPE. cut: how words are cut ("gpt-2", "qwen2": the
 * names that GGUF files have); NULL: as GPT-2. */
status tokenizer_from_vocab_merges(tokenizer **out, const char *vocab_path, const char *merges_path, const char *cut, error *e);

/* tokenizer.bin of llama2.c. */
status tokenizer_from_llama2c(tokenizer **out, const char *path, error *e);

/* A SentencePiece model (protobuf): BPE or unigram. */
status tokenizer_from_sentencepiece(tokenizer **out, const char *path, error *e);

/* A tokenizer file, or a folder with one in it: the kind is found from the content, and the files beside it that name special
 * tokens (tokenizer_config.json, special_tokens_map.json, generation_config.json) are read. */
status tokenizer_open(tokenizer **out, const char *path, error *e);

/* The path of the file that tokenizer_open takes in a folder; NULL: there is none. The caller frees it. */
char *tokenizer_file_in(const char *folder);
/* The path of the only file tok*.bin in a folder; NULL: none, or several. The caller frees it. */
char *tokenizer_bin_in(const char *folder);

#endif
