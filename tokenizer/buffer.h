/* buffer.h - bytes and ids that grow. Zeroed is empty; false means that there is no memory (what was there stays). */
#ifndef TALLY_BUFFER_H
#define TALLY_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char *data; /* [n] */
    size_t n, capacity;
    size_t limit; /* bytes at most; 0: as many as there are */
} byte_buffer;

typedef struct {
    int *data; /* [n] */
    size_t n, capacity;
} id_list;

/* Room for n more elements of that size after *count: data grows by doubling. Works for any array. */
bool array_reserve(void *data, size_t *capacity, size_t count, size_t n, size_t elem_bytes);

bool buffer_append(byte_buffer *b, const void *bytes, size_t n);
void buffer_free(byte_buffer *b);
bool ids_append(id_list *l, int id);

#endif
