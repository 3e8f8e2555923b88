/* write_keys.h - the keys of a GGUF file: a growing buffer, and what goes into it. Private to the writers. */
#ifndef TALLY_WRITE_KEYS_H
#define TALLY_WRITE_KEYS_H

#include "weights/save.h"

typedef struct {
    unsigned char *data; /* the owner frees it */
    size_t n, capacity;
    bool failed; /* out of memory: what was put since is lost */
} key_buffer;

void key_bytes(key_buffer *b, const void *bytes, size_t n);
void key_zeros(key_buffer *b, size_t n);
void key_u32(key_buffer *b, uint32_t v);
void key_u64(key_buffer *b, uint64_t v);
void key_text(key_buffer *b, const char *text); /* length, bytes */

/* All keys for the plan's layout; returns how many. name: general.name. tokenizer: an object of GGUF keys, or NULL. */
uint64_t gguf_put_keys(key_buffer *b, const save_plan *p, const char *name, const json_t *tokenizer);

/* general.architecture of a layout; NULL: it is not for GGUF. */
const char *gguf_architecture(const json_t *layout);
rope_style gguf_rope_style(const json_t *layout);
/* "writes": fields that must have a value if llama.cpp is to read the result. */
bool gguf_may_write(const json_t *layout, const model *m);

#endif
