/* memory.h - large blocks of memory: whole pages from the system, refused before the machine swaps. */
#ifndef TALLY_MEMORY_H
#define TALLY_MEMORY_H

#include <stddef.h>

/* Bytes that could be taken now without swapping (MemAvailable); SIZE_MAX where the system does not say. */
size_t memory_available(void);

/* Zeroed, page-aligned memory, huge pages where the system gives them. NULL when there is not that much available. bytes > 0. */
void *memory_take(size_t bytes);
void memory_give_back(void *memory, size_t bytes); /* NULL: nothing */

#endif
