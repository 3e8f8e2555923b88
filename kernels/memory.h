/* memory.h - one large piece of memory for a model's tensors, and what the machine has left. */
#ifndef TALLY_MEMORY_H
#define TALLY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Anonymous pages: zero, page-aligned, taken from the machine only as they are written; large ones in huge pages where the system
 * has them. NULL when out of address space. */
void *pages_alloc(size_t bytes);
void pages_free(void *p, size_t bytes);

/* The same, but NULL where the machine would have to swap. */
void *pages_take(size_t bytes);

/* Bytes that can be had without swapping (MemAvailable, and the control group's limit); SIZE_MAX where the system does not say. */
size_t memory_available(void);

#endif
