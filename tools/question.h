/* question.h - what `tally cost` was asked: a shape or bare numbers, a workload, a machine, and the conventions to count by.
 *
 * A shape (preset, file, model) knows everything about a transformer. Bare numbers (--params, --layers ...) say only what they say,
 * and the lesson's simple formulas hold: 2 FLOPs a weight and token, every weight read once a step, attention left out. */
#ifndef TALLY_QUESTION_H
#define TALLY_QUESTION_H

#include <stdint.h>

#include "tools/quantity.h"
#include "weights/config.h"

/* What counts as the work of attention: the visible keys; every key for every query, as if nothing were masked; nothing. */
enum { ATTENTION_EXACT, ATTENTION_FULL, ATTENTION_NONE };
#define ATTENTION_CHOICES "exact|full|none"
/* Which rows of a prefill get logits: the last, all, none. With none the head is left out of decoding too. */
enum { LOGITS_LAST, LOGITS_ALL, LOGITS_NONE };
#define LOGITS_CHOICES "last|all|none"
/* Tables of embeddings and learned positions: left out; rows read, at no FLOP; the embedding as a product with one-hot rows. */
enum { EMBEDDING_NONE, EMBEDDING_LOOKUP, EMBEDDING_MATMUL };
#define EMBEDDING_CHOICES "none|lookup|matmul"
/* What is neither a matrix product nor attention: counted; one FLOP a softmax element and an activation element; left out. */
enum { OTHER_EXACT, OTHER_ONE, OTHER_NONE };
#define OTHER_CHOICES "exact|one|none"
/* Biases and norm gains: counted; left out (bytes and FLOPs). */
enum { VECTORS_EXACT, VECTORS_NONE };
#define VECTORS_CHOICES "exact|none"
enum { STORAGE_F32, STORAGE_F16, STORAGE_INT8 };
#define STORAGE_CHOICES "f32|f16|int8"

typedef struct {
    char name[128];                              /* of the shape, for headings */
    bool has_config;                             /* config is there; else only the numbers below */
    model_config config;                         /* the four dimensions below go over it where they are given */
    int n_layers, n_heads, n_kv_heads, head_dim; /* 0: not given; after question_resolve those of config */
    uint64_t params;                             /* N; 0: not given */

    int weights, kv_type;          /* STORAGE_* */
    double weight_bytes, kv_bytes; /* bytes of one weight, of one cached number; 0: by storage type */
    uint64_t resident;             /* bytes of all weights; 0: computed */

    uint64_t context, batch, prompt; /* tokens in a user's cache before a step; users; tokens of a prefill */
    uint64_t train_tokens;           /* 0: not asked */

    double bandwidth, flops; /* bytes/s and FLOP/s of one device; 0: not known. question_resolve: of all */
    char measured[256];      /* where they come from, if they were measured here */
    int devices;
    double efficiency;          /* share of flops that is reached */
    uint64_t memory, kv_memory; /* bytes for everything (one device), for the cache alone; 0: not given */

    int page_size;                    /* tokens; 0: pages were not asked about, and a step is counted with pages of 16 */
    int chunk, query_tile, key_split; /* as in the execution plan */
    bool int8_activations;

    int attention, logits, embedding, other, vectors; /* conventions; attention -1: exact for a shape, none for bare numbers */
    byte_units units;
} question;

void question_init(question *q);

/* Puts what was given together, checks it, and fills what follows from it. To be called again after a field has been changed. */
status question_resolve(question *q, error *e);

/* Bytes of one number: of weights, of the cache (0 where a scale makes it no simple number: int8 storage of a shape). */
double question_weight_bytes(const question *q);
double question_kv_number_bytes(const question *q);

/* kappa, bytes of one token in the cache; 0 where the dimensions are not known. */
uint64_t question_kv_bytes(const question *q);

#endif
