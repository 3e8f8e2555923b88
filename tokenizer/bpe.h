/* bpe.h - byte-pair encoding: two neighbours are joined again and again, the best pair first, the leftmost of equals.
 *
 * Which pairs may be joined, and how good each is, comes from a table of pairs of ids (GPT-2, Hugging Face: Sennrich et al.
 * 2016), or from the joined text being a piece with a score (SentencePiece). Either way: a heap of candidates over a linked
 * list of symbols, n log n. */
#ifndef TALLY_BPE_H
#define TALLY_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/status.h"
#include "tokenizer/buffer.h"

typedef struct {
    uint32_t left, right; /* ids + 1; 0, 0: an empty slot */
    uint32_t rank;        /* lower is joined first */
    uint32_t id;          /* of the joined piece */
} merge;

typedef struct {
    merge *slots; /* [n_slots], a power of two */
    size_t n_slots, n;
} merge_table;

/* A pair given twice is ERR_FORMAT. */
status merges_add(merge_table *t, int left, int right, uint32_t rank, int id, error *e);
const merge *merges_find(const merge_table *t, int left, int right); /* NULL: none */
void merges_free(merge_table *t);

/* One symbol of the text: start .. start + length - 1. Joined into its left neighbour: length 0. */
typedef struct {
    uint32_t start, length;
    int32_t previous, next; /* -1: none */
    int32_t id;             /* -1: not a piece */
    bool frozen;            /* never joined */
} symbol;

typedef struct {
    uint64_t order;  /* rank << 32 | the left symbol: smallest first */
    uint32_t length; /* of both together: tells whether they are still what they were */
    int32_t id;
} candidate;

/* What encoding needs; reused from span to span. */
typedef struct {
    symbol *symbols; /* [n_symbols] */
    size_t n_symbols, symbol_capacity;
    candidate *heap; /* [n_heap] */
    size_t n_heap, heap_capacity;
} bpe_work;

bool bpe_add_symbol(bpe_work *w, size_t start, size_t length, int id, bool frozen);
void bpe_work_free(bpe_work *w);

/* May these two be joined? Fills rank and id. */
typedef bool (*bpe_pair)(const void *context, const symbol *left, const symbol *right, uint32_t *rank, int *id);

/* Joins all that can be joined. What is left: the symbols from 0 on, by next. false: no memory. */
bool bpe_join(bpe_work *w, bpe_pair pair, const void *context);

#endif
