/* formula.h - results as the lesson writes them: formula, numbers put in, exact result, rounded result with its unit.
 *
 *   KV cache, one token
 *       2 × n_kv_heads × head_dim × n_layers × kv_bytes
 *     = 2 × 32 × 128 × 32 × 2 = 524,288 bytes = 512 KiB per token
 *
 * A report is a list of results and headings; it is filled by the code that computes, then printed as text or JSON. */
#ifndef TALLY_FORMULA_H
#define TALLY_FORMULA_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include "tools/quantity.h"

typedef struct {
    char key[96]; /* in --json; empty: a heading or a note, only printed */
    char title[320];
    char formula[256]; /* in symbols; may be empty */
    char numbers[512]; /* the same with numbers; may be empty */
    char suffix[48];   /* after the rounded result: "per token", "users"; may be empty */
    unit unit;
    bool exact; /* the value is the whole number n; else the number x */
    uint64_t n;
    double x;       /* INFINITY: never */
    char note[320]; /* a line below: what is left out, who asks; may be empty */
} result;

typedef struct {
    result *items;
    size_t n, room;
    byte_units units;
    bool failed;  /* out of memory: the report is not whole */
    result spare; /* what setters fill then */
} report;

void report_init(report *r, byte_units units);
void report_free(report *r);

/* "== title ==" between results. */
void report_heading(report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whole numbers and real ones. Returned: the new result, for setters below; valid until the next one is added. Never NULL. */
result *report_exact(report *r, const char *key, const char *title, uint64_t n, unit u);
result *report_real(report *r, const char *key, const char *title, double x, unit u);
void result_formula(result *a, const char *formula, const char *numbers, ...) __attribute__((format(printf, 3, 4)));
void result_suffix(result *a, const char *suffix);
void result_note(result *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* NULL where there is none. */
const result *report_find(const report *r, const char *key);

/* "524,288 bytes = 512 KiB per token": the exact value first, the rounded one only where it says something else. */
void result_print_value(const result *a, byte_units units, FILE *out);

void report_print(const report *r, FILE *out);
/* {key: {"title", "formula", "numbers", "value", "unit", "rounded", "note"}}; new reference, NULL when memory ran out. */
json_t *report_json(const report *r);

#endif
