#include "tokenizer/byte_chars.h"

#include <stdbool.h>

/* The bytes that are not their own characters: 00-20, 7F-A0 and AD, numbered from 256 on. */
enum { FIRST_GAP = 0x21, SECOND_AT = 0x7F, SECOND_END = 0xA1, THIRD = 0xAD };
enum { N_FIRST = FIRST_GAP, N_SECOND = SECOND_END - SECOND_AT };

uint32_t byte_to_char(unsigned char byte) {
    if (byte < FIRST_GAP) return 256u + byte;
    if (byte >= SECOND_AT && byte < SECOND_END) return 256u + N_FIRST + (byte - SECOND_AT);
    if (byte == THIRD) return 256u + N_FIRST + N_SECOND;
    return byte;
}

int char_to_byte(uint32_t code) {
    if (code < 256) return byte_to_char((unsigned char)code) == code ? (int)code : -1;
    uint32_t i = code - 256;
    if (i < N_FIRST) return (int)i;
    if (i < N_FIRST + N_SECOND) return (int)(SECOND_AT + (i - N_FIRST));
    return i == N_FIRST + N_SECOND ? THIRD : -1;
}
