#include "tests/made_family.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void name_of(char *out, size_t size, const char *format, int layer, int head) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    snprintf(out, size, format, layer, head);
#pragma GCC diagnostic pop
}

static void bias_format(char *out, size_t size, const entry *t) {
    size_t n = strlen(t->weight);
    if (t->bias != NULL)
        snprintf(out, size, "%s", t->bias);
    else if (n > 6 && strcmp(t->weight + n - 6, "weight") == 0)
        snprintf(out, size, "%.*sbias", (int)(n - 6), t->weight);
    else
        snprintf(out, size, "%s", "");
}

static void append_rows(block *to, const model *m, tensor_role role, int il, bool bias, int first, int n) {
    block all = block_of(m, role, il, bias), some = block_rows(&all, first, n);
    block_append(to, &some);
    block_free(&all), block_free(&some);
}

static int rows_in(const model *m, tensor_role role) {
    return model_matrix((model *)m, role, 0)->n_rows;
}

/* The numbers of an entry as the family's file has them. */
block entry_arranged(const model *m, const entry *t, int il, bool bias, int head) {
    const model_config *c = &m->config;
    block out = {0};
    int hd = c->head_dim, group = c->n_heads / c->n_kv_heads;
    switch (t->form) {
    case FUSED:
        append_rows(&out, m, ROLE_Q, il, bias, 0, rows_in(m, ROLE_Q)),
            append_rows(&out, m, ROLE_K, il, bias, 0, rows_in(m, ROLE_K));
        append_rows(&out, m, ROLE_V, il, bias, 0, rows_in(m, ROLE_V));
        return out;
    case BY_GROUP:
        for (int g = 0; g < c->n_kv_heads; g++) {
            append_rows(&out, m, ROLE_Q, il, bias, g * group * hd, group * hd);
            append_rows(&out, m, ROLE_K, il, bias, g * hd, hd), append_rows(&out, m, ROLE_V, il, bias, g * hd, hd);
        }
        return out;
    case GATE_UP:
        append_rows(&out, m, ROLE_GATE, il, bias, 0, c->d_ff), append_rows(&out, m, ROLE_UP, il, bias, 0, c->d_ff);
        return out;
    case EACH_HEAD:
        append_rows(&out, m, t->role, il, bias, head * hd, hd);
        return out;
    default:
        out = block_of(m, t->role, il, bias);
        break;
    }
    if (t->form == LESS_ONE)
        for (int i = 0; i < out.n_rows; i++) out.x[i] -= 1;
    if ((t->form == TRANSPOSED || t->form == HEAD_DIM) && !bias) {
        block turned = block_transposed(&out);
        block_free(&out);
        out = turned;
    }
    return out;
}

/* One tensor with a dim for the heads, input dim before output dim: q, k, v [heads, d, hd], o [heads, hd, d], biases [heads, hd]. */
static void add_head_dim(tensor_file *f, const model *m, const entry *t, int il, bool bias, const char *name) {
    block all = {0};
    int hd = m->config.head_dim, n = t->role == ROLE_Q || t->role == ROLE_O ? m->config.n_heads : m->config.n_kv_heads;
    block whole = block_of(m, t->role, il, bias);
    for (int h = 0; h < n; h++) {
        block part, turned;
        if (t->role == ROLE_O) { /* rows of the transposed matrix that this head feeds */
            block t_all = block_transposed(&whole);
            turned = block_rows(&t_all, h * hd, hd);
            block_free(&t_all);
        } else {
            part = block_rows(&whole, h * hd, hd);
            turned = bias ? block_rows(&part, 0, hd) : block_transposed(&part);
            block_free(&part);
        }
        block_append(&all, &turned);
        block_free(&turned);
    }
    int dims[3] = {n, t->role == ROLE_O || bias ? hd : m->config.d_model, t->role == ROLE_O ? m->config.d_model : hd};
    file_add_dims(f, name, &all, bias ? 2 : 3, dims);
    block_free(&all), block_free(&whole);
}

void file_add_entry(tensor_file *f, const model *m, const entry *t, int il) {
    int n_heads = t->form != EACH_HEAD ? 1 : t->role == ROLE_Q ? m->config.n_heads : m->config.n_kv_heads;
    for (int bias = 0; bias < 2; bias++)
        for (int h = 0; h < n_heads; h++) {
            char format[256], name[256];
            if (!role_wanted(&m->config, t->role, bias)) continue;
            snprintf(format, sizeof format, "%s", t->weight);
            if (bias) bias_format(format, sizeof format, t);
            name_of(name, sizeof name, format, il, h);
            if (t->form == HEAD_DIM && !(bias && t->role == ROLE_O)) {
                add_head_dim(f, m, t, il, bias, name);
                continue;
            }
            block b = entry_arranged(m, t, il, bias, h);
            file_add(f, name, &b);
            block_free(&b);
        }
}

char *family_folder(const model *m, const entry *entries, const char *config) {
    tensor_file f = {0};
    for (const entry *t = entries; t->weight != NULL; t++) {
        if (!role_in_layers(t->role))
            file_add_entry(&f, m, t, -1);
        else
            for (int il = 0; il < m->config.n_layers; il++) file_add_entry(&f, m, t, il);
    }
    return file_folder(&f, config);
}

void computes_the_same(const model_config *c, const entry *entries, const char *config, const model_options *o,
                       const char *layout) {
    model *m = made_random(c);
    char *folder = family_folder(m, entries, config);
    model *loaded = made_load(folder, o);
    if (strcmp(loaded->layout, layout) != 0) fail_msg("recognised as %s, expected %s", loaded->layout, layout);
    double difference = made_difference(m, loaded, 14);
    if (!(difference < 2e-5)) fail_msg("%s: logits differ by %g", layout, difference);
    model_free(loaded), model_free(m), folder_remove(folder);
}
