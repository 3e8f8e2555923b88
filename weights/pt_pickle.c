/* pt_pickle.c - a bare pickle without tensors: nanoGPT's meta.pkl and the like. Everything in it becomes metadata. */
#include <string.h>

#include "weights/pickle.h"

static recognition recognise(const uint8_t *data, size_t size) {
    return size >= 2 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 9 ? MAYBE_MINE : NOT_MINE;
}

static status no_tensors(void *user, tensor *t, const pickle_storage *storage, const char *name, error *e) {
    (void)user, (void)t, (void)storage;
    return error_set(e, ERR_FORMAT, "tensor %s: in a pickle that has no storages", name);
}

static status open_pickle(reader *r, int shard, error *e) {
    const source *s = &r->sources[shard];
    pickle p;
    if (!reader_charge(r, s->size, e)) return ERR_LIMIT;
    status result = pickle_read(&p, r, s->data, s->size, e);
    if (result != OK) return result;
    result = pickle_visit(&(pickle_visitor){.p = &p, .r = r, .found = no_tensors}, e);
    pickle_free(&p);
    return result;
}

const container_format container_pickle = {.kind = CHECKPOINT_PICKLE, .recognise = recognise, .open = open_pickle};
