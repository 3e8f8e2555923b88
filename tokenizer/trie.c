#include "tokenizer/trie.h"

#include <stdlib.h>

#include "tokenizer/buffer.h"

static size_t slot_of(const trie *t, uint64_t key) {
    size_t mask = t->n_slots - 1;
    uint64_t h = key * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(h >> 20) & mask;
    while (t->keys[i] != 0 && t->keys[i] != key) i = (i + 1) & mask;
    return i;
}

uint32_t trie_step(const trie *t, uint32_t node, unsigned char byte) {
    if (t->n_slots == 0) return 0;
    size_t i = slot_of(t, ((uint64_t)node << 8 | byte) + 1);
    return t->keys[i] != 0 ? t->to[i] : 0;
}

static bool grow(trie *t) {
    if (t->n_nodes * 2 < t->n_slots) return true;
    trie bigger = *t;
    bigger.n_slots = t->n_slots == 0 ? 64 : t->n_slots * 4;
    bigger.keys = calloc(bigger.n_slots, sizeof *bigger.keys);
    bigger.to = calloc(bigger.n_slots, sizeof *bigger.to);
    if (bigger.keys == NULL || bigger.to == NULL) {
        free(bigger.keys);
        free(bigger.to);
        return false;
    }
    for (size_t i = 0; i < t->n_slots; i++) {
        if (t->keys[i] == 0) continue;
        size_t slot = slot_of(&bigger, t->keys[i]);
        bigger.keys[slot] = t->keys[i];
        bigger.to[slot] = t->to[i];
    }
    free(t->keys);
    free(t->to);
    *t = bigger;
    return true;
}

static bool add_node(trie *t) {
    if (t->n_nodes >= UINT32_MAX || !array_reserve(&t->value, &t->node_capacity, t->n_nodes, 1, sizeof *t->value)) return false;
    t->value[t->n_nodes++] = -1;
    return true;
}

bool trie_add(trie *t, const char *text, size_t n, int value) {
    uint32_t node = 0;
    if (n == 0) return true;
    if (t->n_nodes == 0 && !add_node(t)) return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)text[i];
        uint32_t next = trie_step(t, node, byte);
        if (next == 0) {
            if (!grow(t) || !add_node(t)) return false;
            next = (uint32_t)t->n_nodes - 1;
            uint64_t key = ((uint64_t)node << 8 | byte) + 1;
            size_t slot = slot_of(t, key);
            t->keys[slot] = key;
            t->to[slot] = next;
        }
        node = next;
    }
    if (t->value[node] < 0) t->n_strings++;
    t->value[node] = value;
    t->first[(unsigned char)text[0]] = true;
    return true;
}

void trie_free(trie *t) {
    free(t->keys);
    free(t->to);
    free(t->value);
    *t = (trie){0};
}
