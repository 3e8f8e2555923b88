/* write.h - models as files that other programs read. */
#ifndef TALLY_WRITE_H
#define TALLY_WRITE_H

#include "weights/model.h"

typedef struct {
    int weights;             /* DTYPE_F32, F16 or Q8_0; -1: as the model has them */
    int n_kv_heads;          /* fewer K/V heads, each the mean of some of the model's; 0: as many */
    const char *name;        /* GGUF: general.name; NULL: the family's */
    const json_t *tokenizer; /* GGUF: an object of "tokenizer.*" keys; or NULL */
    const json_t *source;    /* safetensors: a config.json to go on from (Hugging Face); or NULL */
    char layout[48];         /* out: the layout that was written */
    uint64_t bytes;          /* out: of the file */
} write_options;

/* A GGUF file (version 3): in the family of that format whose function is the model's, else as one of Tally's own, which only Tally reads.
 * Tried on what was written before it gets its name: the file is opened, and its configuration compared. */
status write_gguf(const model *m, const char *path, write_options *o, error *e);

/* A folder with config.json and model.safetensors: in the model's own Hugging Face family where it has one, else in Tally's names. */
status write_safetensors(const model *m, const char *folder, write_options *o, error *e);

#endif
