#include "tools/ordered.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/session.h"

static status cannot_write(const ordered_lines *o, error *e) {
    return error_set(e, ERR_IO, "%s: cannot be written: %s", o->path, strerror(errno));
}

static status write_ready(ordered_lines *o, error *e) {
    for (; o->n_written < o->n && o->made[o->n_written]; o->n_written++) {
        char *line = o->lines[o->n_written];
        if (line == NULL) continue; /* it stands in the file */
        o->lines[o->n_written] = NULL;
        int failed = fputs(line, o->f) == EOF || putc('\n', o->f) == EOF;
        free(line);
        if (failed) return cannot_write(o, e);
    }
    return fflush(o->f) == 0 ? OK : cannot_write(o, e);
}

/* Line by line: those that go on from the beginning without a gap stay where they are, the others are taken up. *keep: bytes that stay. */
static status take_up(ordered_lines *o, const char *text, size_t n_bytes, line_number number, void *user, size_t *keep,
                      error *e) {
    const char *at = text, *end = text + n_bytes, *stop;
    size_t expected = 0;
    bool in_order = true;
    *keep = 0;
    for (; (stop = memchr(at, '\n', (size_t)(end - at))) != NULL; at = stop + 1) {
        size_t i;
        status st = number(user, at, (size_t)(stop - at), &i, e);
        if (st == OK && (i >= o->n || o->made[i])) st = error_set(e, ERR_MISMATCH, "a line of it stands there twice");
        if (st != OK) return error_prefix(e, o->path);
        o->made[i] = true;
        o->n_made++;
        in_order = in_order && i == expected++;
        if (in_order) {
            *keep = (size_t)(stop + 1 - text);
        } else if ((o->lines[i] = strndup(at, (size_t)(stop - at))) == NULL) {
            return error_set(e, ERR_MEMORY, "%s: out of memory", o->path);
        }
    }
    return OK;
}

static status resume_file(ordered_lines *o, line_number number, void *user, error *e) {
    char *text;
    size_t n_bytes, keep = 0;
    status st = file_read(o->path, &text, &n_bytes, e);
    if (st != OK) return st;
    st = take_up(o, text, n_bytes, number, user, &keep, e);
    free(text);
    if (st != OK) return st;
    o->f = fopen(o->path, "r+b");
    if (o->f == NULL || ftruncate(fileno(o->f), (off_t)keep) != 0 || fseek(o->f, 0, SEEK_END) != 0) return cannot_write(o, e);
    return write_ready(o, e);
}

status ordered_open(ordered_lines *o, const char *path, size_t n, bool resume, line_number number, void *user, error *e) {
    *o = (ordered_lines){.path = path != NULL ? path : "stdout", .n = n};
    o->lines = calloc(n + 1, sizeof *o->lines);
    o->made = calloc(n + 1, sizeof *o->made);
    if (o->lines == NULL || o->made == NULL) return error_set(e, ERR_MEMORY, "out of memory for %zu lines", n);
    if (path == NULL) {
        o->f = stdout;
        return OK;
    }
    struct stat info;
    bool there = stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
    if (there && resume) return resume_file(o, number, user, e);
    if (there) {
        return error_set(e, ERR_ARGUMENT, "%s: is there already (--resume goes on with it; to begin anew, remove it)", path);
    }
    o->f = fopen(path, "wb");
    return o->f != NULL ? OK : cannot_write(o, e);
}

status ordered_put(ordered_lines *o, size_t number, char *line, error *e) {
    if (o->made[number]) {
        free(line);
        return OK;
    }
    o->made[number] = true;
    o->lines[number] = line;
    o->n_made++;
    return number == o->n_written ? write_ready(o, e) : OK;
}

status ordered_close(ordered_lines *o, error *e) {
    status st = OK;
    for (size_t i = o->n_written; o->lines != NULL && i < o->n; i++) {
        char *line = o->lines[i];
        if (line == NULL) continue;
        if (st == OK && o->f != NULL && (fputs(line, o->f) == EOF || putc('\n', o->f) == EOF)) st = cannot_write(o, e);
        free(line);
    }
    free(o->lines);
    free(o->made);
    if (o->f != NULL && (o->f == stdout ? fflush(o->f) : fclose(o->f)) != 0 && st == OK) st = cannot_write(o, e);
    *o = (ordered_lines){0};
    return st;
}
