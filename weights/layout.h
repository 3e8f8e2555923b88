/* layout.h - how a checkpoint's names and numbers become a model: data, one form for built-in families and for a learner's own.
 *
 * A layout is a JSON object (docs/layouts.md explains it with an example):
 *
 *   name, title, family   for people; "like": NAME starts from another layout and changes what is given
 *   recognise             {"meta": {path: [values]}} and/or {"names": true}: may be recognised by its tensor names alone
 *   tensors               role (slots.h; also qkv, kv, gate_up) -> pattern(s), or {name, bias, transposed, order, offset, skip_rows,
 *                         computed, optional}
 *   config                field of model_config -> constant, or expression (layout_config.h)
 *   ignore                patterns of tensors that are no weights
 *   vocabulary, bos, eos, pad, sample_prompt
 *
 * Here layouts are read, merged with what they are like, checked for misspelt keys, and brought into one form: every entry of
 * "tensors" is an object whose name and bias are arrays of patterns. They are not changed afterwards. */
#ifndef TALLY_LAYOUT_H
#define TALLY_LAYOUT_H

#include <jansson.h>

#include "kernels/status.h"

/* All built-in layouts, in the order in which they are tried: a new array of objects; NULL on failure. */
json_t *layouts_builtin(error *e);

/* Reading them all takes milliseconds, which a small model's run does not have: only those of files with this text in them (NULL: of all), and
 * what they are like. from: only of the first such file from number *from on, which is moved behind it; an empty array: there is no further
 * one. A new array; NULL on failure. */
json_t *layouts_with(const char *word, size_t *from, error *e);

/* The one of that name in such an array (borrowed), or NULL. */
const json_t *layout_named(const json_t *layouts, const char *name);

/* A learner's own, from the text of a file; `builtin` is what "like" refers to. NULL on failure; where: for messages. */
json_t *layout_from_text(const json_t *builtin, const char *text, const char *where, error *e);

/* json_copy that cannot lose members when memory runs out in its middle: NULL then. */
json_t *json_whole_copy(const json_t *value);

/* `raw` as a layout: checked, normalised (in place), merged with the one in `builtin` that it is like. A new reference; NULL on failure. */
json_t *layout_finished(const json_t *builtin, json_t *raw, const char *where, error *e);

const char *layout_name(const json_t *layout);

/* The entry of a role (or of qkv, kv, gate_up) in "tensors"; NULL where the layout has none. */
const json_t *layout_spec(const json_t *layout, const char *role);

#endif
