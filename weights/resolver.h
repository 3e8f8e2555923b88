/* resolver.h - a model configuration found from a layout, a checkpoint's metadata, and the shapes of its tensors.
 *
 * Each field comes from, in this order: what the caller gave (--heads, --config); the layout's "config"; the tensors' shapes and
 * presence; config_init's plain value. A layout gives a field as a constant, or as an expression:
 *
 *   [A, B, ...]                       the first of these that has a value
 *   {"key": path or [paths]}          metadata ("{arch}" in a path is the value of general.architecture); null counts as absent
 *   {"of": field}                     another field
 *   {"has": patterns, "then", "else"} whether there is such a tensor
 *   {"tensor": patterns}              a tensor's numbers, as a list
 *   {"value": X}                      a constant, to hang one of these on:
 *   + "map": {text: X, ...}           X in place of the value ("*": of any other; null: none); without "*", an unknown value is an error
 *   + "default": X                    where there is no value so far
 *   + "power": n, "times": X, "plus": X, "floor": true         arithmetic, in this order
 *   + "layers": {"equal": word} | {"below": X} | {"from": X} | {"cycle": [0, 1, ...]} | {"all_but_last_of": X}
 *                                     the layers of which that is true, as a list
 *   + "assume": text                  said in model.assumptions when this value is used
 *   {"ask": text}                     nobody can know: an error that says what to give */
#ifndef TALLY_RESOLVER_H
#define TALLY_RESOLVER_H

#include <stdbool.h>

#include "weights/checkpoint.h"
#include "weights/config.h"

typedef struct {
    checkpoint *c;
    const json_t *layout;
    const char *prefix;  /* of every tensor name ("_orig_mod.", "state.") */
    json_t *meta;        /* the checkpoint's, with what --config adds; owned */
    json_t *fields;      /* model_config fields resolved so far; owned */
    json_t *assumptions; /* owned until it is handed to the model */
    bool *used;          /* [c->n_tensors]: tensors that mean something to the model */
    int depth;           /* of nested resolutions: a layout that refers in circles is an error */
    status st;
    error *e;
} resolver;

/* given: fields and metadata from the caller (--config), or NULL. n_heads: --heads, or 0. resolver_free after failure too. */
status resolver_init(resolver *r, checkpoint *c, const json_t *layout, const char *prefix, const json_t *given, int n_heads,
                     error *e);
void resolver_free(resolver *r);

/* The whole configuration, checked. */
status resolver_config(resolver *r, model_config *out);

/* A field's value (borrowed), NULL where nothing says it or after an error (r->st). */
json_t *resolve_field(resolver *r, const char *field);
/* An expression's value (a new reference), NULL likewise. */
json_t *resolve_expression(resolver *r, const json_t *expression);
/* What the tensors say about a field (a new reference), NULL where they say nothing. */
json_t *resolve_from_tensors(resolver *r, const char *field);

/* A tensor that the layout's role (or its bias) names, in layer `layer`; NULL where there is none. */
const tensor *resolve_tensor(const resolver *r, const char *role, bool bias, int layer, int head);
void resolver_use(resolver *r, const tensor *t);

/* A value just made, or out of memory: so that a lack of memory is never taken for a value that is not there. */
json_t *resolver_made(resolver *r, json_t *value);
/* Adds to a list, or to the assumptions, likewise. */
void resolver_append(resolver *r, json_t *list, json_t *value);

/* Records the error once; returns NULL, so that a failing resolution is one statement. */
void *resolver_fail(resolver *r, status code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
