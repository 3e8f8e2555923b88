/* unigram.h - the most probable way to cut a text into pieces (Kudo 2018): Viterbi over the lattice of pieces.
 *
 *   best[j] = max over pieces ending at j of best[start] + score(piece)
 *
 * Where no piece covers exactly one character, that character is "unknown" with the lowest score less 10. */
#ifndef TALLY_UNIGRAM_H
#define TALLY_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "tokenizer/trie.h"

#define UNIGRAM_MAX_PIECE 1024 /* bytes; encoding takes that much time a byte at worst */

typedef struct {
    trie pieces;           /* values are ids */
    const double *scores;  /* [n_ids] log probabilities */
    double unknown;        /* score of an unknown character */
    bool single_precision; /* sums are rounded to fp32 at every step, as SentencePiece does */
} unigram;

/* How the best path reaches a place of the text. */
typedef struct {
    double score;
    size_t start; /* where its last piece begins */
    int id;       /* the piece; -1: unknown; -2: not reached yet */
} unigram_node;

/* Fills nodes[0 .. n] for a text of n bytes. The path is read from nodes[n] backwards. */
void unigram_search(const unigram *u, const char *text, size_t n, unigram_node *nodes);

#endif
