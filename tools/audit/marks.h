/* marks.h - how audit_run tells audit_trace where in a trace of memory accesses it is: by a store to an agreed address. */
#ifndef TALLY_AUDIT_MARKS_H
#define TALLY_AUDIT_MARKS_H

/* One page at a place where nothing else is: behind a program under valgrind, and outside what sanitizers keep for themselves. Store number m is to byte 64 * m of it. */
#define AUDIT_MARKS 0x20000000ull

typedef enum {
    MARK_MAP,   /* the file of address ranges has been written */
    MARK_BEGIN, /* a forward pass begins */
    MARK_TASK,  /* attention begins another reading of the cache: a tile, or a group that shares a prefix */
    MARK_END,   /* the forward pass has ended */
    N_MARKS
} audit_mark;

/* The map, one line each, addresses hexadecimal, bytes decimal, terms as in term_table[].key:
 *   TERM START BYTES NAME    an array: accesses there belong to this term
 * and when the step is over:
 *   explained TERM BYTES     counted, but not different bytes that were loaded, for a reason that docs/audit.md gives
 *   counted TERM BYTES */

#endif
