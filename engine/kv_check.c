#include "engine/kv_check.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sizes.h"

/* n[page]: how many tables it stands in. */
static status check_table(const kv_cache *c, const kv_sequence *s, int number, int *n, error *e) {
    int needed = (int)ceil_div((size_t)s->n_tokens, (size_t)c->layout.page_size);
    if (s->n_pages != needed || s->n_pages > s->capacity) {
        return error_set(e, ERR_MISMATCH, "the table of sequence %d has %d entries, and its %d tokens need %d", number,
                         s->n_pages, s->n_tokens, needed);
    }
    for (int i = 0; i < s->n_pages; i++) {
        int page = s->pages[i];
        if ((page == -1) != (i < s->n_dropped) || page < -1 || page >= c->n_pages) {
            return error_set(e, ERR_MISMATCH, "entry %d of sequence %d is page %d (of %d; %d were dropped)", i, number, page,
                             c->n_pages, s->n_dropped);
        }
        if (page >= 0) n[page]++;
    }
    return OK;
}

enum { IN_QUEUE = INT_MAX };

/* n[page] becomes IN_QUEUE for every page in the queue. */
static status check_queue(const kv_cache *c, int *n, error *e) {
    int length = 0;
    for (int page = c->next[c->n_pages]; page != c->n_pages; page = c->next[page]) {
        if (page < 0 || page > c->n_pages || n[page] != 0 || c->prev[c->next[page]] != page) {
            return error_set(e, ERR_MISMATCH, "page %d is in the queue of free pages, and in a table or in the queue twice",
                             page);
        }
        n[page] = IN_QUEUE;
        length++;
    }
    if (length != c->n_free) {
        return error_set(e, ERR_MISMATCH, "%d pages are in the queue, and %d are counted", length, c->n_free);
    }
    return OK;
}

static int compare_numbers(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static status check_contents(const kv_cache *c, error *e) {
    uint64_t *sorted = malloc((size_t)c->n_pages * sizeof *sorted);
    if (sorted == NULL) return error_set(e, ERR_MEMORY, "out of memory for a check");
    memcpy(sorted, c->content, (size_t)c->n_pages * sizeof *sorted);
    qsort(sorted, (size_t)c->n_pages, sizeof *sorted, compare_numbers);
    status st = OK;
    for (int i = 1; i < c->n_pages && st == OK; i++) {
        if (sorted[i] == 0 || sorted[i] != sorted[i - 1]) continue;
        st = error_set(e, ERR_MISMATCH, "two pages have the content number %llu", (unsigned long long)sorted[i]);
    }
    free(sorted);
    return st;
}

static status check_counts(const kv_cache *c, const int *n, error *e) {
    for (int page = 0; page < c->n_pages; page++) {
        bool is_free = n[page] == IN_QUEUE;
        if (c->n_refs[page] != (is_free ? 0 : n[page]) || n[page] == 0) {
            return error_set(e, ERR_MISMATCH, "page %d is %s, stands in %d tables, and its count is %d", page,
                             is_free ? "free" : "not free", is_free ? 0 : n[page], c->n_refs[page]);
        }
    }
    return OK;
}

status kv_cache_check(const kv_cache *c, kv_sequence *const *seqs, int n_seqs, error *e) {
    if (c->n_shared_writes != 0) {
        return error_set(e, ERR_MISMATCH, "%lld tokens were written into pages that others hold too", c->n_shared_writes);
    }
    int *n = calloc((size_t)c->n_pages, sizeof *n);
    if (n == NULL) return error_set(e, ERR_MEMORY, "out of memory for a check");
    status st = OK;
    for (int i = 0; i < n_seqs && st == OK; i++) st = check_table(c, seqs[i], i, n, e);
    if (st == OK) st = check_queue(c, n, e);
    if (st == OK) st = check_counts(c, n, e);
    if (st == OK) st = check_contents(c, e);
    free(n);
    return st;
}

void kv_cache_usage(const kv_cache *c, kv_sequence *const *seqs, int n_seqs, int *fill, kv_usage *out) {
    *out = (kv_usage){.n_held = c->n_pages - c->n_free};
    memset(fill, 0, (size_t)c->n_pages * sizeof *fill);
    long long slots = 0;
    for (int i = 0; i < n_seqs; i++) {
        const kv_sequence *s = seqs[i];
        out->n_tokens += s->n_tokens;
        out->n_entries += s->n_pages - s->n_dropped;
        for (int p = s->n_dropped; p < s->n_pages; p++) {
            int left = s->n_tokens - p * c->layout.page_size, n = left < c->layout.page_size ? left : c->layout.page_size;
            int *f = &fill[s->pages[p]];
            if (n > *f) slots += n - *f, *f = n;
        }
    }
    for (int page = c->next[c->n_pages]; page != c->n_pages; page = c->next[page]) out->n_remembered += c->content[page] != 0;
    out->n_blank = c->n_free - out->n_remembered;
    size_t token = kv_cache_page_bytes(c) / (size_t)c->layout.page_size;
    out->used_bytes = (size_t)slots * token;
    out->allocated_bytes = (size_t)out->n_held * kv_cache_page_bytes(c);
    out->wasted_bytes = out->allocated_bytes - out->used_bytes;
    out->shared_bytes = (size_t)(out->n_entries - out->n_held) * kv_cache_page_bytes(c);
}
