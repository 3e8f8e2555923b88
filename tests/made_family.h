/* made_family.h - small checkpoints in the names and arrangements of a family, described entry by entry. */
#ifndef TALLY_TESTS_MADE_FAMILY_H
#define TALLY_TESTS_MADE_FAMILY_H

#include "tests/made_model.h"

typedef enum { PLAIN, LESS_ONE, TRANSPOSED, FUSED, BY_GROUP, GATE_UP, EACH_HEAD, HEAD_DIM, ALONE } form;

typedef struct {
    tensor_role role;
    form form;
    const char *weight, *bias; /* printf formats for the layer (and head); bias NULL: as the weight with "bias"; "": none */
} entry;
#define END                                                                                                                    \
    { 0, ALONE, NULL, NULL }

/* The numbers of an entry as the family's file has them. */
block entry_arranged(const model *m, const entry *t, int il, bool bias, int head);
/* Its weight and its bias, where the configuration has them. il -1: not in a layer. */
void file_add_entry(tensor_file *f, const model *m, const entry *t, int il);
/* All entries up to END, in a folder with that config.json (NULL: none). */
char *family_folder(const model *m, const entry *entries, const char *config);
/* A random model of c, written so and loaded again, is recognised as `layout` and has the same logits. */
void computes_the_same(const model_config *c, const entry *entries, const char *config, const model_options *o,
                       const char *layout);

#endif
