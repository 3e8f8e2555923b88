/* embedded.h - a data file compiled into the program (layouts, presets). See tools/embed.sh. */
#ifndef TALLY_EMBEDDED_H
#define TALLY_EMBEDDED_H

typedef struct {
    const char *name; /* the file's name without folder and ending; NULL ends an array */
    const char *text; /* the file's bytes, and a terminating zero */
} embedded_file;

#endif
