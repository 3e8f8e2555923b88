/* tokens.h - what the tokenizer tests say again and again. Include after cmocka.h's own headers. */
#ifndef TALLY_TESTS_TOKENS_H
#define TALLY_TESTS_TOKENS_H

#include "tokenizer/tokenizer.h"

/* The tokenizer that a constructor makes of an argument; the test fails with its message where it does not. */
#define tokens_made(constructor, argument) tokens_checked(constructor(&tokens_out, (argument), &tokens_error))
extern tokenizer *tokens_out;
extern error tokens_error;
tokenizer *tokens_checked(status s);

/* encode(text) is these n ids. */
void assert_ids(const tokenizer *t, const char *text, unsigned flags, int n, ...);
void assert_ids_of(const tokenizer *t, const char *text, size_t n_bytes, unsigned flags, const int *want, size_t n);

/* decode of these n ids is text. */
void assert_text(const tokenizer *t, unsigned flags, const char *text, int n, ...);

/* encode, then decode at once and as a stream: the same bytes again. */
void assert_round_trip(const tokenizer *t, const char *text, size_t n_bytes, unsigned flags);

/* encode fails with this status and a message that holds these words. */
void assert_encode_fails(const tokenizer *t, const char *text, size_t n_bytes, status want, const char *words);

/* A byte-level tokenizer.json: every byte b is token b, then the 20 merges of tokens.c (256 to 275), then the special tokens
 * <|endoftext|> 276, <|im_start|> 277, <|im_end|> 278, <s> 279. Fields may be changed before it is read. */
json_t *byte_level_json(void);
/* root[key] = the JSON in text, where ' stands for ". */
void json_put(json_t *root, const char *key, const char *text);
/* The JSON in text, where ' stands for ". */
json_t *json_quoted(const char *text);
/* Reads it as a tokenizer.json, and gives root back. */
tokenizer *json_tokenizer(json_t *root);
/* It is refused with this status and a message that holds these words; root is given back. */
void assert_json_refused(json_t *root, status want, const char *words);

/* A file of the test's own in a folder that tokens_clean removes; the path, to be freed. */
char *tokens_file(const char *name, const void *bytes, size_t n);
void tokens_clean(void);

#endif
