/* model_tokenizer.h - finds the tokenizer that belongs to a checkpoint. */
#ifndef TALLY_MODEL_TOKENIZER_H
#define TALLY_MODEL_TOKENIZER_H

#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

/* vocabulary: the layout's own characters (array of strings by id), or NULL. path: --tokenizer, or NULL. OK with *out NULL where the model has
 * none: it runs on ids. */
status model_tokenizer(tokenizer **out, const checkpoint *c, const json_t *vocabulary, const char *path, error *e);

#endif
