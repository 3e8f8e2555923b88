/* utf8.h - characters of a text that may hold any bytes. Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
 * A byte that begins no valid character counts as one by itself. */
#ifndef TALLY_UTF8_H
#define TALLY_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at s (1 to 4), its code point in *code; 0: the byte at s begins no valid character. n > 0. */
int utf8_decode(const char *s, size_t n, uint32_t *code);

/* The same, an invalid byte being 1 long: how far to step. */
size_t utf8_step(const char *s, size_t n);

/* Writes code's bytes (at most 4) and returns how many. */
size_t utf8_encode(uint32_t code, char *out);

/* Bytes at the front of s that are valid UTF-8. */
size_t utf8_valid(const char *s, size_t n);

/* Bytes at the end of s (0 to 3) that may be the beginning of a character whose rest is still to come. */
size_t utf8_incomplete_tail(const char *s, size_t n);

#endif
