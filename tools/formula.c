#include "tools/formula.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void report_init(report *r, byte_units units) {
    *r = (report){.units = units};
}

void report_free(report *r) {
    free(r->items);
    *r = (report){0};
}

/* The item to fill; when memory has run out, a spare one that nobody reads, and the report says that it failed. */
static result *report_add(report *r) {
    if (r->n == r->room && !r->failed) {
        size_t room = r->room == 0 ? 32 : 2 * r->room;
        result *items = realloc(r->items, room * sizeof *items);
        if (items == NULL) {
            r->failed = true;
        } else {
            r->items = items;
            r->room = room;
        }
    }
    result *a = r->failed ? &r->spare : &r->items[r->n++];
    *a = (result){.unit = UNIT_NONE};
    return a;
}

static void copy(char *out, size_t size, const char *text) {
    snprintf(out, size, "%s", text);
}

void report_heading(report *r, const char *format, ...) {
    result *a = report_add(r);
    va_list args;
    va_start(args, format);
    vsnprintf(a->title, sizeof a->title, format, args);
    va_end(args);
}

result *report_exact(report *r, const char *key, const char *title, uint64_t n, unit u) {
    result *a = report_add(r);
    copy(a->key, sizeof a->key, key);
    copy(a->title, sizeof a->title, title);
    a->unit = u;
    a->exact = true;
    a->n = n;
    a->x = (double)n;
    return a;
}

result *report_real(report *r, const char *key, const char *title, double x, unit u) {
    result *a = report_exact(r, key, title, 0, u);
    a->exact = false;
    a->x = x;
    return a;
}

void result_formula(result *a, const char *formula, const char *numbers, ...) {
    va_list args;
    va_start(args, numbers);
    vsnprintf(a->numbers, sizeof a->numbers, numbers, args);
    va_end(args);
    copy(a->formula, sizeof a->formula, formula);
}

void result_suffix(result *a, const char *suffix) {
    copy(a->suffix, sizeof a->suffix, suffix);
}

void result_note(result *a, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(a->note, sizeof a->note, format, args);
    va_end(args);
}

const result *report_find(const report *r, const char *key) {
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->items[i].key, key) == 0) return &r->items[i];
    }
    return NULL;
}

void result_print_value(const result *a, byte_units units, FILE *out) {
    quantity_text rounded = format_rounded(a->x, a->unit, units);
    if (isinf(a->x)) {
        fputs("never", out);
        return;
    }
    if (a->exact) {
        quantity_text exact = format_exact(a->n);
        const char *name = unit_name(a->unit);
        char whole[96];
        snprintf(whole, sizeof whole, "%s%s%s", exact.text, *name ? " " : "", name);
        fputs(whole, out);
        bool scaled = (a->unit == UNIT_BYTES || a->unit == UNIT_FLOPS) && strcmp(whole, rounded.text) != 0 &&
                      a->n >= (units == UNITS_BINARY && a->unit == UNIT_BYTES ? 1024 : 1000);
        if (scaled) fprintf(out, " = %s", rounded.text);
    } else {
        fputs(rounded.text, out);
    }
    if (a->suffix[0] != '\0') fprintf(out, " %s", a->suffix);
}

static void print_result(const result *a, byte_units units, FILE *out) {
    if (a->formula[0] == '\0' && a->numbers[0] == '\0') {
        fprintf(out, "%s: ", a->title);
    } else {
        fprintf(out, "%s\n", a->title);
        if (a->formula[0] != '\0') fprintf(out, "    %s\n", a->formula);
        fprintf(out, "  = ");
        if (a->numbers[0] != '\0') fprintf(out, "%s = ", a->numbers);
    }
    result_print_value(a, units, out);
    fputc('\n', out);
    if (a->note[0] != '\0') fprintf(out, "    (%s)\n", a->note);
}

void report_print(const report *r, FILE *out) {
    for (size_t i = 0; i < r->n; i++) {
        const result *a = &r->items[i];
        if (a->key[0] == '\0') {
            fprintf(out, "%s== %s ==\n", i > 0 ? "\n" : "", a->title);
        } else {
            print_result(a, r->units, out);
        }
    }
}

static json_t *result_json(const result *a, byte_units units) {
    json_t *value = a->exact ? json_integer((json_int_t)a->n) : isinf(a->x) ? json_null() : json_real(a->x);
    json_t *o = json_pack("{s:s, s:o, s:s, s:s}", "title", a->title, "value", value, "unit", unit_name(a->unit), "rounded",
                          isinf(a->x) ? "never" : format_rounded(a->x, a->unit, units).text);
    if (o == NULL) return NULL;
    if (a->formula[0] != '\0') json_object_set_new(o, "formula", json_string(a->formula));
    if (a->numbers[0] != '\0') json_object_set_new(o, "numbers", json_string(a->numbers));
    if (a->suffix[0] != '\0') json_object_set_new(o, "suffix", json_string(a->suffix));
    if (a->note[0] != '\0') json_object_set_new(o, "note", json_string(a->note));
    return o;
}

json_t *report_json(const report *r) {
    json_t *o = json_object();
    for (size_t i = 0; o != NULL && i < r->n; i++) {
        const result *a = &r->items[i];
        if (a->key[0] == '\0') continue;
        if (json_object_set_new(o, a->key, result_json(a, r->units)) != 0) {
            json_decref(o);
            o = NULL;
        }
    }
    return o;
}
