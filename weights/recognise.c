#include "weights/recognise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/layout.h"
#include "weights/pattern.h"

enum { MAX_LAYOUT_BYTES = 1 << 20 };

/* How well a layout fits the names, under its best prefix. */
typedef struct {
    const json_t *layout;
    int n_found, n_required; /* tensors of layer 0 */
    size_t n_strange;        /* tensors that it has no word for */
    char prefix[PREFIX_SIZE];
    char other[PREFIX_SIZE]; /* a second prefix that fits as well */
    bool has_other;
} fit;

/* The entries that a file of this layout must have. A head may be missing (tied), and so may what is optional or computed. */
static bool is_required(const char *role, const json_t *spec) {
    return strcmp(role, "head") != 0 && !json_is_true(json_object_get(spec, "optional")) &&
           json_object_get(spec, "computed") == NULL;
}

static void count_found(const checkpoint *c, const json_t *layout, const char *prefix, int *n_found, int *n_required) {
    const char *role;
    json_t *spec;
    *n_found = *n_required = 0;
    json_object_foreach(json_object_get(layout, "tensors"), role, spec) {
        if (!is_required(role, spec)) continue;
        ++*n_required;
        *n_found += pattern_find(c, prefix, json_object_get(spec, "name"), 0, 0) != NULL;
    }
}

/* Wrappers put a prefix before every name: found from the embedding table's. */
static void try_prefixes(const checkpoint *c, fit *f, const json_t *names) {
    for (size_t i = 0; i < c->n_tensors; i++) {
        size_t n;
        char prefix[PREFIX_SIZE];
        if (!pattern_ends(names, c->tensors[i].name, &n) || n >= sizeof prefix) continue;
        memcpy(prefix, c->tensors[i].name, n);
        prefix[n] = '\0';
        int n_found, n_required;
        count_found(c, f->layout, prefix, &n_found, &n_required);
        if (n_found > f->n_found) {
            f->n_found = n_found, f->has_other = false;
            memcpy(f->prefix, prefix, n + 1);
        } else if (n_found == f->n_found && n_found > 0 && strcmp(prefix, f->prefix) != 0) {
            f->has_other = true;
            memcpy(f->other, prefix, n + 1);
        }
    }
}

static fit fit_layout(const checkpoint *c, const json_t *layout) {
    fit f = {.layout = layout};
    count_found(c, layout, "", &f.n_found, &f.n_required);
    const json_t *table = layout_spec(layout, "embedding"), *head = layout_spec(layout, "head");
    if (table != NULL) try_prefixes(c, &f, json_object_get(table, "name"));
    if (f.n_found == 0 && head != NULL) try_prefixes(c, &f, json_object_get(head, "name"));
    return f;
}

static bool knows(const json_t *layout, const char *name) {
    const char *role;
    json_t *spec;
    json_object_foreach(json_object_get(layout, "tensors"), role, spec) {
        if (pattern_matches(json_object_get(spec, "name"), name) || pattern_matches(json_object_get(spec, "bias"), name))
            return true;
    }
    return pattern_matches(json_object_get(layout, "ignore"), name);
}

static void count_strange(const checkpoint *c, fit *f) {
    size_t n = strlen(f->prefix);
    for (size_t i = 0; i < c->n_tensors; i++) {
        const char *name = c->tensors[i].name;
        if (strncmp(name, f->prefix, n) == 0) f->n_strange += !knows(f->layout, name + n);
    }
}

static bool better(const fit *a, const fit *b) {
    int64_t x = (int64_t)a->n_found * b->n_required, y = (int64_t)b->n_found * a->n_required;
    return x != y ? x > y : a->n_strange < b->n_strange;
}

/* The best of these layouts, the first among equals, if it is better than what is found already; only those that may be recognised by their
 * names, or `any`. At least half of the tensors must be there. */
static void fit_best(const checkpoint *c, const json_t *layouts, bool any, fit *best) {
    for (size_t i = 0; i < json_array_size(layouts); i++) {
        const json_t *layout = json_array_get(layouts, i);
        bool by_names = json_is_true(json_object_get(json_object_get(layout, "recognise"), "names"));
        if (!any && !by_names) continue;
        fit f = fit_layout(c, layout);
        if (f.n_required == 0 || 2 * f.n_found < f.n_required) continue;
        count_strange(c, &f);
        if (best->layout == NULL || better(&f, best)) *best = f;
    }
}

static bool is_perfect(const fit *f) {
    return f->layout != NULL && f->n_found == f->n_required && f->n_strange == 0;
}

/* Does the metadata say what the layout's "recognise": {"meta": ...} asks for? */
static bool meta_says(const checkpoint *c, const json_t *layout) {
    json_t *wanted = json_object_get(json_object_get(layout, "recognise"), "meta"), *values;
    const char *path;
    if (json_object_size(wanted) == 0) return false;
    json_object_foreach(wanted, path, values) {
        const json_t *value = meta_find(c->meta, path);
        bool found = false;
        for (size_t i = 0; i < json_array_size(values); i++) found = found || json_equal(json_array_get(values, i), value);
        if (!found) return false;
    }
    return true;
}

static void take(recognition *r, const fit *f) {
    r->layout = f->layout;
    memcpy(r->prefix, f->prefix, sizeof r->prefix);
    if (f->has_other)
        snprintf(r->note, sizeof r->note, "the file holds several models: '%.100s' is used, not '%.100s'", f->prefix, f->other);
}

