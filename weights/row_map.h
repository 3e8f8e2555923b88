/* row_map.h - where a slot's rows are among those of a fused tensor. */
#ifndef TALLY_ROW_MAP_H
#define TALLY_ROW_MAP_H

#include "weights/slots.h"

/* Where a slot's rows lie among those of a fused tensor (or of one head's fused tensor), and how many rows that has in all. */
typedef struct {
    int64_t first, chunk, step, total;
} row_map;

/* A tensor of its own. */
row_map row_map_whole(int64_t n_rows);

/* q, k, v (k, v; gate, up) in a fused tensor of that order (docs/layouts.md, "order"); false: an order that these heads cannot have. */
bool row_map_qkv(const model_config *c, const slot *s, const char *order, row_map *out);
bool row_map_kv(const model_config *c, const slot *s, const char *order, row_map *out);
bool row_map_gate_up(const model_config *c, const slot *s, const char *order, row_map *out);

#endif
