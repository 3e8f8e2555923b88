/* json_steps.h - the parts of a tokenizer.json around its model: normalizer, pre_tokenizer, post_processor, decoder. */
#ifndef TALLY_JSON_STEPS_H
#define TALLY_JSON_STEPS_H

#include "tokenizer/internal.h"

/* NULL and null are "none". What is not supported is ERR_UNSUPPORTED and named. */
status json_normalizer(tokenizer *t, json_t *j, error *e);
status json_pre_tokenizer(tokenizer *t, json_t *j, error *e);
status json_post_processor(tokenizer *t, json_t *j, error *e);
status json_decoder(tokenizer *t, json_t *j, error *e);

/* A whole tokenizer.json, parsed (json_file.c). */
status tokenizer_from_json_object(tokenizer **out, json_t *root, const char *source, error *e);

/* Fields of an object, with what holds where they are missing or null. */
const char *json_text(json_t *j, const char *key, const char *otherwise);
bool json_flag(json_t *j, const char *key, bool otherwise);

#endif
