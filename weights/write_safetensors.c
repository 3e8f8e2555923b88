/* write_safetensors.c - a model as a Hugging Face folder: config.json, and model.safetensors
 *
 *   n u64 | a JSON header of n bytes: {"NAME": {"dtype", "shape", "data_offsets": [from, to]}, ...} | the tensors' bytes */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/sizes.h"
#include "weights/file_out.h"
#include "weights/save.h"
#include "weights/write.h"

static char *header_of(const save_plan *p) {
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    json_int_t at = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const saved_tensor *t = &p->tensors[i];
        json_t *shape = t->n_cols ? json_pack("[ii]", t->n_rows, t->n_cols) : json_pack("[i]", t->n_rows);
        json_t *entry = json_pack("{s:s, s:o?, s:[II]}", "dtype", t->type == DTYPE_F16 ? "F16" : "F32", "shape", shape,
                                  "data_offsets", at, at + (json_int_t)t->n_bytes);
        if (header == NULL || entry == NULL || json_object_set_new(header, t->name, entry) != 0) {
            json_decref(header);
            return NULL;
        }
        at += (json_int_t)t->n_bytes;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    return text;
}

static status write_tensors(file_out *f, save_plan *p, error *e) {
    status s = OK;
    for (size_t i = 0; s == OK && i < p->n_tensors; i++) {
        unsigned char *bytes = malloc(p->tensors[i].n_bytes + 1);
        if (bytes == NULL) return error_set(e, ERR_MEMORY, "no memory for tensor '%s'", p->tensors[i].name);
        s = saved_bytes(p, &p->tensors[i], bytes, e);
        if (s == OK) s = file_out_write(f, bytes, p->tensors[i].n_bytes, e);
        free(bytes);
    }
    return s;
}

static status write_file(const char *path, save_plan *p, write_options *o, error *e) {
    file_out f = {0};
    char *header = header_of(p);
    if (header == NULL) return error_set(e, ERR_MEMORY, "%s: no memory for the header", path);
    /* Spaces up to a multiple of 8: the data begins aligned. */
    uint64_t n = strlen(header), padded = round_up(n, 8);
    status s = file_out_begin(&f, path, e);
    if (s == OK) s = file_out_write(&f, &padded, sizeof padded, e);
    if (s == OK) s = file_out_write(&f, header, n, e);
    if (s == OK) s = file_out_write(&f, "       ", padded - n, e);
    if (s == OK) s = write_tensors(&f, p, e);
    if (s == OK) o->bytes = (uint64_t)ftello(f.f);
    free(header);
    if (s == OK) return file_out_commit(&f, e);
    file_out_discard(&f);
    return s;
}

static bool set_ids(json_t *config, const model *m) {
    json_t *ends = json_array();
    bool ok = ends != NULL;
    for (int i = 0; i < m->n_eos; i++) ok = json_array_append_new(ends, json_integer(m->eos_ids[i])) == 0 && ok;
    if (m->n_eos > 0) ok = json_object_set(config, "eos", ends) == 0 && ok;
    if (m->bos_id >= 0) ok = json_object_set_new(config, "bos", json_integer(m->bos_id)) == 0 && ok;
    if (m->pad_id >= 0) ok = json_object_set_new(config, "pad", json_integer(m->pad_id)) == 0 && ok;
    if (m->vocabulary != NULL) ok = json_object_set(config, "vocabulary", m->vocabulary) == 0 && ok;
    if (m->sample_prompt != NULL) ok = json_object_set_new(config, "sample_prompt", json_string(m->sample_prompt)) == 0 && ok;
    json_decref(ends);
    return ok;
}

