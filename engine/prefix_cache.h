/* prefix_cache.h - finds pages that already hold the beginning of a prompt, whoever computed them.
 *
 * The K and V of a token depend on it and on everything before it, so a full page is known by its own tokens and the page before:
 *
 *   block     key = (number of the block before, its page_size tokens)  ->  page
 *
 *   "the cat sat on the mat ..."        pages of 4 tokens, blocks numbered as they became known
 *    [the cat sat on] = (0,  the cat sat on)    is number 1, page 5
 *    [the mat and it] = (1,  the mat and it)    is number 2, page 9
 *    [the mat, it is] = (1,  the mat, it is)    is number 3, page 4      another prompt, from page 5 on
 *
 * Numbers are never used twice, so a chain of equal keys is equality of all tokens from the first on. A hash finds the bucket; the
 * number and the tokens are compared, so two prompts with one hash never get one another's pages.
 *
 * Nothing is held: the pages of sequences that have ended are free pages that are remembered (kv_cache.h: content), and are forgotten
 * as they are taken. Sequences release their last page first, so a chain is forgotten from its end. The same bits come out with and
 * without: what is read back is what this prompt would have written (native kernels; docs/serving.md). */
#ifndef TALLY_PREFIX_CACHE_H
#define TALLY_PREFIX_CACHE_H

#include "engine/kv_cache.h"

typedef struct {
    kv_cache *cache;
    uint64_t hash_mask; /* all ones; tests take bits away to make hashes collide */
    uint64_t n_blocks;  /* numbers given so far */
    size_t n_buckets;
    int *buckets; /* [n_buckets] first page of each; -1: none */
    /* [n_pages] what a page holds while cache->content[page] == number[page] != 0 (else the entry waits to be cleared away). */
    uint64_t *number, *before, *hash;
    int *tokens;          /* [n_pages][page_size] */
    int *next;            /* [n_pages] the next page in the bucket */
    long long n_collided; /* entries met so far with the same hash and another key */
} prefix_cache;

/* How far the pages of a sequence have been looked up or made known. All zeros for an empty sequence, and again after a truncation; a fork
 * takes a copy along. */
typedef struct {
    uint64_t last; /* number of the last block; 0: none */
    int n_blocks;
} prefix_mark;

/* For one cache, all memory taken at once. hash_mask: UINT64_MAX. */
status prefix_cache_create(prefix_cache **out, kv_cache *c, uint64_t hash_mask, error *e);
void prefix_cache_free(prefix_cache *p);

/* Lets a sequence that stands at its mark grow by whole pages that hold the next of its tokens ids[0 ... n_ids-1]; at least one token is
 * left to be computed. Returns how many tokens it grew by. */
int prefix_cache_adopt(prefix_cache *p, kv_sequence *s, prefix_mark *mark, const int *ids, int n_ids);

/* Makes the full pages beyond the mark known. ids: the sequence's tokens. */
void prefix_cache_offer(prefix_cache *p, const kv_sequence *s, prefix_mark *mark, const int *ids);

/* Bytes that it took when it was created. */
size_t prefix_cache_memory_use(const prefix_cache *p);

/* Every remembered page is found by its own key, and by no other. ERR_MISMATCH names what is broken. */
status prefix_cache_check(const prefix_cache *p, error *e);

#endif
