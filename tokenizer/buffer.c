#include "tokenizer/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/sizes.h"

bool array_reserve(void *data, size_t *capacity, size_t count, size_t n, size_t elem_bytes) {
    size_t want, bytes;
    if (!size_add(count, n, &want)) return false;
    if (want <= *capacity) return true;
    size_t grown = *capacity < SIZE_MAX / 2 ? *capacity * 2 : want;
    if (grown < want) grown = want;
    if (grown < 16) grown = 16;
    if (!size_mul(grown, elem_bytes, &bytes)) return false;
    void *old, *moved;
    memcpy(&old, data, sizeof old); /* data points at a pointer of any type */
    moved = realloc(old, bytes);
    if (moved == NULL) return false;
    memcpy(data, &moved, sizeof moved);
    *capacity = grown;
    return true; /* cppcheck-suppress memleak ; *data has it */
}

bool buffer_append(byte_buffer *b, const void *bytes, size_t n) {
    if (b->limit > 0 && (n > b->limit || b->n > b->limit - n)) return false;
    if (!array_reserve(&b->data, &b->capacity, b->n, n, 1)) return false;
    if (n > 0) memcpy(b->data + b->n, bytes, n);
    b->n += n;
    return true;
}

void buffer_free(byte_buffer *b) {
    free(b->data);
    *b = (byte_buffer){0};
}

bool ids_append(id_list *l, int id) {
    if (!array_reserve(&l->data, &l->capacity, l->n, 1, sizeof *l->data)) return false;
    l->data[l->n++] = id;
    return true;
}
