#include "kernels/dtype.h"

#include <string.h>

#include "kernels/blocks.h"
#include "kernels/sizes.h"

static const dtype_traits traits[N_DTYPES] = {
#define DTYPE_ROW(id, name, elems, bytes, decode, encode, storage) [id] = {name, elems, bytes, decode, encode, storage},
    DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

const dtype_traits *dtype_info(dtype type) {
    return &traits[type];
}

bool dtype_row_bytes(dtype type, size_t n, size_t *out) {
    const dtype_traits *t = dtype_info(type);
    return size_mul(ceil_div(n, (size_t)t->block_elems), (size_t)t->block_bytes, out);
}

dtype dtype_by_name(const char *name) {
    for (int i = 0; i < N_DTYPES; i++)
        if (strcmp(traits[i].name, name) == 0) return (dtype)i;
    return N_DTYPES;
}

void blocks_decode(float *out, const void *in, size_t n, size_t elems, size_t bytes,
                   void (*one)(float *out, const void *block)) {
    const uint8_t *block = in;
    for (; n >= elems; n -= elems, out += elems, block += bytes) one(out, block);
    if (n > 0) {
        float last[256]; /* the largest block */
        one(last, block);
        memcpy(out, last, n * sizeof *out);
    }
}
