/* added.h - tokens that are found in the text before the model sees it: special tokens, and words added to a vocabulary.
 *
 * At every place the longest one wins, from left to right. */
#ifndef TALLY_ADDED_H
#define TALLY_ADDED_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/status.h"
#include "tokenizer/trie.h"

typedef struct {
    int id;
    bool special;                 /* found only with TOKENIZE_PARSE_SPECIAL */
    bool single_word;             /* not inside a word */
    bool strip_left, strip_right; /* takes the white space at that side with it */
} added_token;

typedef struct {
    added_token *data; /* [n] */
    size_t n, capacity;
    trie texts; /* values are indexes into data */
} added_list;

/* What stands in a text: a token (id >= 0), or text between tokens (id -1). */
typedef struct {
    size_t start, end;
    int id;
} added_part;

status added_add(added_list *l, added_token token, const char *text, size_t n, error *e);
void added_free(added_list *l);

/* The next part of text from byte `from` on; from < n. special: are special tokens looked for? */
added_part added_next(const added_list *l, const char *text, size_t n, size_t from, bool special);

#endif
