/* trie.h - byte strings by prefix: which of them does the text go on with here?
 *
 * Node 0 is the root. Edges lie in one hash table keyed by (node, byte). */
#ifndef TALLY_TRIE_H
#define TALLY_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t *keys; /* [n_slots], a power of two: (node << 8 | byte) + 1, or 0 */
    uint32_t *to;   /* [n_slots] */
    int *value;     /* [n_nodes]: what was added there, or -1 */
    size_t n_slots, n_nodes, node_capacity;
    size_t n_strings;
    bool first[256]; /* may a string begin with this byte? */
} trie;

/* A string added twice keeps its last value. false: no memory. */
bool trie_add(trie *t, const char *text, size_t n, int value);
void trie_free(trie *t);

/* The node after one more byte; 0: there is none. */
uint32_t trie_step(const trie *t, uint32_t node, unsigned char byte);

#endif
