/* model.c - what is left of a model besides building it: options, notes, and giving it back. */
#include "weights/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/build.h"
#include "kernels/memory.h"

void model_options_init(model_options *o) {
    *o = (model_options){.weights = -1, .mmap = -1};
}

bool model_assume(model *m, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return json_array_append_new(m->assumptions, json_string(line)) == 0;
}

void model_keep(model *m, void *kept, void (*release)(void *kept)) {
    model_memory *memory = m->memory;
    memory->kept = kept;
    memory->release = release;
}

void model_free(model *m) {
    if (m == NULL) return;
    model_memory *memory = m->memory;
    if (memory != NULL) {
        pages_free(memory->arena, memory->arena_bytes);
        if (memory->kept != NULL) memory->release(memory->kept);
        free(memory);
    }
    json_decref(m->vocabulary);
    json_decref(m->assumptions);
    free(m->sample_prompt);
    free(m->layers);
    free(m);
}
