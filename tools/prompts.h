/* prompts.h - a file of prompts: one a line, or one JSON object a line.
 *
 *   prompts.txt                      prompts.jsonl
 *     23+58=                           {"prompt": "23+58=", "n_predict": 3, "id": "a"}
 *     4+26=                            {"ids": [1, 7, 14], "temp": 0.8, "seed": 7, "samples": 4}
 *
 * Keys of an object: prompt or ids; n_predict, samples, seed, temp, top_k, top_p, min_p, repeat_penalty, repeat_last_n in place of the options
 * of the same names; id, anything, which comes out again. Any other key is an error. Blank lines are no prompts. */
#ifndef TALLY_PROMPTS_H
#define TALLY_PROMPTS_H

#include <jansson.h>

#include "tools/generation.h"

typedef struct {
    int line;         /* in the file, from 1 */
    const char *text; /* [n_bytes], of the list; NULL: ids */
    size_t n_bytes;
    const json_t *ids; /* an array of integers, or NULL */
    const json_t *id;  /* of the list, or NULL */
    sampling sampling;
    int n_predict, n_samples;
    uint64_t seed;
    size_t slot; /* of its first sample: samples of all prompts counted through */
} prompt;

typedef struct {
    prompt *items; /* [n] */
    size_t n, n_slots;
    char *file;      /* the texts, where lines are prompts */
    size_t n_bytes;  /* of it */
    json_t *objects; /* array: the objects, where they are */
} prompt_list;

typedef enum { PROMPTS_BY_NAME, PROMPTS_TEXT, PROMPTS_JSONL } prompts_format; /* choices "auto|text|jsonl" */

/* path "-": standard input. By name: .jsonl and .ndjson are objects. Errors name the file and the line. */
status prompts_read(prompt_list *out, const char *path, prompts_format format, const generation_options *o, uint64_t seed,
                    error *e);
void prompts_free(prompt_list *p);

#endif
