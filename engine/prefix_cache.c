#include "engine/prefix_cache.h"

#include <stdlib.h>
#include <string.h>

status prefix_cache_create(prefix_cache **out, kv_cache *c, uint64_t hash_mask, error *e) {
    *out = NULL;
    size_t n = (size_t)c->n_pages, n_buckets = 16;
    while (n_buckets < n) n_buckets *= 2;
    prefix_cache *p = calloc(1, sizeof *p);
    if (p != NULL) {
        *p = (prefix_cache){.cache = c, .hash_mask = hash_mask, .n_buckets = n_buckets};
        p->buckets = malloc(n_buckets * sizeof *p->buckets);
        p->number = calloc(n, sizeof *p->number);
        p->before = calloc(n, sizeof *p->before);
        p->hash = calloc(n, sizeof *p->hash);
        p->next = calloc(n, sizeof *p->next);
        p->tokens = calloc(n, (size_t)c->layout.page_size * sizeof *p->tokens);
    }
    if (p == NULL || !p->buckets || !p->number || !p->before || !p->hash || !p->next || !p->tokens) {
        prefix_cache_free(p);
        return error_set(e, ERR_MEMORY,
                         "out of memory for the prefix cache of %zu pages (lower --kv-pages, or --no-prefix-cache)", n);
    }
    for (size_t i = 0; i < n_buckets; i++) p->buckets[i] = -1;
    *out = p;
    return OK;
}

void prefix_cache_free(prefix_cache *p) {
    if (p == NULL) return;
    free(p->buckets);
    free(p->number);
    free(p->before);
    free(p->hash);
    free(p->next);
    free(p->tokens);
    free(p);
}

size_t prefix_cache_memory_use(const prefix_cache *p) {
    size_t page = 3 * sizeof(uint64_t) + ((size_t)p->cache->layout.page_size + 1) * sizeof(int);
    return sizeof *p + p->n_buckets * sizeof *p->buckets + (size_t)p->cache->n_pages * page;
}

static int *page_tokens(const prefix_cache *p, int page) {
    return p->tokens + (size_t)page * (size_t)p->cache->layout.page_size;
}

/* A multiplication and a shift for each number: each bit of the input moves half the bits of the result. */
static uint64_t hash_add(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static uint64_t block_hash(const prefix_cache *p, uint64_t before, const int *ids) {
    uint64_t h = hash_add(0, before);
    for (int i = 0; i < p->cache->layout.page_size; i++) h = hash_add(h, (uint64_t)(unsigned)ids[i]);
    return h & p->hash_mask;
}

static int *bucket_of(const prefix_cache *p, uint64_t hash) {
    return &p->buckets[hash & (p->n_buckets - 1)];
}

/* Does the page still hold what its entry says? */
static bool is_known(const prefix_cache *p, int page) {
    return p->number[page] != 0 && p->cache->content[page] == p->number[page];
}

/* The page with this key, or -1. Entries of pages that have been taken for something else are cleared away as they are met. */
static int block_find(prefix_cache *p, uint64_t hash, uint64_t before, const int *ids) {
    size_t bytes = (size_t)p->cache->layout.page_size * sizeof *ids;
    for (int *link = bucket_of(p, hash); *link >= 0;) {
        int page = *link;
        if (!is_known(p, page)) {
            *link = p->next[page];
            p->number[page] = 0;
            continue;
        }
        if (p->hash[page] == hash) {
            if (p->before[page] == before && memcmp(page_tokens(p, page), ids, bytes) == 0) return page;
            p->n_collided++;
        }
        link = &p->next[page];
    }
    return -1;
}

/* Takes the entry that the page had in an earlier life out of its bucket. */
static void entry_clear(prefix_cache *p, int page) {
    if (p->number[page] == 0) return;
    int *link = bucket_of(p, p->hash[page]);
    while (*link != page) link = &p->next[*link];
    *link = p->next[page];
    p->number[page] = 0;
}

static void block_add(prefix_cache *p, int page, uint64_t hash, uint64_t before, const int *ids) {
    entry_clear(p, page);
    int *bucket = bucket_of(p, hash);
    p->number[page] = p->cache->content[page] = ++p->n_blocks;
    p->before[page] = before;
    p->hash[page] = hash;
    memcpy(page_tokens(p, page), ids, (size_t)p->cache->layout.page_size * sizeof *ids);
    p->next[page] = *bucket;
    *bucket = page;
}

int prefix_cache_adopt(prefix_cache *p, kv_sequence *s, prefix_mark *mark, const int *ids, int n_ids) {
    int size = p->cache->layout.page_size, start = s->n_tokens;
    if (start != mark->n_blocks * size) return 0;
    while (s->n_tokens + size < n_ids) {
        const int *block = ids + s->n_tokens;
        int page = block_find(p, block_hash(p, mark->last, block), mark->last, block);
        if (page < 0) break;
        kv_sequence_adopt(s, page, p->cache);
        mark->last = p->number[page];
        mark->n_blocks++;
    }
    return s->n_tokens - start;
}

void prefix_cache_offer(prefix_cache *p, const kv_sequence *s, prefix_mark *mark, const int *ids) {
    int size = p->cache->layout.page_size;
    for (; mark->n_blocks < s->n_tokens / size; mark->n_blocks++) {
        const int *block = ids + (size_t)mark->n_blocks * (size_t)size;
        uint64_t hash = block_hash(p, mark->last, block);
        int known = block_find(p, hash, mark->last, block), page = s->pages[mark->n_blocks];
        if (known < 0 && page >= 0) block_add(p, known = page, hash, mark->last, block);
        if (known < 0) return; /* dropped behind a window before it was offered: what follows cannot be found */
        mark->last = p->number[known];
    }
}

status prefix_cache_check(const prefix_cache *p, error *e) {
    int n = 0;
    for (size_t b = 0; b < p->n_buckets; b++) {
        for (int page = p->buckets[b]; page >= 0; page = p->next[page]) {
            if (++n > p->cache->n_pages || p->number[page] == 0 || bucket_of(p, p->hash[page]) != &p->buckets[b]) {
                return error_set(e, ERR_MISMATCH, "page %d stands in bucket %zu and should not, or twice", page, b);
            }
            if (is_known(p, page) && block_hash(p, p->before[page], page_tokens(p, page)) != p->hash[page]) {
                return error_set(e, ERR_MISMATCH, "the hash of page %d is not that of its tokens", page);
            }
        }
    }
    for (int page = 0; page < p->cache->n_pages; page++) {
        n -= p->number[page] != 0;
        if (p->cache->content[page] != 0 && p->number[page] != p->cache->content[page]) {
            return error_set(e, ERR_MISMATCH, "page %d has content %llu, and its entry says %llu", page,
                             (unsigned long long)p->cache->content[page], (unsigned long long)p->number[page]);
        }
    }
    return n == 0 ? OK : error_set(e, ERR_MISMATCH, "%d entries are in no bucket", n);
}
