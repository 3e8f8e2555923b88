#include "tools/presets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

status preset_load(model_config *c, const char *name, error *e) {
    for (const embedded_file *f = preset_files; f->name != NULL; f++) {
        if (strcmp(f->name, name) != 0) continue;
        if (config_from_json(c, f->text, e) != OK) return error_prefix(e, name);
        return OK;
    }
    memset(c, 0, sizeof *c);
    return error_set(e, ERR_ARGUMENT, "%s: no such preset (tally cost --presets lists them)", name);
}

/* A shape is a page of text. */
#define SHAPE_MAX_BYTES (1 << 20)

static status read_text(const char *path, char **out, error *e) {
    *out = NULL;
    FILE *f = fopen(path, "rb");
    if (f == NULL) return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    char *text = malloc(SHAPE_MAX_BYTES + 1);
    size_t n = text == NULL ? 0 : fread(text, 1, SHAPE_MAX_BYTES + 1, f);
    status s = OK;
    if (text == NULL) {
        s = error_set(e, ERR_MEMORY, "%s: no memory to read it", path);
    } else if (ferror(f)) {
        s = error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    } else if (n > SHAPE_MAX_BYTES) {
        s = error_set(e, ERR_LIMIT, "%s: longer than 1 MiB: not a shape (give a JSON file such as those of tools/presets)",
                      path);
    } else if (memchr(text, '\0', n) != NULL) {
        s = error_set(e, ERR_FORMAT, "%s: not a text (give a JSON file such as those of tools/presets)", path);
    }
    fclose(f);
    if (s != OK) {
        free(text);
        return s;
    }
    text[n] = '\0';
    *out = text;
    return OK;
}

status shape_load(model_config *c, const char *path, error *e) {
    char *text;
    memset(c, 0, sizeof *c);
    if (path[0] == '{') return config_from_json(c, path, e) == OK ? OK : error_prefix(e, "--shape");
    status s = read_text(path, &text, e);
    if (s != OK) return s;
    s = config_from_json(c, text, e);
    if (s != OK) error_prefix(e, path);
    free(text);
    return s;
}
