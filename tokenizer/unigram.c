#include "tokenizer/unigram.h"

#include "tokenizer/utf8.h"

/* SentencePiece keeps the best sums in fp32 and compares them with new ones in double precision: so do ties come out. */
static void offer(const unigram *u, unigram_node *to, double score, size_t start, int id) {
    if (to->id != -2 && score <= to->score) return;
    *to = (unigram_node){u->single_precision ? (double)(float)score : score, start, id};
}

void unigram_search(const unigram *u, const char *text, size_t n, unigram_node *nodes) {
    for (size_t i = 0; i <= n; i++) nodes[i] = (unigram_node){0, 0, -2};
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t node = 0;
        bool has_single = false;
        length = utf8_step(text + i, n - i);
        for (size_t j = i; j < n; j++) {
            node = trie_step(&u->pieces, node, (unsigned char)text[j]);
            if (node == 0) break;
            int id = u->pieces.value[node];
            if (id < 0) continue;
            if (j + 1 - i == length) has_single = true;
            offer(u, &nodes[j + 1], nodes[i].score + u->scores[id], i, id);
        }
        if (!has_single) offer(u, &nodes[i + length], nodes[i].score + u->unknown, i, -1);
    }
}
