/* kv_check.h - the cache seen from all its tables at once: is it whole, and where is its memory?
 *
 * Both walk over every table, so they are for tests, for debugging and for reports, not for every step of a run. */
#ifndef TALLY_KV_CHECK_H
#define TALLY_KV_CHECK_H

#include "engine/kv_cache.h"

/* Between steps, with all the sequences that there are:
 *   - every page is free, in the queue once, or held by as many tables as its count says; never both, never neither;
 *   - no two pages have the same content number;
 *   - no token was ever written into a page that others held too;
 *   - no table is longer than its tokens need, holds a page twice, or has a hole but for pages dropped behind a window.
 * ERR_MISMATCH names what is broken. */
status kv_cache_check(const kv_cache *c, kv_sequence *const *seqs, int n_seqs, error *e);

/* Where the pool's bytes are. allocated = used + wasted; pages = n_held + n_remembered + n_blank. */
typedef struct {
    int n_held;             /* pages that stand in at least one table */
    int n_remembered;       /* free pages whose content is still known */
    int n_blank;            /* free pages without content */
    long long n_entries;    /* table entries: n_held, or more where pages are shared */
    long long n_tokens;     /* of all sequences, as if each had its own */
    size_t used_bytes;      /* of held pages: slots that hold a token */
    size_t allocated_bytes; /* n_held pages */
    size_t wasted_bytes;    /* slots of held pages that hold none */
    size_t shared_bytes;    /* what sharing saves: (n_entries - n_held) pages */
} kv_usage;

/* fill: room for n_pages numbers. */
void kv_cache_usage(const kv_cache *c, kv_sequence *const *seqs, int n_seqs, int *fill, kv_usage *out);

#endif
