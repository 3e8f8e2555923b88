/* libFuzzer: any bytes as a checkpoint of any kind. Opens it, and reads every tensor of it. */
#include <stdlib.h>
#include <string.h>

#include "weights/container.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    error e;
    checkpoint *c;
    if (checkpoint_open_bytes(&c, "fuzz", data, size, &e) != OK) {
        if (e.message[0] == '\0' || c != NULL) abort();
        return 0;
    }
    for (size_t i = 0; i < c->n_tensors; i++) {
        const tensor *t = &c->tensors[i];
        tensor_bytes b;
        if (checkpoint_find(c, t->name) != t) abort();
        if (tensor_read(c, t, &b, &e) != OK) continue;
        /* The first and the last element: a sanitizer sees whether they are there. */
        if (t->n_elems > 0 && t->type != DTYPE_OTHER && t->type != DTYPE_I8G && dtype_info(t->type)->block_elems == 1) {
            size_t last = 0, width = (size_t)dtype_info(t->type)->block_bytes;
            uint8_t copy[16];
            for (int d = 0; d < t->n_dims; d++) last += (size_t)((t->shape[d] - 1) * t->stride[d]);
            memcpy(copy, b.data, width);
            memcpy(copy, (const uint8_t *)b.data + last * width, width);
        } else if (t->n_bytes > 0 && b.in_place && t->group == 0) {
            volatile uint8_t touched = ((const uint8_t *)b.data)[t->n_bytes - 1];
            (void)touched;
        }
        tensor_release(&b);
    }
    checkpoint_close(c);
    return 0;
}
