/* convert_tokenizer.h - a model's tokenizer as the keys of a GGUF file. */
#ifndef TALLY_CONVERT_TOKENIZER_H
#define TALLY_CONVERT_TOKENIZER_H

#include <jansson.h>

#include "tokenizer/tokenizer.h"
#include "weights/model.h"

/* An object of "tokenizer.*" keys (and "tally.vocabulary" for characters and words), a new reference; NULL where there is no tokenizer, or
 * none that GGUF has a form for: then `why` says so in one line. What is made is opened again and compared with `t` on texts that tell
 * ways of cutting apart: a tokenizer that would cut differently is not written.
 * tokenizer_path: --tokenizer, or NULL. */
json_t *gguf_tokenizer_keys(const model *m, const checkpoint *c, const tokenizer *t, const char *tokenizer_path, char *why,
                            size_t why_size);

#endif
