#include "tools/prompts.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/session.h"

/* Where in the file an error is. */
typedef struct {
    const char *path;
    int line;
    error *e;
} place;

#define AT(p) (p)->path, (p)->line

static status get_number(const json_t *v, const char *key, double low, double high, bool whole, double *out, const place *p) {
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= low && x <= high) || (whole && x != (double)(long long)x)) {
        return error_set(p->e, ERR_ARGUMENT, "%s:%d: \"%s\": a %snumber from %.10g to %.10g is needed", AT(p), key,
                         whole ? "whole " : "", low, high);
    }
    *out = x;
    return OK;
}

/* Numbers that stand in for options. The checks of what makes sense are sampling_check's. */
static status set_number(prompt *q, const char *key, const json_t *v, bool *known, const place *p) {
    const struct {
        const char *key;
        double low, high;
        int *whole;
        float *real;
    } keys[] = {
        {"n_predict", -1, INT_MAX, &q->n_predict, NULL},  {"samples", 1, 4096, &q->n_samples, NULL},
        {"top_k", 0, INT_MAX, &q->sampling.top_k, NULL},  {"repeat_last_n", -1, INT_MAX, &q->sampling.repeat_last_n, NULL},
        {"temp", 0, 1e6, NULL, &q->sampling.temperature}, {"top_p", 0, 1, NULL, &q->sampling.top_p},
        {"min_p", 0, 1, NULL, &q->sampling.min_p},        {"repeat_penalty", 0, 1e6, NULL, &q->sampling.repeat_penalty},
    };
    double x = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(keys[i].key, key) != 0) continue;
        *known = true;
        status st = get_number(v, key, keys[i].low, keys[i].high, keys[i].whole != NULL, &x, p);
        if (st == OK && keys[i].whole != NULL) *keys[i].whole = (int)x;
        if (st == OK && keys[i].real != NULL) *keys[i].real = (float)x;
        return st;
    }
    if (strcmp(key, "seed") != 0) return OK;
    *known = true;
    status st = get_number(v, key, 0, 9e15, true, &x, p);
    q->seed = (uint64_t)x;
    return st;
}

static status set_ids(prompt *q, const json_t *v, const place *p) {
    size_t i;
    const json_t *one;
    if (!json_is_array(v)) return error_set(p->e, ERR_ARGUMENT, "%s:%d: \"ids\" is a list of token ids, as [1, 5, 6]", AT(p));
    json_array_foreach(v, i, one) {
        if (json_is_integer(one) && json_integer_value(one) >= 0 && json_integer_value(one) <= INT_MAX) continue;
        return error_set(p->e, ERR_ARGUMENT, "%s:%d: number %zu of \"ids\" is not a token id", AT(p), i + 1);
    }
    q->ids = v;
    return OK;
}

static status set_key(prompt *q, const char *key, const json_t *v, const place *p) {
    bool known = false;
    if (strcmp(key, "id") == 0) {
        q->id = v;
        return OK;
    }
    if (strcmp(key, "ids") == 0) return set_ids(q, v, p);
    if (strcmp(key, "prompt") == 0) {
        if (!json_is_string(v)) return error_set(p->e, ERR_ARGUMENT, "%s:%d: \"prompt\" is not a text", AT(p));
        q->text = json_string_value(v);
        q->n_bytes = json_string_length(v);
        return OK;
    }
    status st = set_number(q, key, v, &known, p);
    if (st != OK || known) return st;
    return error_set(
        p->e, ERR_ARGUMENT,
        "%s:%d: unknown key \"%s\" (prompt, ids, id, n_predict, samples, seed, temp, top_k, top_p, min_p, repeat_penalty, "
        "repeat_last_n)",
        AT(p), key);
}

static status read_object(prompt_list *out, prompt *q, const char *line, size_t n, const place *p) {
    json_error_t why;
    json_t *object = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (object == NULL) return error_set(p->e, ERR_FORMAT, "%s:%d: not a JSON object: %s", AT(p), why.text);
    if (json_array_append_new(out->objects, object) != 0) return error_set(p->e, ERR_MEMORY, "%s:%d: out of memory", AT(p));
    if (!json_is_object(object)) return error_set(p->e, ERR_FORMAT, "%s:%d: not a JSON object", AT(p));
    const char *key;
    json_t *v;
    status st = OK;
    json_object_foreach(object, key, v) {
        if (st == OK) st = set_key(q, key, v, p);
    }
    if (st == OK && (q->text == NULL) == (q->ids == NULL)) {
        st = error_set(p->e, ERR_ARGUMENT, "%s:%d: either \"prompt\" or \"ids\" is needed", AT(p));
    }
    if (st == OK && sampling_check(&q->sampling, p->e) != OK) {
        char where[64];
        snprintf(where, sizeof where, "line %d", p->line);
        error_prefix(p->e, where);
        st = error_prefix(p->e, p->path);
    }
    return st;
}

static status add_line(prompt_list *out, const char *line, size_t n, bool objects, const prompt *like, const place *p) {
    prompt *q = &out->items[out->n];
    *q = *like;
    q->line = p->line;
    q->slot = out->n_slots;
    if (objects) {
        status st = read_object(out, q, line, n, p);
        if (st != OK) return st;
    } else {
        q->text = line;
        q->n_bytes = n;
    }
    out->n++;
    out->n_slots += (size_t)q->n_samples;
    return OK;
}

static bool is_blank(const char *line, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (line[i] != ' ' && line[i] != '\t') return false;
    }
    return true;
}

static status read_lines(prompt_list *out, bool objects, const prompt *like, place *p) {
    const char *at = out->file, *end = out->file + out->n_bytes;
    size_t room = 1;
    for (const char *c = at; c < end; c++) room += *c == '\n';
    out->items = calloc(room, sizeof *out->items);
    out->objects = json_array();
    if (out->items == NULL || out->objects == NULL) return error_set(p->e, ERR_MEMORY, "%s: out of memory", p->path);
    for (p->line = 1; at < end; p->line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop != NULL ? stop : end) - at), length = n;
        if (length > 0 && at[length - 1] == '\r') length--;
        if (!is_blank(at, length)) {
            status st = add_line(out, at, length, objects, like, p);
            if (st != OK) return st;
        }
        at += n + 1;
    }
    return out->n > 0 ? OK : error_set(p->e, ERR_FORMAT, "%s: no prompt in it", p->path);
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

status prompts_read(prompt_list *out, const char *path, prompts_format format, const generation_options *o, uint64_t seed,
                    error *e) {
    *out = (prompt_list){0};
    status st = file_read(path, &out->file, &out->n_bytes, e);
    if (st != OK) return st;
    bool objects =
        format == PROMPTS_JSONL || (format == PROMPTS_BY_NAME && (ends_with(path, ".jsonl") || ends_with(path, ".ndjson")));
    prompt like = {.sampling = o->sampling, .n_predict = o->n_predict, .n_samples = o->samples, .seed = seed};
    st = read_lines(out, objects, &like, &(place){.path = path, .e = e});
    if (st != OK) prompts_free(out);
    return st;
}

void prompts_free(prompt_list *p) {
    free(p->items);
    free(p->file);
    json_decref(p->objects);
    *p = (prompt_list){0};
}
