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

/* ---- for the files that read them ---- */

#define SPACE_MARK "\xE2\x96\x81" /* U+2581 */

/* Runs f on j, or on every entry of j[list] where j is a Sequence. what: "normalizer", for messages. */
typedef status (*json_part_reader)(tokenizer *t, json_t *j, const char *type, error *e);
status json_each_part(tokenizer *t, json_t *j, const char *what, const char *list, json_part_reader f, int depth, error *e);

/* A pattern: {"String": text} or {"Regex": expression}; the other of the two is NULL. */
status json_pattern(json_t *j, const char **text, const char **regex, error *e);
/* Metaspace: files of before prepend_scheme have add_prefix_space. */
const char *json_prepend_scheme(json_t *j);
status json_unsupported(const char *what, const char *type, error *e);
bool json_is(const char *type, const char *name);

/* Fields of an object, with what holds where they are missing or null. */
const char *json_text(json_t *j, const char *key, const char *otherwise);
bool json_flag(json_t *j, const char *key, bool otherwise);

#endif
