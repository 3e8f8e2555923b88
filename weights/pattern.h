/* pattern.h - name patterns of layouts, and looking things up by them.
 *
 *   blocks.{layer}.attn.q.weight     {layer}, {head}: an index; {layer+1}: counted from 1
 *   [model.]layers.{layer}.wq        what is in brackets may be missing from the name
 *   *.attn.mask                      *: anything (in lists of names to ignore only)
 *
 * Where a layout gives several patterns, the first that the checkpoint has is meant. */
#ifndef TALLY_PATTERN_H
#define TALLY_PATTERN_H

#include <jansson.h>

#include "weights/checkpoint.h"

/* The tensor that `patterns` (a string, or an array of strings) names under `prefix`; NULL where there is none. */
const tensor *pattern_find(const checkpoint *c, const char *prefix, const json_t *patterns, int layer, int head);

/* The first pattern's name with its brackets' content, for messages: what should have been there. */
void pattern_first_name(char *out, size_t size, const char *prefix, const json_t *patterns, int layer, int head);

/* Does the whole name fit one of the patterns, with any {layer} and {head}? */
bool pattern_matches(const json_t *patterns, const char *name);

/* The same for one pattern in the text of the program. */
bool pattern_fits(const char *pattern, const char *name);

/* Does the name end in one of the patterns (layer and head 0), at its start or behind a dot? The length of what stands before it goes to
 * *prefix_length. */
bool pattern_ends(const json_t *patterns, const char *name, size_t *prefix_length);

/* Is there `{word` in the first pattern? */
bool pattern_has(const json_t *patterns, const char *word);

/* A value of a tree by a path such as "config.heads": keys may themselves hold dots (GGUF's do). NULL where there is none. */
json_t *meta_find(json_t *root, const char *path);

#endif
