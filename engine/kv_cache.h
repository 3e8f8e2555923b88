/* kv_cache.h - the paged KV cache: one pool of pages for all sequences, and a page table for each.
 *
 *   pool      page 0 | page 1 | page 2 | ...                 taken once; a page holds page_size tokens of one sequence, all layers
 *   table     sequence A:  3 0 7      token s lies in page table[s / page_size], slot s % page_size
 *             sequence B:  3 0 5      pages 3 and 0 are shared: both have these tokens, and their reference count is 2
 *
 * A page that is shared is never written: the one page that a forked sequence goes on writing in, its last, is copied first
 * (copy on write). Kwon et al. 2023, section 4. How K and V lie inside a page: kernels/kv_page.h.
 *
 * A page that nobody holds is free, but what lies in it is not gone: a page whose content has a number (the prefix cache gives
 * them, prefix_cache.h) can be held again until somebody takes it for something else. So remembering costs no memory: free pages
 * form a queue, those without content in front, the others behind in the order of their last use, and pages are taken from the
 * front. The least recently used is forgotten first.
 *
 *   free      -> 5 -> 9 -> 2 (content 17) -> 7 (content 4) ->          taken here first: 5; held again: 2 or 7, from the middle */
#ifndef TALLY_KV_CACHE_H
#define TALLY_KV_CACHE_H

#include "kernels/kv_page.h"
#include "kernels/status.h"

typedef struct {
    kv_layout layout;
    int n_layers, n_pages;
    unsigned char *pool; /* [n_layers][n_pages] pages of layout.page_bytes */
    size_t pool_bytes;
    int *n_refs;       /* [n_pages] tables that a page stands in; 0: free */
    uint64_t *content; /* [n_pages] a number that no other page ever has; 0: none. Gone when the page is taken */
    int *next, *prev;  /* [n_pages + 1] the queue of free pages, a ring through entry n_pages: next[n_pages] is taken first */
    int n_free;
    int n_touched;             /* pages ever taken: the part of the pool that the machine has had to give */
    long long n_copies;        /* pages copied on write so far */
    long long n_forgotten;     /* pages with content that were taken for something else so far */
    long long n_shared_writes; /* tokens written into a page that others hold too: 0, or there is a bug (kv_check.h) */
} kv_cache;

typedef struct {
    int *pages;          /* [capacity]; -1: given back, behind the window of every layer */
    int capacity;        /* pages that the longest allowed sequence takes */
    int n_pages;         /* entries in use, dropped ones included */
    int n_dropped;       /* leading entries that are -1 */
    int n_tokens;        /* tokens in the cache */
    long long last_step; /* of the engine, that it took part in: once each */
} kv_sequence;

/* Takes the pool at once. ERR_MEMORY with the sizes where the machine does not have it. */
status kv_cache_create(kv_cache **out, const kv_layout *layout, int n_layers, int n_pages, error *e);
void kv_cache_free(kv_cache *c);

/* An empty sequence of at most max_tokens. */
status kv_sequence_create(kv_sequence **out, const kv_cache *c, int max_tokens, error *e);
/* Gives its pages back; NULL: nothing. */
void kv_sequence_free(kv_sequence *s, kv_cache *c);

/* Makes room for n_new more tokens: takes pages, copies a shared last page. ERR_LIMIT, and nothing changed, when the pool has too few. */
status kv_sequence_reserve(kv_sequence *s, int n_new, kv_cache *c, error *e);
/* The n_new tokens have been written by every layer. */
void kv_sequence_commit(kv_sequence *s, int n_new, kv_cache *c);
/* Forgets tokens from n_tokens on (0, or more than what was dropped), and the pages they leave empty. */
void kv_sequence_truncate(kv_sequence *s, int n_tokens, kv_cache *c);
/* to, empty, becomes a second sequence with the same tokens: pages are shared, nothing is copied. */
void kv_sequence_fork(kv_sequence *to, const kv_sequence *from, kv_cache *c);
/* Grows by a full page that is already there, held or free. The sequence's tokens fill whole pages. */
void kv_sequence_adopt(kv_sequence *s, int page, kv_cache *c);
/* Gives back pages that hold only tokens before pos: no layer will read them again. */
void kv_sequence_drop_before(kv_sequence *s, int pos, kv_cache *c);

/* Pages that reserve(n_new) would take. */
int kv_sequence_pages_needed(const kv_sequence *s, int n_new, const kv_cache *c);

/* Bytes of one page over all layers. */
static inline size_t kv_cache_page_bytes(const kv_cache *c) {
    return c->layout.page_bytes * (size_t)c->n_layers;
}

static inline unsigned char *kv_cache_page(const kv_cache *c, int layer, int page) {
    return c->pool + ((size_t)layer * (size_t)c->n_pages + (size_t)page) * c->layout.page_bytes;
}

#endif
