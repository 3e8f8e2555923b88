/* terms.h - what is counted: one list of terms, shared by the counters (meter.h) and the predictions (engine/cost.h).
 *
 * This is vocabulary only. The counters get their numbers from the work done, the predictions get theirs from the
 * configuration and the plan; neither reads the other's code, and the two must agree as exact integers. */
#ifndef TALLY_TERMS_H
#define TALLY_TERMS_H

#include <stdint.h>

/* Classes of terms. FLOPs: a multiplication and an addition are one each. "Lesson" FLOPs are matmul + attention.
 * Bytes are requested bytes under the declared loop order: an operand counts once each time it is streamed from its array. */
typedef enum {
    CLASS_MATMUL,
    CLASS_ATTENTION,
    CLASS_OTHER,
    CLASS_WEIGHT_BYTES,
    CLASS_KV_BYTES,
    CLASS_LOGIT_BYTES,
    CLASS_COUNT
} term_class;

/* X(id, class, key in --json, words) */
#define TERM_LIST(X)                                                                                                           \
    X(FLOPS_Q, CLASS_MATMUL, "flops_q", "query projection")                                                                    \
    X(FLOPS_KV, CLASS_MATMUL, "flops_kv", "key and value projections")                                                         \
    X(FLOPS_O, CLASS_MATMUL, "flops_o", "output projection")                                                                   \
    X(FLOPS_FFN, CLASS_MATMUL, "flops_ffn", "feed-forward")                                                                    \
    X(FLOPS_HEAD, CLASS_MATMUL, "flops_head", "head")                                                                          \
    X(FLOPS_SCORES, CLASS_ATTENTION, "flops_scores", "attention scores")                                                       \
    X(FLOPS_VALUES, CLASS_ATTENTION, "flops_values", "attention values")                                                       \
    X(FLOPS_BIAS, CLASS_OTHER, "flops_bias", "bias adds")                                                                      \
    X(FLOPS_NORM, CLASS_OTHER, "flops_norm", "norms")                                                                          \
    X(FLOPS_POSITION, CLASS_OTHER, "flops_position", "positions")                                                              \
    X(FLOPS_SOFTMAX, CLASS_OTHER, "flops_softmax", "scale and softmax")                                                        \
    X(FLOPS_ACTIVATION, CLASS_OTHER, "flops_activation", "activation")                                                         \
    X(FLOPS_RESIDUAL, CLASS_OTHER, "flops_residual", "residual adds")                                                          \
    X(FLOPS_MULTIPLIER, CLASS_OTHER, "flops_multiplier", "multipliers and soft caps")                                          \
    X(FLOPS_QUANTISE, CLASS_OTHER, "flops_quantise", "quantising and scales")                                                  \
    X(FLOPS_MERGE, CLASS_OTHER, "flops_merge", "merging split ranges of keys")                                                 \
    X(BYTES_Q, CLASS_WEIGHT_BYTES, "bytes_q", "query weights")                                                                 \
    X(BYTES_KV, CLASS_WEIGHT_BYTES, "bytes_kv", "key and value weights")                                                       \
    X(BYTES_O, CLASS_WEIGHT_BYTES, "bytes_o", "output weights")                                                                \
    X(BYTES_FFN, CLASS_WEIGHT_BYTES, "bytes_ffn", "feed-forward weights")                                                      \
    X(BYTES_HEAD, CLASS_WEIGHT_BYTES, "bytes_head", "head weights")                                                            \
    X(BYTES_BIAS, CLASS_WEIGHT_BYTES, "bytes_bias", "biases")                                                                  \
    X(BYTES_NORM, CLASS_WEIGHT_BYTES, "bytes_norm", "norm gains and biases")                                                   \
    X(BYTES_EMBEDDING, CLASS_WEIGHT_BYTES, "bytes_embedding", "embedding rows")                                                \
    X(BYTES_POSITION, CLASS_WEIGHT_BYTES, "bytes_position", "position rows")                                                   \
    X(BYTES_KV_WRITTEN, CLASS_KV_BYTES, "bytes_kv_written", "K and V written")                                                 \
    X(BYTES_KV_CACHED, CLASS_KV_BYTES, "bytes_kv_cached", "K and V read from the cache")                                       \
    X(BYTES_KV_OWN, CLASS_KV_BYTES, "bytes_kv_own", "K and V read of this step's own tokens")                                  \
    X(BYTES_PAGE_TABLE, CLASS_KV_BYTES, "bytes_page_table", "page table entries")                                              \
    X(BYTES_LOGITS, CLASS_LOGIT_BYTES, "bytes_logits", "logits written")                                                       \
    X(KEYS_COMPUTED, CLASS_COUNT, "keys_computed", "keys computed, over all layers")                                           \
    X(KEYS_ATTENDED, CLASS_COUNT, "keys_attended", "(query token, visible key) pairs, over all layers")

typedef enum {
#define TERM_ENUM(id, class, key, words) TERM_##id,
    TERM_LIST(TERM_ENUM)
#undef TERM_ENUM
        N_TERMS
} term;

typedef struct {
    uint64_t n[N_TERMS];
} term_counts;

typedef struct {
    term_class class_;
    const char *key, *words;
} term_info;

/* [N_TERMS], indexed by term. */
extern const term_info term_table[N_TERMS];

/* Sum over a class. */
uint64_t term_class_sum(const term_counts *c, term_class k);
/* Sums over the classes of FLOPs, and over those of bytes. */
uint64_t term_flops_sum(const term_counts *c);
uint64_t term_bytes_sum(const term_counts *c);
/* a += b, term by term. */
void term_counts_add(term_counts *a, const term_counts *b);

#endif
