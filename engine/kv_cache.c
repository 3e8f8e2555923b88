#include "engine/kv_cache.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/memory.h"
#include "kernels/sizes.h"

/* Free pages: behind `after`, which is a free page, or n_pages to be taken first. */
static void queue_insert(kv_cache *c, int page, int after) {
    int before = c->next[after];
    c->next[after] = c->prev[before] = page;
    c->prev[page] = after;
    c->next[page] = before;
    c->n_free++;
}

static void queue_remove(kv_cache *c, int page) {
    c->next[c->prev[page]] = c->next[page];
    c->prev[c->next[page]] = c->prev[page];
    c->n_free--;
}

/* One more table has the page. */
static void page_hold(kv_cache *c, int page) {
    if (c->n_refs[page]++ == 0) queue_remove(c, page);
}

/* One less. What has content goes to the end of the queue, the rest to the front. */
static void page_release(kv_cache *c, int page) {
    if (--c->n_refs[page] == 0) queue_insert(c, page, c->content[page] != 0 ? c->prev[c->n_pages] : c->n_pages);
}

/* A page to write in. The caller has seen that n_free > 0. */
static int page_take(kv_cache *c) {
    int page = c->next[c->n_pages];
    page_hold(c, page);
    c->n_forgotten += c->content[page] != 0;
    c->content[page] = 0;
    if (page >= c->n_touched) c->n_touched = page + 1;
    return page;
}

status kv_cache_create(kv_cache **out, const kv_layout *layout, int n_layers, int n_pages, error *e) {
    *out = NULL;
    size_t bytes;
    if (n_pages < 1) return error_set(e, ERR_ARGUMENT, "the KV cache needs at least one page (raise --kv-pages or --kv-mem)");
    if (!size_mul(layout->page_bytes, (size_t)n_pages, &bytes) || !size_mul(bytes, (size_t)n_layers, &bytes)) {
        return error_set(e, ERR_LIMIT, "a KV cache of %d pages is larger than 2^64 bytes (lower --kv-pages or --ctx-size)",
                         n_pages);
    }
    kv_cache *c = calloc(1, sizeof *c);
    if (c == NULL) return error_set(e, ERR_MEMORY, "out of memory for the KV cache");
    *c = (kv_cache){.layout = *layout, .n_layers = n_layers, .n_pages = n_pages, .pool_bytes = bytes};
    c->n_refs = calloc((size_t)n_pages, sizeof *c->n_refs);
    c->content = calloc((size_t)n_pages, sizeof *c->content);
    c->next = calloc((size_t)n_pages + 1, sizeof *c->next);
    c->prev = calloc((size_t)n_pages + 1, sizeof *c->prev);
    c->pool = pages_take(bytes);
    if (c->n_refs == NULL || c->content == NULL || c->next == NULL || c->prev == NULL || c->pool == NULL) {
        kv_cache_free(c);
        return error_set(
            e, ERR_MEMORY,
            "a KV cache of %d pages of %d tokens takes %zu bytes, and %zu are available (lower --ctx-size, --kv-pages or "
            "--kv-mem)",
            n_pages, layout->page_size, bytes, memory_available());
    }
    c->next[n_pages] = c->prev[n_pages] = n_pages;
    for (int page = 0; page < n_pages; page++) queue_insert(c, page, c->prev[n_pages]);
    *out = c;
    return OK;
}

void kv_cache_free(kv_cache *c) {
    if (c == NULL) return;
    pages_free(c->pool, c->pool_bytes);
    free(c->n_refs);
    free(c->content);
    free(c->next);
    free(c->prev);
    free(c);
}

status kv_sequence_create(kv_sequence **out, const kv_cache *c, int max_tokens, error *e) {
    *out = NULL;
    kv_sequence *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->capacity = (int)ceil_div((size_t)max_tokens, (size_t)c->layout.page_size);
        s->pages = malloc((size_t)s->capacity * sizeof *s->pages);
    }
    if (s == NULL || s->pages == NULL) {
        free(s);
        return error_set(e, ERR_MEMORY, "out of memory for the page table of a sequence of %d tokens", max_tokens);
    }
    *out = s;
    return OK;
}

