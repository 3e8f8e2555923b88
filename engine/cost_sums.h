/* cost_sums.h - sums over the positions of a sequence's new rows, in closed form. Private to the prediction.
 *
 * A row at position p, in a layer with window w (0: none), sees the keys lo(p) ... p,   lo(p) = max(0, p - w + 1), or 0. */
#ifndef TALLY_COST_SUMS_H
#define TALLY_COST_SUMS_H

#include <stdint.h>

#include "engine/plan.h"

/* lo(p). */
uint64_t cost_first_key(uint64_t p, uint64_t window);

/* S: (row, visible key) pairs of the rows at n_cached ... n_cached + n_new - 1.  Sum of min(p + 1, w), or of p + 1. */
uint64_t cost_pairs(uint64_t n_cached, uint64_t n_new, uint64_t window);

/* Sum over the same rows of  p / split - lo(p) / split:  how many merges the ranges of keys that they touch need. */
uint64_t cost_merges(uint64_t n_cached, uint64_t n_new, uint64_t window, uint64_t split);

/* Tokens whose K and V one head reads in one layer: rows go in tiles of query_tile, each tile reads every key that one of its rows
 * sees once. cached: tokens below n_cached; own: the rest. */
typedef struct {
    uint64_t cached, own;
} kv_tokens;
kv_tokens cost_tokens_read(uint64_t n_cached, uint64_t n_new, uint64_t window, uint64_t query_tile);

/* Page table entries looked up in one layer: pages from that of the first row's first key to that of the last row. */
uint64_t cost_pages(uint64_t n_cached, uint64_t n_new, uint64_t window, uint64_t page_size);

#endif
