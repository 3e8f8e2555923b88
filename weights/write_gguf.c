/* write_gguf.c - a model as GGUF (bytes: gguf.h). */
#include <stdlib.h>
#include <string.h>

#include "kernels/sizes.h"
#include "weights/file_out.h"
#include "weights/save.h"
#include "weights/write.h"
#include "weights/write_keys.h"

enum { ALIGNMENT = 32 };

/* GGUF's numbers of types. */
static uint32_t type_number(dtype type) {
    return type == DTYPE_F32 ? 0 : type == DTYPE_F16 ? 1 : 8;
}

static void put_tensor(key_buffer *b, const saved_tensor *t, uint64_t offset) {
    key_text(b, t->name);
    key_u32(b, t->n_cols ? 2 : 1);
    if (t->n_cols) key_u64(b, (uint64_t)t->n_cols);
    key_u64(b, (uint64_t)t->n_rows);
    key_u32(b, type_number(t->type));
    key_u64(b, offset);
}

/* Everything before the tensors' bytes. */
static status make_header(key_buffer *b, const save_plan *p, const write_options *o, error *e) {
    key_buffer keys = {0};
    uint64_t n_keys = gguf_put_keys(&keys, p, o->name, o->tokenizer), offset = 0;
    key_bytes(b, "GGUF", 4);
    key_u32(b, 3);
    key_u64(b, p->n_tensors);
    key_u64(b, n_keys);
    key_bytes(b, keys.data, keys.n);
    bool failed = keys.failed;
    free(keys.data);
    for (size_t i = 0; i < p->n_tensors; i++) {
        put_tensor(b, &p->tensors[i], offset);
        offset += round_up(p->tensors[i].n_bytes, ALIGNMENT);
    }
    key_zeros(b, round_up(b->n, ALIGNMENT) - b->n);
    return failed || b->failed ? error_set(e, ERR_MEMORY, "no memory for the header") : OK;
}

static status write_tensors(file_out *f, save_plan *p, error *e) {
    static const unsigned char zeros[ALIGNMENT];
    size_t largest = 0;
    for (size_t i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].n_bytes > largest) largest = p->tensors[i].n_bytes;
    unsigned char *bytes = malloc(largest + 1);
    status s = bytes != NULL ? OK : error_set(e, ERR_MEMORY, "no memory for a tensor of %zu bytes", largest);
    for (size_t i = 0; s == OK && i < p->n_tensors; i++) {
        size_t n = p->tensors[i].n_bytes;
        s = saved_bytes(p, &p->tensors[i], bytes, e);
        if (s == OK) s = file_out_write(f, bytes, n, e);
        if (s == OK) s = file_out_write(f, zeros, round_up(n, ALIGNMENT) - n, e);
    }
    free(bytes);
    return s;
}

/* What a reader would make of the file's header, against what was meant. ERR_MISMATCH: this family is not the model's. */
static status check_reading(const char *path, const save_plan *p, error *e) {
    checkpoint *c;
    model_options o;
    model_description d;
    const char *why = "?";
    status s = checkpoint_open(&c, path, e);
    if (s != OK) return s;
    model_options_init(&o);
    s = model_describe(&d, c, &o, e);
    if (s == OK) {
        d.config.tied = p->config.tied; /* the numbers tell, and they are not written yet */
        if (!config_same_function(&p->config, &d.config, &why))
            s = error_set(e, ERR_MISMATCH, "%s: layout '%s' cannot say the model's %s", path, layout_name(p->layout), why);
        model_description_free(&d);
    }
    checkpoint_close(c);
    return s;
}

/* The header and a hole in place of the weights, but with the short lists that configure: enough to see how it will be read. */
static status try_header(file_out *f, const save_plan *p, size_t header_bytes, error *e) {
    uint64_t at = header_bytes;
    status s = OK;
    for (size_t i = 0; s == OK && i < p->n_tensors; i++) {
        const saved_tensor *t = &p->tensors[i];
        if (t->values != NULL) s = file_out_write_at(f, at, t->values, t->n_bytes, e);
        at += round_up(t->n_bytes, ALIGNMENT);
    }
    if (s == OK) s = file_out_reserve(f, at, e);
    return s == OK ? check_reading(f->partial, p, e) : s;
}

static status write_as(const model *m, const json_t *layout, const char *path, write_options *o, error *e) {
    save_plan p;
    key_buffer header = {0};
    file_out f = {0};
    status s = save_plan_make(&p, m, layout, gguf_rope_style(layout), o->weights, o->n_kv_heads, e);
    if (s != OK) return s;
    s = make_header(&header, &p, o, e);
    if (s == OK) s = file_out_begin(&f, path, e);
    if (s == OK) s = file_out_write(&f, header.data, header.n, e);
    if (s == OK) s = try_header(&f, &p, header.n, e);
    if (s == OK) s = write_tensors(&f, &p, e);
    if (s == OK) {
        o->bytes = (uint64_t)ftello(f.f);
        snprintf(o->layout, sizeof o->layout, "%s", layout_name(layout));
        s = file_out_commit(&f, e);
    } else
        file_out_discard(&f);
    free(header.data);
    save_plan_free(&p);
    return s;
}

/* Is the failure one of this family, so that another may do? */
static bool other_may_do(status s) {
    return s == ERR_MISMATCH || s == ERR_UNSUPPORTED || s == ERR_FORMAT;
}

/* The order in which families are tried: the model's own, then the most widely read, then any other, then Tally's own form. */
static int rank_of(const json_t *layout, const model *m) {
    const char *family = json_string_value(json_object_get(layout, "family")), *name = layout_name(layout);
    if (strcmp(name, "tally-gguf") == 0) return 3;
    if (family != NULL && strcmp(family, m->config.family) == 0) return 0;
    return strcmp(name, "llama-gguf") == 0 || strcmp(name, "gpt2-gguf") == 0 ? 1 : 2;
}

status write_gguf(const model *m, const char *path, write_options *o, error *e) {
    json_t *layouts = layouts_builtin(e);
    if (layouts == NULL) return ERR_FORMAT;
    status s = ERR_MISMATCH;
    for (int rank = 0; rank <= 3; rank++)
        for (size_t i = 0; i < json_array_size(layouts) && s != OK && other_may_do(s); i++) {
            const json_t *layout = json_array_get(layouts, i);
            if (gguf_architecture(layout) == NULL || rank_of(layout, m) != rank || !gguf_may_write(layout, m)) continue;
            s = write_as(m, layout, path, o, e);
        }
    json_decref(layouts);
    return s;
}
