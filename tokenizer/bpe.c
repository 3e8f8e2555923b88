#include "tokenizer/bpe.h"

#include <stdlib.h>

static size_t slot_of(const merge_table *t, uint32_t left, uint32_t right) {
    size_t mask = t->n_slots - 1;
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(h >> 24) & mask;
    while (t->slots[i].left != 0 && (t->slots[i].left != left || t->slots[i].right != right)) i = (i + 1) & mask;
    return i;
}

static bool grow(merge_table *t) {
    if (t->n * 2 < t->n_slots) return true;
    merge_table bigger = {.n = t->n, .n_slots = t->n_slots == 0 ? 256 : t->n_slots * 4};
    bigger.slots = calloc(bigger.n_slots, sizeof *bigger.slots);
    if (bigger.slots == NULL) return false;
    for (size_t i = 0; i < t->n_slots; i++)
        if (t->slots[i].left != 0) bigger.slots[slot_of(&bigger, t->slots[i].left, t->slots[i].right)] = t->slots[i];
    free(t->slots);
    *t = bigger;
    return true;
}

status merges_add(merge_table *t, int left, int right, uint32_t rank, int id, error *e) {
    if (!grow(t)) return error_set(e, ERR_MEMORY, "no memory for %zu merges", t->n);
    merge *m = &t->slots[slot_of(t, (uint32_t)left + 1, (uint32_t)right + 1)];
    if (m->left != 0) return error_set(e, ERR_FORMAT, "merge %u repeats merge %u", rank, m->rank);
    *m = (merge){(uint32_t)left + 1, (uint32_t)right + 1, rank, (uint32_t)id};
    t->n++;
    return OK;
}

const merge *merges_find(const merge_table *t, int left, int right) {
    if (t->n_slots == 0) return NULL;
    const merge *m = &t->slots[slot_of(t, (uint32_t)left + 1, (uint32_t)right + 1)];
    return m->left != 0 ? m : NULL;
}

void merges_free(merge_table *t) {
    free(t->slots);
    *t = (merge_table){0};
}

bool bpe_add_symbol(bpe_work *w, size_t start, size_t length, int id, bool frozen) {
    if (!array_reserve(&w->symbols, &w->symbol_capacity, w->n_symbols, 1, sizeof *w->symbols)) return false;
    int32_t i = (int32_t)w->n_symbols++;
    w->symbols[i] = (symbol){(uint32_t)start, (uint32_t)length, i - 1, -1, id, frozen};
    if (i > 0) w->symbols[i - 1].next = i;
    return true;
}

void bpe_work_free(bpe_work *w) {
    free(w->symbols);
    free(w->heap);
    *w = (bpe_work){0};
}

/* The heap has four children a node: half as many levels as with two, and the four lie together in memory. */
#define FANOUT 4

static void sift_down(candidate *heap, size_t n, size_t i) {
    candidate moving = heap[i];
    for (size_t first; (first = FANOUT * i + 1) < n;) {
        size_t last = first + FANOUT < n ? first + FANOUT : n, best = first;
        for (size_t child = first + 1; child < last; child++)
            if (heap[child].order < heap[best].order) best = child;
        if (heap[best].order >= moving.order) break;
        heap[i] = heap[best];
        i = best;
    }
    heap[i] = moving;
}

static void sift_up(candidate *heap, size_t i) {
    candidate moving = heap[i];
    for (; i > 0 && heap[(i - 1) / FANOUT].order > moving.order; i = (i - 1) / FANOUT) heap[i] = heap[(i - 1) / FANOUT];
    heap[i] = moving;
}

/* Puts the pair that begins at symbol `left` at the end of the heap's array, if it may be joined. */
static bool propose(bpe_work *w, int32_t left, bpe_pair pair, const void *context) {
    const symbol *a = &w->symbols[left];
    if (a->next < 0) return true;
    const symbol *b = &w->symbols[a->next];
    uint32_t rank;
    int id;
    if (a->frozen || b->frozen || !pair(context, a, b, &rank, &id)) return true;
    if (!array_reserve(&w->heap, &w->heap_capacity, w->n_heap, 1, sizeof *w->heap)) return false;
    w->heap[w->n_heap++] = (candidate){(uint64_t)rank << 32 | (uint32_t)left, a->length + b->length, id};
    return true;
}

static bool push(bpe_work *w, int32_t left, bpe_pair pair, const void *context) {
    size_t before = w->n_heap;
    if (left < 0) return true;
    if (!propose(w, left, pair, context)) return false;
    if (w->n_heap > before) sift_up(w->heap, before);
    return true;
}

static candidate pop(bpe_work *w) {
    candidate best = w->heap[0];
    w->heap[0] = w->heap[--w->n_heap];
    if (w->n_heap > 0) sift_down(w->heap, w->n_heap, 0);
    return best;
}

/* A candidate is out of date where one of its symbols has been joined since: the lengths tell. */
static bool still_there(const bpe_work *w, const candidate *c) {
    const symbol *a = &w->symbols[(uint32_t)c->order];
    return a->length > 0 && a->next >= 0 && a->length + w->symbols[a->next].length == c->length;
}

bool bpe_join(bpe_work *w, bpe_pair pair, const void *context) {
    w->n_heap = 0;
    for (size_t i = 0; i + 1 < w->n_symbols; i++)
        if (!propose(w, (int32_t)i, pair, context)) return false;
    for (size_t i = (w->n_heap + FANOUT - 2) / FANOUT; i-- > 0;) sift_down(w->heap, w->n_heap, i);
    while (w->n_heap > 0) {
        candidate c = pop(w);
        if (!still_there(w, &c)) continue;
        int32_t left = (int32_t)(uint32_t)c.order;
        symbol *a = &w->symbols[left], *b = &w->symbols[a->next];
        a->length = c.length;
        a->id = c.id;
        a->next = b->next;
        b->length = 0;
        if (a->next >= 0) w->symbols[a->next].previous = left;
        if (!push(w, a->previous, pair, context) || !push(w, left, pair, context)) return false;
    }
    return true;
}
