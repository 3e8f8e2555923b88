#include "tools/options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tool_fail(const error *e) {
    fprintf(stderr, "tally: %s\n", e->message);
    return 1;
}

int tool_usage(const char *format, ...) {
    error e;
    char text[sizeof e.message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_set(&e, ERR_ARGUMENT, "%s", text);
    tool_fail(&e);
    return 2;
}

bool parse_number(const char *text, double *out) {
    char *end;
    errno = 0;
    double x = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(x) || (errno == ERANGE && x != 0)) return false;
    *out = x;
    return true;
}

bool parse_size(const char *text, uint64_t *out) {
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1},      {"B", 1},        {"kB", 1e3},        {"MB", 1e6},           {"GB", 1e9},
                 {"TB", 1e12}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
    char *end;
    double x = strtod(text, &end);
    if (end == text || !isfinite(x)) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        double bytes = x * units[i].bytes;
        if (strcmp(end, units[i].unit) != 0 || bytes < 0 || bytes >= 0x1p63) continue;
        *out = (uint64_t)bytes;
        return true;
    }
    return false;
}

/* Index of `text` among "a|b|c"; -1 where it is not there. */
static int choice_index(const char *choices, const char *text) {
    size_t n = strlen(text);
    int index = 0;
    for (const char *p = choices;; index++) {
        size_t length = strcspn(p, "|");
        if (length == n && memcmp(p, text, n) == 0) return index;
        if (p[length] == '\0') return -1;
        p += length + 1;
    }
}

static bool in_range(const option *o, double x) {
    return (o->low == 0 && o->high == 0) || (x >= o->low && x <= o->high);
}

static int bad_value(const option *o, const char *text, const char *wanted) {
    if (o->low != 0 || o->high != 0) {
        return tool_usage("--%s %s: %s from %.10g to %.10g is needed", o->name, text, wanted, o->low, o->high);
    }
    return tool_usage("--%s %s: %s is needed", o->name, text, wanted);
}

static int set_number(const option *o, const char *text) {
    double x = 0;
    uint64_t size = 0;
    if (o->kind == OPTION_SIZE) {
        if (!parse_size(text, &size) || !in_range(o, (double)size)) return bad_value(o, text, "a size such as 24GiB or 80e9");
        *(uint64_t *)o->out = size;
        return -1;
    }
    bool whole = o->kind != OPTION_NUMBER;
    double limit = o->kind == OPTION_INT ? (double)INT_MAX : 0x1p63;
    bool good = parse_number(text, &x) && in_range(o, x);
    if (whole && (x != floor(x) || fabs(x) > limit || (o->kind == OPTION_COUNT && x < 0))) good = false;
    if (!good) return bad_value(o, text, whole ? "a whole number" : "a number");
    if (o->kind == OPTION_INT) *(int *)o->out = (int)x;
    if (o->kind == OPTION_COUNT) *(uint64_t *)o->out = (uint64_t)x;
    if (o->kind == OPTION_NUMBER) *(double *)o->out = x;
    return -1;
}

static int set_value(const option *o, const char *text) {
    if (o->kind == OPTION_TEXT) {
        *(const char **)o->out = text;
        return -1;
    }
    if (o->kind != OPTION_CHOICE) return set_number(o, text);
    int index = choice_index(o->value, text);
    if (index < 0) return tool_usage("--%s %s: one of %s is needed", o->name, text, o->value);
    *(int *)o->out = index;
    return -1;
}

/* Left column of --help; returns its width. */
static int print_option_name(const option *o) {
    int n = o->letter ? printf("  -%c, --%s", o->letter, o->name) : printf("      --%s", o->name);
    return o->value != NULL ? n + printf(" %s", o->value) : n;
}

static void print_help(const command *c) {
    printf("usage: tally %s %s\n\n%s\n\n", c->name, c->usage, c->about);
    for (size_t i = 0; i < c->n_options; i++) {
        int n = print_option_name(&c->options[i]);
        if (n > 32) n = printf("\n") - 1;
        printf("%*s%s\n", 34 - n, "", c->options[i].help);
    }
    printf("      --help                      print this\n\nexample:\n  %s\n", c->example);
}

static const option *find_long(const command *c, const char *name, size_t n) {
    for (size_t i = 0; i < c->n_options; i++) {
        if (strlen(c->options[i].name) == n && memcmp(c->options[i].name, name, n) == 0) return &c->options[i];
    }
    return NULL;
}

static const option *find_letter(const command *c, char letter) {
    for (size_t i = 0; i < c->n_options; i++) {
        if (c->options[i].letter == letter) return &c->options[i];
    }
    return NULL;
}

static int unknown(const command *c, const char *text) {
    return tool_usage("unknown option %s (tally %s --help lists them)", text, c->name);
}

/* argv[*i] is an option. Moves *i over its value. */
static int parse_option(const command *c, int argc, char **argv, int *i) {
    const char *text = argv[*i], *value = NULL;
    const option *o;
    if (text[1] == '-') {
        const char *name = text + 2;
        size_t n = strcspn(name, "=");
        if (name[n] == '=') value = name + n + 1;
        o = find_long(c, name, n);
        if (o == NULL && strncmp(name, "no-", 3) == 0 && value == NULL) {
            const option *flag = find_long(c, name + 3, n - 3);
            if (flag == NULL || flag->kind != OPTION_FLAG) return unknown(c, text);
            *(bool *)flag->out = false;
            return -1;
        }
    } else {
        o = find_letter(c, text[1]);
        if (text[2] != '\0') value = text + 2;
    }
    if (o == NULL) return unknown(c, text);
    if (o->kind == OPTION_FLAG) {
        if (value != NULL) return tool_usage("--%s takes no value", o->name);
        *(bool *)o->out = true;
        return -1;
    }
    if (value == NULL) {
        if (*i + 1 >= argc) return tool_usage("--%s needs a value (%s)", o->name, o->value);
        value = argv[++*i];
    }
    return set_value(o, value);
}

int options_parse(const command *c, int argc, char **argv, arguments *args) {
    bool options = true;
    if (args != NULL) args->n = 0;
    for (int i = 1; i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && strcmp(argv[i], "--help") == 0) {
            print_help(c);
            return 0;
        } else if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
            int rc = parse_option(c, argc, argv, &i);
            if (rc >= 0) return rc;
        } else {
            if (args == NULL || args->n == OPTIONS_MAX_ARGS) {
                return tool_usage("%s is one argument too many (tally %s --help)", argv[i], c->name);
            }
            args->items[args->n++] = argv[i];
        }
    }
    return -1;
}
