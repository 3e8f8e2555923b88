/* model_tokenizer.h - finds the tokenizer that belongs to a checkpoint. */
#ifndef TALLY_MODEL_TOKENIZER_H
#define TALLY_MODEL_TOKENIZER_H

#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

/* vocabulary: the layout's own characters (array of strings by id), or NULL. path: --tokenizer, a file or folder, or NULL. Where
 * path is NULL, the first of these that is there:
 *   in the checkpoint   a GGUF file's metadata; stoi or itos of a .pt
 *   the layout's        vocabulary
 *   beside it           tokenizer.bin, or the only tok*.bin (llama2.c); meta.pkl (nanoGPT); tokenizer.json, vocab.json and
 *                       merges.txt, tokenizer.model (Hugging Face)
 * OK with *out NULL where the model has none: it runs on ids. */
status model_tokenizer(tokenizer **out, const checkpoint *c, const json_t *vocabulary, const char *path, error *e);

/* The tokenizer of a path that is a model or a tokenizer. ERR_ARGUMENT where it is a model without one. */
status any_tokenizer(tokenizer **out, const char *path, error *e);

#endif
