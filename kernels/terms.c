#include "kernels/terms.h"

const term_info term_table[N_TERMS] = {
#define TERM_ROW(id, class, key, words) {class, key, words},
    TERM_LIST(TERM_ROW)
#undef TERM_ROW
};

uint64_t term_class_sum(const term_counts *c, term_class k) {
    uint64_t sum = 0;
    for (int i = 0; i < N_TERMS; i++) {
        if (term_table[i].class_ == k) sum += c->n[i];
    }
    return sum;
}

uint64_t term_flops_sum(const term_counts *c) {
    return term_class_sum(c, CLASS_MATMUL) + term_class_sum(c, CLASS_ATTENTION) + term_class_sum(c, CLASS_OTHER);
}

uint64_t term_bytes_sum(const term_counts *c) {
    return term_class_sum(c, CLASS_WEIGHT_BYTES) + term_class_sum(c, CLASS_KV_BYTES) + term_class_sum(c, CLASS_LOGIT_BYTES);
}

void term_counts_add(term_counts *a, const term_counts *b) {
    for (int i = 0; i < N_TERMS; i++) a->n[i] += b->n[i];
}
