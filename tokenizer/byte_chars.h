/* byte_chars.h - the 256 characters that byte-level BPE (GPT-2) writes bytes as, so that every piece is printable text.
 *
 *   bytes 21-7E, A1-AC, AE-FF    the character of the same number
 *   the other 68, in order       U+0100, U+0101, ... (so that a space is U+0120, "Ġ") */
#ifndef TALLY_BYTE_CHARS_H
#define TALLY_BYTE_CHARS_H

#include <stddef.h>
#include <stdint.h>

uint32_t byte_to_char(unsigned char byte);

/* The byte of a character; -1: it stands for none. */
int char_to_byte(uint32_t code);

#endif
