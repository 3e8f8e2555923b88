/* options.h - command-line options as a table: one row an option, parsed and explained from the same row.
 *
 *   bool json = false; int batch = 1;
 *   const option table[] = {{"batch", 'B', OPTION_INT, &batch, "N", "users at once", 1, 1e6}, OPTION_JSON(&json)};
 *   const command help = {"cost", "[MODEL] [options]", "Predicts ...", "tally cost --preset gpt2", table, sizeof table / sizeof *table};
 *   int rc = options_parse(&help, argc, argv, &args);
 *   if (rc >= 0) return rc;                       -- 0 after --help, 2 after a mistake, which has been printed
 */
#ifndef TALLY_OPTIONS_H
#define TALLY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/status.h"

typedef enum {
    OPTION_FLAG,   /* bool *: set to true; --no-NAME sets it to false */
    OPTION_TEXT,   /* const char **: points into argv */
    OPTION_INT,    /* int * */
    OPTION_COUNT,  /* uint64_t *: a whole number, 7e9 too */
    OPTION_NUMBER, /* double * */
    OPTION_SIZE,   /* uint64_t *: bytes; 24GiB, 80e9, 16kB */
    OPTION_CHOICE  /* int *: index into value, "exact|full|none" */
} option_kind;

typedef struct {
    const char *name; /* without the dashes */
    char letter;      /* 0: long form only */
    option_kind kind;
    void *out;
    const char *value; /* the word for the value in --help; OPTION_CHOICE: the choices */
    const char *help;
    double low, high; /* OPTION_INT, _COUNT, _NUMBER, _SIZE: what is possible; both 0: anything */
} option;

#define OPTION_JSON(out)                                                                                                       \
    { "json", 0, OPTION_FLAG, out, NULL, "print one JSON object instead", 0, 0 }

typedef struct {
    const char *name;    /* of the subcommand */
    const char *usage;   /* what follows "tally NAME" */
    const char *about;   /* a paragraph */
    const char *example; /* lines, each a command */
    const option *options;
    size_t n_options;
} command;

/* What is not an option, in order; borrowed from argv. */
#define OPTIONS_MAX_ARGS 64
typedef struct {
    const char *items[OPTIONS_MAX_ARGS];
    int n;
} arguments;

/* -1: go on. Else the exit status: 0 after --help, 2 after bad usage. An option that is not given leaves *out alone.
 * `args` may be NULL where a command takes no arguments. */
int options_parse(const command *c, int argc, char **argv, arguments *args);

/* Bytes: a number, then nothing, B, kB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024). */
bool parse_size(const char *text, uint64_t *out);
/* A finite number and nothing after it. */
bool parse_number(const char *text, double *out);

/* Prints "tally: MESSAGE" on stderr. Returns 1, the exit status of a command that failed. */
int tool_fail(const error *e);
/* The same from a format; returns 2: bad usage. */
int tool_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
