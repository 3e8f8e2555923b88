/* libFuzzer: any bytes as the pickle of a PyTorch archive with two storages. (Through fuzz_checkpoint, the archive's checksum would
 * stop every change of the pickle.) */
#include <stdlib.h>
#include <string.h>

#include "tests/made_files.h"
#include "weights/container.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t storage[64];
    made_zip z = {0};
    error e;
    checkpoint *c;
    zip_entry(&z, "m/data.pkl", data, size);
    zip_entry(&z, "m/data/0", storage, sizeof storage);
    zip_entry(&z, "m/data/1", storage, 8);
    bytes b = zip_done(&z);
    if (checkpoint_open_bytes(&c, "fuzz", b.data, b.n, &e) == OK) {
        for (size_t i = 0; i < c->n_tensors; i++) {
            const tensor *t = &c->tensors[i];
            tensor_bytes out;
            if (tensor_read(c, t, &out, &e) != OK) continue;
            size_t last = 0, width = (size_t)dtype_info(t->type)->block_bytes;
            for (int d = 0; d < t->n_dims; d++) last += t->n_elems > 0 ? (size_t)((t->shape[d] - 1) * t->stride[d]) : 0;
            uint8_t copy[16];
            if (t->n_elems > 0) memcpy(copy, (const uint8_t *)out.data + last * width, width);
            tensor_release(&out);
        }
        checkpoint_close(c);
    }
    bytes_free(&b);
    return 0;
}
