/* config_fields.h - the fields of model_config by name: for reading and writing them as JSON. Private to weights/. */
#ifndef TALLY_CONFIG_FIELDS_H
#define TALLY_CONFIG_FIELDS_H

#include <stddef.h>

#include "weights/config.h"

typedef enum { FIELD_INT, FIELD_BOOL, FIELD_FLOAT, FIELD_DOUBLE, FIELD_ENUM } field_kind;

typedef struct {
    const char *key;
    field_kind kind;
    size_t offset;
    const char *names; /* FIELD_ENUM: the values' names in order, each followed by a space */
} field;

/* All but family, rope_factors and window_layers, which have forms of their own. */
extern const field config_fields[];
extern const size_t n_config_fields;

#endif
