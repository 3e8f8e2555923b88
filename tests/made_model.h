/* made_model.h - small checkpoints with names of any kind, made from a random model's numbers.
 *
 * The random model's own logits are what loading the file must give back. How the numbers are arranged in the file (transposed, fused,
 * by head, permuted) is written here and in the tests from the definition of each arrangement, not with the loader's code. */
#ifndef TALLY_TESTS_MADE_MODEL_H
#define TALLY_TESTS_MADE_MODEL_H

#include "tests/made_files.h"
#include "weights/slots.h"

/* Numbers with a shape; owned. */
typedef struct {
    float *x;
    int n_rows, n_cols; /* n_cols 0: a vector of n_rows */
} block;

void block_free(block *b);
/* A slot of the model as fp32. layer -1 for what is in no layer. */
block block_of(const model *m, tensor_role role, int layer, bool bias);
block block_transposed(const block *b);
/* Rows first ... first+n-1. */
block block_rows(const block *b, int first, int n);
/* b's rows after a's; a is freed, and replaced. */
void block_append(block *a, const block *b);
/* Rows of each head from (i, i + half) to (2i, 2i + 1): Hugging Face's order of a rotary matrix to Meta's. */
block block_to_pairs(const block *b, int head_dim);

/* A safetensors file in the making. */
typedef struct {
    bytes header, data;
} tensor_file;
/* type: "F32", "F16" or "BF16" (cut off, not rounded). Frees nothing. */
void file_add_as(tensor_file *f, const char *name, const block *b, const char *type);
void file_add(tensor_file *f, const char *name, const block *b);
/* The same numbers under another shape. */
void file_add_dims(tensor_file *f, const char *name, const block *b, int n_dims, const int *dims);
/* Adds and frees. name: a printf format for the layer, and then, for a matrix with a bias, "bias" in place of "weight". */
void file_add_role(tensor_file *f, const model *m, tensor_role role, int layer, const char *format);
void file_add_layers(tensor_file *f, const model *m, tensor_role role, const char *format);

/* Writes model.safetensors (and config.json, unless NULL) into a new folder (folder_remove). Frees the file. */
char *file_folder(tensor_file *f, const char *config_json);

/* Every dimension different: 3 layers, d_model 24, 4 heads, 2 K/V heads, head_dim 10, d_ff 28, 31 tokens, 64 positions. */
model_config made_config(void);
model *made_random(const model_config *c);
/* The loader's options for fp32, nothing else. */
model_options made_options(void);
/* Loads the folder; fails the test where it is refused. */
model *made_load(const char *folder, const model_options *o);
/* Fails the test unless loading is refused with a message that contains `why` and the folder's name. */
void made_refused(const char *folder, const model_options *o, const char *why);

/* Both models' logits by the reference, for n ids: the largest difference. */
double made_difference(const model *a, const model *b, int n);

/* The model with the names of Hugging Face's llama (gains, q, k, v, o, gate, up, down, head unless tied, biases where it has them). */
void file_add_llama(tensor_file *f, const model *m, const char *prefix);
/* The same without the embedding table and the head. */
void file_add_llama_body(tensor_file *f, const model *m, const char *prefix);
/* config.json for that, with `extra` ("\"key\": 1") added where it is not NULL. The caller frees. */
char *llama_config(const model_config *c, const char *extra);

#endif
