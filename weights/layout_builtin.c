/* layout_builtin.c - the layouts that are compiled in (weights/layouts/), read when they are wanted. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kernels/embedded.h"
#include "weights/layout.h"

extern const embedded_file layout_files[];

/* A file holds one layout, or an array of them. */
static status add_file(json_t *raws, const embedded_file *f, error *e) {
    json_error_t at;
    json_t *root = json_loads(f->text, JSON_REJECT_DUPLICATES, &at);
    if (root == NULL) return error_set(e, ERR_FORMAT, "layout %s: line %d: %s", f->name, at.line, at.text);
    int failed = json_is_array(root) ? json_array_extend(raws, root) : json_array_append(raws, root);
    json_decref(root);
    return failed ? error_set(e, ERR_MEMORY, "no memory for the layouts") : OK;
}

/* The file with the layout of that name; NULL: none. */
static const embedded_file *file_of(const char *name) {
    char line[128];
    snprintf(line, sizeof line, "\"name\": \"%s\"", name);
    for (const embedded_file *f = layout_files; f->name != NULL; f++)
        if (strstr(f->text, line) != NULL) return f;
    return NULL;
}

/* Adds the files with the layouts that those in `raws` are like, until none is missing. */
static status add_bases(json_t *raws, error *e) {
    for (size_t i = 0; i < json_array_size(raws); i++) {
        const char *like = json_string_value(json_object_get(json_array_get(raws, i), "like"));
        if (like == NULL || layout_named(raws, like) != NULL) continue;
        const embedded_file *f = file_of(like);
        status s = f != NULL ? add_file(raws, f, e) : error_set(e, ERR_FORMAT, "there is no layout '%s' to be like", like);
        if (s != OK) return s;
    }
    return OK;
}

/* Finishes those of `all` that are like none, or like one that is finished; the number that are left. */
static status finish_some(json_t *all, json_t *is_done, size_t *n_left, error *e) {
    *n_left = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *raw = json_array_get(all, i), *like = json_object_get(raw, "like");
        const char *name = layout_name(raw);
        if (json_object_get(is_done, name) != NULL) continue;
        if (like != NULL && json_object_get(is_done, json_string_value(like)) == NULL) {
            ++*n_left;
            continue;
        }
        json_t *layout = layout_finished(all, raw, name, e);
        if (layout == NULL) return ERR_FORMAT;
        if (json_array_set_new(all, i, layout) != 0 || json_object_set_new(is_done, layout_name(layout), json_true()) != 0)
            return error_set(e, ERR_MEMORY, "no memory for the layouts");
    }
    return OK;
}

static status finish_all(json_t *all, error *e) {
    json_t *is_done = json_object();
    size_t n_left = 1, n_before = SIZE_MAX;
    status s = is_done != NULL ? OK : error_set(e, ERR_MEMORY, "no memory for the layouts");
    while (s == OK && n_left > 0) {
        s = finish_some(all, is_done, &n_left, e);
        if (s == OK && n_left == n_before) s = error_set(e, ERR_FORMAT, "%zu built-in layouts are like one another", n_left);
        n_before = n_left;
    }
    json_decref(is_done);
    return s;
}

json_t *layouts_with(const char *word, size_t *from, error *e) {
    json_t *all = json_array();
    status s = all != NULL ? OK : error_set(e, ERR_MEMORY, "no memory for the layouts");
    size_t i = from != NULL ? *from : 0;
    for (; s == OK && layout_files[i].name != NULL; i++) {
        if (word != NULL && strstr(layout_files[i].text, word) == NULL) continue;
        s = add_file(all, &layout_files[i], e);
        if (from == NULL) continue;
        i++;
        break;
    }
    if (from != NULL) *from = i;
    if (s == OK) s = add_bases(all, e);
    if (s == OK) s = finish_all(all, e);
    if (s == OK) return all;
    json_decref(all);
    return NULL;
}

json_t *layouts_builtin(error *e) {
    return layouts_with(NULL, NULL, e);
}
