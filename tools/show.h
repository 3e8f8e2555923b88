/* show.h - JSON that a tool prints: hostile texts made safe, long lists shortened. */
#ifndef TALLY_SHOW_H
#define TALLY_SHOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* A copy fit for printing, of a few MiB at most: bytes that are no UTF-8 become U+FFFD; texts of more than `most_text` bytes, and lists and objects of
 * more than `most_items` members, are cut: {"n_items": 32000, "first": [...]}. NULL: out of memory. */
json_t *show_copy(const json_t *value, size_t most_items, size_t most_text);

/* The same for a text. */
json_t *show_text(const char *bytes, size_t n);

/* Prints a value as "  a.b = 1" lines, one for each leaf; control characters are escaped. */
void show_flat(FILE *out, const char *name, const json_t *value);

/* Prints a whole report as JSON. Returns the exit status, as show_end does. */
int show_json(const json_t *report);

/* Flushes stdout. Returns the exit status: 1, with a message, when not everything could be written (good: as far as is known). */
int show_end(bool good);

#endif
