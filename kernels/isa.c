/* isa.c - which set of kernels this machine runs. A set that was not compiled in (another architecture) is not listed. */
#include <string.h>

#include "kernels/kernels.h"

typedef struct {
    const kernel_set *set;
    bool runs;
} candidate;

const kernel_set *kernel_set_choose(const char *name) {
    /* Best first; portable runs everywhere. */
    const candidate list[] = {
        {&kernels_portable, true},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (list[i].runs && (strcmp(name, "auto") == 0 || strcmp(name, list[i].set->name) == 0)) return list[i].set;
    }
    return NULL;
}
