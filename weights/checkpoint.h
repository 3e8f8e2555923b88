/* checkpoint.h - a container file opened: its tensors by name, and everything else in it as a JSON tree.
 *
 * Kinds: PyTorch .pt/.bin (zip and legacy, single and sharded), safetensors (single and sharded), GGUF v2/v3, llama2.c
 * .bin v0/v1/v2, JSON weights, Hugging Face folders. The kind is found from the content, never from the file's ending.
 * What the tensors mean (which is the query matrix of layer 3) is not known here: layout.h says that.
 *
 * A checkpoint is untrusted: every size is checked before it is used, nothing in it is run, memory stays within the file's
 * own size plus 64 MiB, and a malformed file is an error that names the file, the tensor or key, and the fault. */
#ifndef TALLY_CHECKPOINT_H
#define TALLY_CHECKPOINT_H

#include <jansson.h>

#include "kernels/dtype.h"
#include "kernels/status.h"

#define TENSOR_MAX_DIMS 8

typedef enum {
    CHECKPOINT_PT_ZIP,
    CHECKPOINT_PT_LEGACY,
    CHECKPOINT_SAFETENSORS,
    CHECKPOINT_GGUF,
    CHECKPOINT_LLAMA2C,
    CHECKPOINT_JSON,
    CHECKPOINT_PICKLE, /* a bare pickle such as nanoGPT's meta.pkl: no tensors */
    N_CHECKPOINT_KINDS
} checkpoint_kind;

typedef struct {
    char *name; /* as the file has it; inside nested dicts of a .pt joined with '.', e.g. "state.tok.weight" */
    dtype type;
    const char *type_name;           /* the container's own word for it ("F8_E4M3"), for messages */
    int n_dims;                      /* 0: a scalar */
    int64_t shape[TENSOR_MAX_DIMS];  /* outermost first (GGUF's order turned round) */
    int64_t stride[TENSOR_MAX_DIMS]; /* in elements; row-major except for views in a .pt. Block types are row-major. */
    size_t n_elems;                  /* product of shape */
    size_t n_bytes;                  /* bytes the elements take, each counted once (a view: n_elems x element size) */
    int group;                       /* DTYPE_I8G: elements a scale */
    /* Where the bytes lie; for the readers only. */
    int shard;
    size_t offset, span;
    size_t scales_offset;
    size_t record; /* .pt: the archive's entry */
} tensor;

typedef struct checkpoint {
    char *path; /* as given: a file, or a folder */
    checkpoint_kind kind;
    tensor *tensors; /* [n_tensors], in the file's order; names are unique */
    size_t n_tensors;
    json_t *meta; /* an object: config.json of a folder; GGUF keys and values; llama2.c header; a .pt's non-tensor
                           * values as nested objects (dict keys as text, tuples as arrays). Never NULL. */
    char *folder; /* where companions are looked for (config.json, tokenizer.json, meta.pkl) */
    void *reader; /* private to checkpoint.c */
} checkpoint;

/* Opens PATH. *out is NULL on failure. Tensor data is not read yet. */
status checkpoint_open(checkpoint **out, const char *path, error *e);
void checkpoint_close(checkpoint *c);

/* NULL where there is none. O(1). */
const tensor *checkpoint_find(const checkpoint *c, const char *name);

/* The bytes of a tensor, which may start at any address (safetensors and legacy .pt align nothing). data points at element (0, ..., 0); element i lies sum(i[d] * stride[d]) elements further. Valid until
 * tensor_release. in_place: data lies in the mapped file itself and stays valid until checkpoint_close, so that a model may use it
 * where it is. scales: DTYPE_I8G only, fp32, one per group (unaligned: read with memcpy). Thread-safe for different tensors: no. */
typedef struct {
    const void *data;
    const void *scales;
    bool in_place;
    const void *map; /* in_place: where the mapped file begins, or NULL: the bytes are the caller's */
    size_t n_mapped; /* bytes from data on whose memory tensor_release lets go */
    void *owned;     /* what tensor_release frees */
} tensor_bytes;
status tensor_read(checkpoint *c, const tensor *t, tensor_bytes *out, error *e);
void tensor_release(tensor_bytes *b);

const char *checkpoint_kind_name(checkpoint_kind kind);

#endif
