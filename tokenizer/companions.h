/* companions.h - files beside a tokenizer's that say which tokens begin, end and surround a text. */
#ifndef TALLY_COMPANIONS_H
#define TALLY_COMPANIONS_H

#include "tokenizer/internal.h"

/* tokenizer_config.json, special_tokens_map.json and generation_config.json in the folder of path, as far as they are there:
 * bos and eos tokens, add_bos_token and add_eos_token, further ends. */
status companions_apply(tokenizer *t, const char *path, error *e);

/* added_tokens.json, and added_tokens_decoder of tokenizer_config.json: for vocabularies that do not hold them. */
status companions_add_tokens(tokenizer *t, const char *path, error *e);

/* How words are cut, by the tokenizer_class of tokenizer_config.json: "gpt-2", "qwen2"; ERR_UNSUPPORTED names the class. */
status companions_cut(const char *path, const char **cut, error *e);

#endif
