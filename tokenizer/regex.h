/* regex.h - regular expressions as tokenizer files write them, matched through PCRE2.
 *
 * The files are written for Oniguruma or for Rust's regex. What differs there from PCRE2 is translated when the pattern is
 * compiled (\s, \w, \h, \p{Han}, [a&&[^b]], \uHHHH), or refused by name. Subjects are valid UTF-8.
 *
 * A pattern is untrusted: backtracking, memory and time are bounded, and beyond the bound it is ERR_LIMIT. */
#ifndef TALLY_TOKENIZER_REGEX_H
#define TALLY_TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/status.h"
#include "tokenizer/buffer.h"

typedef struct compiled_regex compiled_regex; /* compiled; does not change, any number of threads may use it */
typedef struct matcher matcher;               /* what one caller needs to match */

status regex_compile(compiled_regex **out, const char *regex, size_t n, error *e);
void regex_free(compiled_regex *p);

/* n_bytes: how much text there will be; time is bounded by it. NULL: no memory. */
matcher *matcher_new(size_t n_bytes);
void matcher_free(matcher *m);

/* The first match of p in text that begins at from or later. */
status regex_find(const compiled_regex *p, matcher *m, const char *text, size_t n, size_t from, bool *found, size_t *start,
                  size_t *end, error *e);

/* The same expression in PCRE2's words, appended to out (regex_words.c). */
status regex_translate(const char *regex, size_t n, byte_buffer *out, error *e);

#endif
