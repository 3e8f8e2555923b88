/* sentencepiece.h - telling a SentencePiece model from other files. */
#ifndef TALLY_SENTENCEPIECE_H
#define TALLY_SENTENCEPIECE_H

#include <stdbool.h>
#include <stddef.h>

/* Are these bytes a protobuf message with pieces in it, from the first byte to the last? */
bool sentencepiece_looks_like(const char *bytes, size_t n);

#endif