void kv_sequence_free(kv_sequence *s, kv_cache *c) {
    if (s == NULL) return;
    kv_sequence_truncate(s, 0, c);
    free(s->pages);
    free(s);
}

/* Will the next token be written into a page that others hold too? */
static bool last_page_is_shared(const kv_sequence *s, const kv_cache *c) {
    return s->n_tokens % c->layout.page_size != 0 && c->n_refs[s->pages[s->n_tokens / c->layout.page_size]] > 1;
}

int kv_sequence_pages_needed(const kv_sequence *s, int n_new, const kv_cache *c) {
    size_t pages = ceil_div((size_t)s->n_tokens + (size_t)n_new, (size_t)c->layout.page_size);
    return (int)pages - s->n_pages + (n_new > 0 && last_page_is_shared(s, c));
}

static void copy_on_write(kv_sequence *s, kv_cache *c) {
    int *entry = &s->pages[s->n_tokens / c->layout.page_size], old = *entry;
    *entry = page_take(c);
    for (int il = 0; il < c->n_layers; il++) {
        memcpy(kv_cache_page(c, il, *entry), kv_cache_page(c, il, old), c->layout.page_bytes);
    }
    page_release(c, old);
    c->n_copies++;
}

status kv_sequence_reserve(kv_sequence *s, int n_new, kv_cache *c, error *e) {
    size_t pages = ceil_div((size_t)s->n_tokens + (size_t)n_new, (size_t)c->layout.page_size);
    if (pages > (size_t)s->capacity) {
        return error_set(e, ERR_LIMIT, "%zu tokens do not fit the context of %d (raise --ctx-size, or shorten the prompt)",
                         (size_t)s->n_tokens + (size_t)n_new, s->capacity * c->layout.page_size);
    }
    int needed = kv_sequence_pages_needed(s, n_new, c);
    if (needed > c->n_free) {
        return error_set(e, ERR_LIMIT,
                         "the KV cache is full: %d pages are needed and %d of %d are free (raise --kv-pages or --kv-mem)",
                         needed, c->n_free, c->n_pages);
    }
    if (n_new > 0 && last_page_is_shared(s, c)) copy_on_write(s, c);
    /* After a truncation the last page may be one with content, and will soon hold something else. */
    if (n_new > 0 && s->n_tokens % c->layout.page_size != 0) c->content[s->pages[s->n_tokens / c->layout.page_size]] = 0;
    while ((size_t)s->n_pages < pages) s->pages[s->n_pages++] = page_take(c);
    return OK;
}

void kv_sequence_commit(kv_sequence *s, int n_new, kv_cache *c) {
    for (int i = 0; i < n_new; i++) c->n_shared_writes += c->n_refs[s->pages[(s->n_tokens + i) / c->layout.page_size]] > 1;
    s->n_tokens += n_new;
}

void kv_sequence_truncate(kv_sequence *s, int n_tokens, kv_cache *c) {
    int keep = (int)ceil_div((size_t)n_tokens, (size_t)c->layout.page_size);
    while (s->n_pages > keep) {
        int page = s->pages[--s->n_pages];
        if (page >= 0) page_release(c, page);
    }
    if (s->n_dropped > s->n_pages) s->n_dropped = s->n_pages;
    s->n_tokens = n_tokens;
}

void kv_sequence_fork(kv_sequence *to, const kv_sequence *from, kv_cache *c) {
    for (int i = 0; i < from->n_pages; i++) {
        to->pages[i] = from->pages[i];
        if (to->pages[i] >= 0) page_hold(c, to->pages[i]);
    }
    to->n_pages = from->n_pages;
    to->n_dropped = from->n_dropped;
    to->n_tokens = from->n_tokens;
}

void kv_sequence_adopt(kv_sequence *s, int page, kv_cache *c) {
    page_hold(c, page);
    s->pages[s->n_pages++] = page;
    s->n_tokens += c->layout.page_size;
}

void kv_sequence_drop_before(kv_sequence *s, int pos, kv_cache *c) {
    while ((s->n_dropped + 1) * c->layout.page_size <= pos && s->n_dropped < s->n_pages) {
        page_release(c, s->pages[s->n_dropped]);
        s->pages[s->n_dropped++] = -1;
    }
}
