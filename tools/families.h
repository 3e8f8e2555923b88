/* families.h - the built-in layouts as a table (tally inspect --families): docs/families.md is its output, so that it cannot drift. */
#ifndef TALLY_FAMILIES_H
#define TALLY_FAMILIES_H

/* Prints Markdown. Returns the exit status. */
int families_print(void);

#endif
