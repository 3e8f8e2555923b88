/* tally lesson: every number of the lesson, from the code of `tally cost`; what can be run stands beside it, counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/cost_request.h"
#include "tools/lesson.h"
#include "tools/show.h"

enum { MAX_WORDS = 64 };

/* Copies the key at *at, and moves *at behind it; false at the end. */
static bool next_key(char *out, size_t size, const char **at) {
    size_t n = strcspn(*at, " ");
    if (n == 0 || n >= size) return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n + strspn(*at + n, " ");
    return true;
}

/* Asks `tally cost` in the row's own words. */
static status ask(report *r, const lesson_row *row, error *e) {
    char text[1024], *words[MAX_WORDS] = {"cost"}, *rest = NULL;
    int n = 1;
    cost_request request;
    snprintf(text, sizeof text, "%s", row->command);
    for (char *w = strtok_r(text, " ", &rest); w != NULL && n < MAX_WORDS; w = strtok_r(NULL, " ", &rest)) words[n++] = w;
    if (cost_request_parse(&request, n, words) >= 0) return error_set(e, ERR_ARGUMENT, "%s: the question is wrong", row->words);
    status s = cost_request_load(&request, e);
    r->units = request.question.units;
    if (s == OK) s = cost_request_answer(r, &request, e);
    char key[64];
    for (const char *at = row->keys; s == OK && next_key(key, sizeof key, &at);) {
        if (report_find(r, key) == NULL) s = error_set(e, ERR_ARGUMENT, "%s: there is no answer %s", row->words, key);
    }
    return s;
}

/* In a shell a JSON text needs quotes. */
static void print_command(const lesson_row *row) {
    printf("  $ tally cost ");
    bool inside = false;
    for (const char *p = row->command; *p != '\0'; p++) {
        if (*p == '{') putchar('\''), inside = true;
        putchar(*p);
        if (*p == '}' && inside) putchar('\''), inside = false;
    }
    putchar('\n');
}

/* The first of the row's results: what is counted. */
static uint64_t predicted(const lesson_row *row, const report *r) {
    char key[64];
    const char *at = row->keys;
    return next_key(key, sizeof key, &at) ? report_find(r, key)->n : 0;
}

static void print_row(const lesson_row *row, const report *r, const uint64_t *counted) {
    char key[64];
    printf("\n%s\n", row->words);
    for (const char *at = row->keys; next_key(key, sizeof key, &at);) {
        const result *a = report_find(r, key);
        printf("  %s: ", a->title);
        if (a->numbers[0] != '\0') printf("%s = ", a->numbers);
        result_print_value(a, r->units, stdout);
        putchar('\n');
    }
    if (counted != NULL) {
        printf("  counted in a run: %s%s\n", format_exact(*counted).text, *counted == predicted(row, r) ? "" : "  DIFFERS");
    }
    print_command(row);
}

static json_t *row_json(const lesson_row *row, const report *r, const uint64_t *counted) {
    char key[64];
    json_t *all = report_json(r), *results = json_object();
    for (const char *at = row->keys; next_key(key, sizeof key, &at);) json_object_set(results, key, json_object_get(all, key));
    json_decref(all);
    json_t *o = json_pack("{s:s, s:s, s:o}", "question", row->words, "command", row->command, "results", results);
    if (counted != NULL) json_object_set_new(o, "counted", json_integer((json_int_t)*counted));
    return o;
}

/* One row; *agrees becomes false where what was counted is not what was predicted. rows: JSON, or NULL for text. */
static status show_row(const lesson_row *row, json_t *rows, bool run, bool *agrees, error *e) {
    report r;
    uint64_t counted = 0;
    bool count = run && row->run != RUN_NONE;
    report_init(&r, UNITS_BINARY);
    status s = ask(&r, row, e);
    if (s == OK && count) s = lesson_count(&counted, row, e);
    if (s == OK && rows != NULL) json_array_append_new(rows, row_json(row, &r, count ? &counted : NULL));
    if (s == OK && rows == NULL) print_row(row, &r, count ? &counted : NULL);
    if (s == OK && count && counted != predicted(row, &r)) *agrees = false;
    report_free(&r);
    return s;
}

int cmd_lesson(int argc, char **argv) {
    bool json = false, run = true;
    const option options[] = {
        {"run", 0, OPTION_FLAG, &run, NULL, "count by running where that is possible (default; --no-run)", 0, 0},
        OPTION_JSON(&json),
    };
    const command help = {
        "lesson",
        "[options]",
        "Every number of the lesson \"Inference cost: memory and speed\", from the code of `tally cost`, with the command "
        "that asks for it. What a small model can be run for stands beside it, counted; exit status 1 where the two differ.",
        "tally lesson",
        options,
        sizeof options / sizeof *options};
    int rc = options_parse(&help, argc, argv, NULL);
    if (rc >= 0) return rc;
    json_t *sections = json ? json_array() : NULL, *rows = NULL;
    bool agrees = true;
    error e;
    for (const lesson_row *row = lesson_rows; row->words != NULL; row++) {
        if (row->section == NULL) {
            if (show_row(row, rows, run, &agrees, &e) != OK) return tool_fail(&e);
        } else if (json) {
            rows = json_array();
            json_array_append_new(sections, json_pack("{s:s, s:o}", "section", row->section, "rows", rows));
        } else {
            printf("%s== %s ==\n", row == lesson_rows ? "" : "\n", row->section);
        }
    }
    if (json) {
        json_t *o = json_pack("{s:o, s:b}", "sections", sections, "agrees", agrees);
        rc = show_json(o);
        json_decref(o);
        return rc == 0 && agrees ? 0 : 1;
    }
    printf("\n%s\n", agrees ? "counted = predicted wherever a model was run" : "counted DIFFERS from predicted");
    return agrees ? 0 : 1;
}