/* The source's own config.json with the K/V heads that are written; or every field by Tally's names. NULL: no memory. */
static json_t *config_of(const save_plan *p, const write_options *o, bool own_family) {
    json_t *config = own_family ? json_deep_copy(o->source) : config_to_object(&p->config);
    bool ok = config != NULL && (!own_family || json_equal(config, o->source));
    if (own_family && p->config.n_kv_heads != p->m->config.n_kv_heads)
        ok = json_object_set_new(config, "num_key_value_heads", json_integer(p->config.n_kv_heads)) == 0 && ok;
    const char *type = p->weights == DTYPE_F16 ? "float16" : "float32";
    if (own_family)
        ok = json_object_set_new(config, "torch_dtype", json_string(type)) == 0 && ok;
    else
        ok = json_object_set_new(config, "model_type", json_string("tally")) == 0 && set_ids(config, p->m) && ok;
    if (ok) return config;
    json_decref(config);
    return NULL;
}

static status write_config(const char *folder, const json_t *config, error *e) {
    char path[4096];
    file_out f = {0};
    char *text = config != NULL ? json_dumps(config, JSON_INDENT(2)) : NULL;
    if (text == NULL) return error_set(e, ERR_MEMORY, "%s: no memory", folder);
    snprintf(path, sizeof path, "%s/config.json", folder);
    status s = file_out_begin(&f, path, e);
    if (s == OK) s = file_out_write(&f, text, strlen(text), e);
    if (s == OK) s = file_out_write(&f, "\n", 1, e);
    free(text);
    if (s == OK) return file_out_commit(&f, e);
    file_out_discard(&f);
    return s;
}

/* Does the folder read back as what was written? */
static status check_folder(const char *folder, const save_plan *p, error *e) {
    checkpoint *c;
    model_options o;
    model_description d;
    const char *why = "?";
    status s = checkpoint_open(&c, folder, e);
    if (s != OK) return s;
    model_options_init(&o);
    s = model_describe(&d, c, &o, e);
    if (s == OK && !config_same_function(&p->config, &d.config, &why))
        s = error_set(e, ERR_MISMATCH, "%s: was written, but reads back with another %s", folder, why);
    if (s == OK) model_description_free(&d);
    checkpoint_close(c);
    return s;
}

status write_safetensors(const model *m, const char *folder, write_options *o, error *e) {
    char path[4096];
    json_t *layouts = layouts_builtin(e);
    if (layouts == NULL) return ERR_FORMAT;
    const json_t *layout = layout_named(layouts, m->layout);
    bool own = o->source != NULL && json_object_get(o->source, "model_type") != NULL && layout != NULL;
    if (o->n_kv_heads > 0 && json_object_get(o->source, "num_key_value_heads") == NULL)
        own = false; /* the family has no word for it */
    if (!own) layout = layout_named(layouts, "tally-safetensors");
    save_plan p = {0};
    status s = OK;
    if (o->weights == DTYPE_Q8_0)
        s = error_set(e, ERR_ARGUMENT, "%s: safetensors has no int8 with scales (write f16, or a .gguf)", folder);
    if (s == OK && snprintf(path, sizeof path, "%s/model.safetensors", folder) >= (int)sizeof path)
        s = error_set(e, ERR_ARGUMENT, "%s: a name that is too long", folder);
    int weights = o->weights >= 0 ? o->weights : m->layers[0].wq.type == DTYPE_F16 ? DTYPE_F16 : DTYPE_F32;
    rope_style rope = own ? m->config.rope : ROPE_HALVES;
    if (s == OK) s = save_plan_make(&p, m, layout, rope, weights, o->n_kv_heads, e);
    if (s == ERR_UNSUPPORTED && own) { /* a form that is read but not written */
        own = false, layout = layout_named(layouts, "tally-safetensors");
        s = save_plan_make(&p, m, layout, ROPE_HALVES, weights, o->n_kv_heads, e);
    }
    if (s == OK && mkdir(folder, 0777) != 0 && errno != EEXIST)
        s = error_set(e, ERR_IO, "%s: cannot be made: %s", folder, strerror(errno));
    json_t *config = s == OK ? config_of(&p, o, own) : NULL;
    if (s == OK) s = write_config(folder, config, e);
    if (s == OK) s = write_file(path, &p, o, e);
    if (s == OK) s = check_folder(folder, &p, e);
    if (s == OK) snprintf(o->layout, sizeof o->layout, "%s", layout_name(layout));
    json_decref(config);
    save_plan_free(&p);
    json_decref(layouts);
    return s;
}
