#include "weights/row_map.h"

#include <string.h>

row_map row_map_whole(int64_t n_rows) {
    return (row_map){0, n_rows, 0, n_rows};
}

/* Position of the part in an order such as "q,k,v" or "gate,up": the rows of those before it, the rows of all. */
static bool place_in_order(const char *order, const char *part, const char *const *parts, const int64_t *sizes, row_map *out) {
    int64_t before = 0;
    bool found = false;
    for (const char *p = order; *p != '\0';) {
        size_t n = strcspn(p, ",");
        int which = -1;
        for (int i = 0; parts[i] != NULL; i++)
            if (strlen(parts[i]) == n && memcmp(parts[i], p, n) == 0) which = i;
        if (which < 0) return false;
        if (strcmp(parts[which], part) == 0) found = true, out->first = before, out->chunk = sizes[which];
        before += sizes[which];
        p += n + (p[n] == ',');
    }
    out->step = 0, out->total = before;
    return found;
}

bool row_map_qkv(const model_config *c, const slot *s, const char *order, row_map *out) {
    int64_t hd = c->head_dim, group = c->n_heads / c->n_kv_heads;
    const char *part = role_name(s->role);
    if (strcmp(order, "heads") == 0 || strcmp(order, "groups") == 0) {
        if (strcmp(order, "heads") == 0 && group != 1) return false;
        int64_t place = s->role == ROLE_Q ? 0 : s->role == ROLE_K ? group : group + 1;
        *out = (row_map){place * hd, s->role == ROLE_Q ? group * hd : hd, (group + 2) * hd, (group + 2) * hd * c->n_kv_heads};
        return true;
    }
    const char *const parts[] = {"q", "k", "v", NULL};
    const int64_t sizes[] = {config_q_dim(c), config_kv_dim(c), config_kv_dim(c)};
    return place_in_order(order, part, parts, sizes, out) && out->total == sizes[0] + 2 * sizes[1];
}

bool row_map_kv(const model_config *c, const slot *s, const char *order, row_map *out) {
    int64_t hd = c->head_dim;
    if (strcmp(order, "heads") == 0) {
        *out = (row_map){s->role == ROLE_K ? 0 : hd, hd, 2 * hd, 2 * config_kv_dim(c)};
        return true;
    }
    const char *const parts[] = {"k", "v", NULL};
    const int64_t sizes[] = {config_kv_dim(c), config_kv_dim(c)};
    return place_in_order(order, role_name(s->role), parts, sizes, out) && out->total == 2 * sizes[0];
}

bool row_map_gate_up(const model_config *c, const slot *s, const char *order, row_map *out) {
    if (strcmp(order, "interleaved") == 0) {
        *out = (row_map){s->role == ROLE_GATE ? 0 : 1, 1, 2, 2 * (int64_t)c->d_ff};
        return true;
    }
    const char *const parts[] = {"gate", "up", NULL};
    const int64_t sizes[] = {c->d_ff, c->d_ff};
    return place_in_order(order, role_name(s->role), parts, sizes, out) && out->total == 2 * sizes[0];
}