/* Keeps the array that the chosen layout is in. */
static void keep(recognition *r, json_t *layouts) {
    json_decref(r->builtin);
    r->builtin = layouts;
}

static status refuse_family(recognition *r, const checkpoint *c, const char *key, const char *family, error *e) {
    fit f = {.n_required = 1};
    keep(r, layouts_builtin(e));
    if (r->builtin == NULL) return ERR_FORMAT;
    fit_best(c, r->builtin, false, &f);
    if (f.layout == NULL || f.n_found < f.n_required) fit_best(c, r->builtin, true, &f);
    if (f.layout == NULL || f.n_found < f.n_required)
        return error_set(e, ERR_UNSUPPORTED,
                         "%s: %s '%s' is not a family that Tally knows (describe it with --layout FILE.json)", c->path, key,
                         family);
    return error_set(
        e, ERR_UNSUPPORTED,
        "%s: %s '%s' is not a family that Tally knows; its tensors are named like those of '%s' (--layout %s reads "
        "them so, --layout FILE.json describes it)",
        c->path, key, family, layout_name(f.layout), layout_name(f.layout));
}

/* By what the metadata calls the family. Several layouts may answer to a name: the first whose tensors are all there, else the first. */
static status find_family(recognition *r, const checkpoint *c, const char *key, const char *family, error *e) {
    char word[128];
    snprintf(word, sizeof word, "\"%.100s\"", family);
    keep(r, layouts_with(word, NULL, e));
    if (r->builtin == NULL) return ERR_FORMAT;
    for (size_t i = 0; i < json_array_size(r->builtin); i++) {
        if (!meta_says(c, json_array_get(r->builtin, i))) continue;
        fit f = fit_layout(c, json_array_get(r->builtin, i));
        if (r->layout == NULL || f.n_found == f.n_required) take(r, &f);
        if (f.n_found == f.n_required) return OK;
    }
    return r->layout != NULL ? OK
                             : refuse_family(r, c, key, family, e); /* a family that is known: what is missing will be named */
}

/* By the names of the tensors, file by file of layouts: one that fits without a tensor missing or strange cannot be bettered. */
static status find_names(recognition *r, const checkpoint *c, error *e) {
    fit best = {.n_required = 1};
    for (size_t from = 0; !is_perfect(&best);) {
        fit before = best;
        json_t *layouts = layouts_with("\"names\": true", &from, e);
        if (layouts == NULL) return ERR_FORMAT;
        bool end = json_array_size(layouts) == 0;
        fit_best(c, layouts, false, &best);
        if (best.layout != before.layout)
            keep(r, layouts);
        else
            json_decref(layouts);
        if (end) break;
    }
    if (best.layout == NULL)
        return error_set(
            e, ERR_UNSUPPORTED,
            "%s: no layout fits its %zu tensors (the first is '%s'): describe them with --layout FILE.json; `tally inspect "
            "--layout-template` prints a draft",
            c->path, c->n_tensors, c->n_tensors > 0 ? c->tensors[0].name : "");
    take(r, &best);
    if (r->note[0] == '\0')
        snprintf(r->note, sizeof r->note, "recognised as '%s' by the names of its tensors alone", layout_name(r->layout));
    return OK;
}

static status find_layout(recognition *r, const checkpoint *c, error *e) {
    static const char *const family_keys[] = {"model_type", "general.architecture"};
    for (size_t i = 0; i < sizeof family_keys / sizeof *family_keys; i++) {
        const char *family = json_string_value(json_object_get(c->meta, family_keys[i]));
        if (family != NULL) return find_family(r, c, family_keys[i], family, e);
    }
    return find_names(r, c, e);
}

static status read_text(char **out, const char *path, error *e) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) return error_set(e, ERR_IO, "%s: is neither a built-in layout nor a file that can be opened", path);
    char *text = malloc(MAX_LAYOUT_BYTES + 1);
    size_t n = text != NULL ? fread(text, 1, MAX_LAYOUT_BYTES + 1, f) : 0;
    bool failed = ferror(f) != 0;
    fclose(f);
    if (text == NULL) return error_set(e, ERR_MEMORY, "%s: no memory", path);
    if (failed || n > MAX_LAYOUT_BYTES) {
        free(text);
        return error_set(e, failed ? ERR_IO : ERR_LIMIT, "%s: %s", path,
                         failed ? "cannot be read" : "is too large for a layout");
    }
    text[n] = '\0';
    *out = text;
    return OK;
}

static status read_layout(recognition *r, const char *path, error *e) {
    char *text = NULL;
    status s = read_text(&text, path, e);
    if (s != OK) return s;
    r->own = layout_from_text(r->builtin, text, path, e);
    free(text);
    return r->own != NULL ? OK : ERR_FORMAT;
}

status recognise(recognition *out, const checkpoint *c, const char *layout_file, error *e) {
    memset(out, 0, sizeof *out);
    if (layout_file == NULL) return find_layout(out, c, e);
    out->builtin = layouts_builtin(e);
    if (out->builtin == NULL) return ERR_FORMAT;
    const json_t *named = layout_named(out->builtin, layout_file);
    status s = named == NULL ? read_layout(out, layout_file, e) : OK;
    if (s != OK) return s;
    fit f = fit_layout(c, named != NULL ? named : out->own);
    take(out, &f);
    return OK;
}

void recognition_free(recognition *r) {
    json_decref(r->builtin);
    json_decref(r->own);
}
