/* tally inspect: what a checkpoint holds. A container is opened and listed whether or not it is a model. */
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/options.h"
#include "tools/show.h"
#include "tools/families.h"
#include "tools/layout_template.h"
#include "weights/model.h"

static json_t *shape_of(const tensor *t) {
    json_t *shape = json_array();
    for (int d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_integer(t->shape[d]));
    return shape;
}

/* One tensor: {"name", "shape", "dtype", "stored_as", "elements", "bytes"}. */
static json_t *tensor_report(const tensor *t) {
    const char *type = t->type == DTYPE_OTHER ? t->type_name : dtype_info(t->type)->name;
    return json_pack("{s:o?, s:o?, s:s, s:s, s:I, s:I}", "name", show_text(t->name, strlen(t->name)), "shape", shape_of(t),
                     "dtype", type, "stored_as", t->type_name, "elements", (json_int_t)t->n_elems, "bytes",
                     (json_int_t)t->n_bytes);
}

/* {"file", "kind", "metadata", "n_tensors", "n_elements", "bytes"}. The tensors are printed one by one: a report of all of them
 * would take more memory than the checkpoint. */
static json_t *container_report(const checkpoint *c) {
    json_int_t n_elems = 0, bytes = 0;
    for (size_t i = 0; i < c->n_tensors; i++) {
        n_elems += (json_int_t)c->tensors[i].n_elems;
        bytes += (json_int_t)c->tensors[i].n_bytes;
    }
    return json_pack("{s:o?, s:s, s:o?, s:I, s:I, s:I}", "file", show_text(c->path, strlen(c->path)), "kind",
                     checkpoint_kind_name(c->kind), "metadata", show_copy(c->meta, 64, 1000), "n_tensors",
                     (json_int_t)c->n_tensors, "n_elements", n_elems, "bytes", bytes);
}

/* The report's members, and "tensors" at the end. */
static int print_json(const json_t *report, const checkpoint *c) {
    char *text = json_dumps(report, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (text == NULL) return show_end(false);
    printf("%.*s,\n \"tensors\": [", (int)strlen(text) - 2, text); /* without the closing brace */
    free(text);
    for (size_t i = 0; i < c->n_tensors; i++) {
        json_t *t = tensor_report(&c->tensors[i]);
        fputs(i > 0 ? ",\n  " : "\n  ", stdout);
        json_dumpf(t, stdout, 0);
        json_decref(t);
    }
    printf("\n ]\n}\n");
    return show_end(true);
}

/* 416036 as 416,036, into one of the caller's buffers. */
static const char *grouped(char out[32], json_int_t n) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

static void print_tensors(const checkpoint *c) {
    int width = 4;
    for (size_t i = 0; i < c->n_tensors; i++) {
        size_t n = strlen(c->tensors[i].name);
        if (n > (size_t)width && n <= 60) width = (int)n;
    }
    printf("\ntensors\n  %-*s  %-20s %-6s %15s\n", width, "name", "shape", "dtype", "bytes");
    for (size_t i = 0; i < c->n_tensors; i++) {
        char bytes[32];
        json_t *t = tensor_report(&c->tensors[i]);
        char *name = json_dumps(json_object_get(t, "name"), JSON_ENCODE_ANY);
        char *shape = json_dumps(json_object_get(t, "shape"), JSON_COMPACT);
        int n = name != NULL ? (int)strlen(name) - 2 : 0;
        printf("  %-*.*s  %-20s %-6s %15s\n", width, n, name != NULL ? name + 1 : "", shape != NULL ? shape : "?",
               json_string_value(json_object_get(t, "dtype")), grouped(bytes, (json_int_t)c->tensors[i].n_bytes));
        free(name);
        free(shape);
        json_decref(t);
    }
}

static void print_lines(const char *title, const json_t *lines) {
    size_t i;
    json_t *line;
    if (json_array_size(lines) == 0) return;
    printf("\n%s\n", title);
    json_array_foreach(lines, i, line) printf("  - %s\n", json_string_value(line));
}

/* {"layout", "config", "parameters", "assumptions"}, or {"not_recognised": why} */
static void print_model(const json_t *found) {
    char n[32];
    const char *why = json_string_value(json_object_get(found, "not_recognised")), *key;
    json_t *counts = json_object_get(found, "parameters"), *count;
    if (why != NULL) {
        printf("\nas a model: not recognised\n  %s\n", why);
        return;
    }
    printf("\nmodel (layout %s)\n", json_string_value(json_object_get(found, "layout")));
    show_flat(stdout, "", json_object_get(found, "config"));
    printf("\nparameters\n");
    json_object_foreach(counts, key, count) printf("  %-12s %15s\n", key, grouped(n, json_integer_value(count)));
    print_lines("assumed, because the file does not say", json_object_get(found, "assumptions"));
}

static int print_report(const json_t *report, const checkpoint *opened) {
    char a[32], b[32], c[32];
    json_t *meta = json_object_get(report, "metadata");
    printf("%s: %s, %s tensors, %s elements, %s bytes\n", json_string_value(json_object_get(report, "file")),
           json_string_value(json_object_get(report, "kind")),
           grouped(a, json_integer_value(json_object_get(report, "n_tensors"))),
           grouped(b, json_integer_value(json_object_get(report, "n_elements"))),
           grouped(c, json_integer_value(json_object_get(report, "bytes"))));
    if (json_object_size(meta) > 0) {
        printf("\nmetadata\n");
        show_flat(stdout, "", meta);
    }
    if (json_object_get(report, "model") != NULL) print_model(json_object_get(report, "model"));
    if (opened->n_tensors > 0) print_tensors(opened);
    return show_end(true);
}

static json_t *counts_report(const model_config *c) {
    param_counts p = config_params(c);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)p.total, "matrices", (json_int_t)p.matrices,
                     "biases", (json_int_t)p.biases, "norms", (json_int_t)p.norms, "embedding", (json_int_t)p.embedding,
                     "positions", (json_int_t)p.positions);
}

/* What the container is as a model. That it is none is no failure, unless the caller said how to read it. */
static status add_model_report(json_t *report, checkpoint *c, const model_options *o, error *e) {
    model_description d;
    status s = model_describe(&d, c, o, e);
    json_t *found;
    if (s != OK && (o->layout_file != NULL || o->config_file != NULL)) return s;
    if (s != OK) {
        found = json_pack("{s:o?}", "not_recognised", show_text(e->message, strlen(e->message)));
    } else {
        found = json_pack("{s:s, s:o?, s:o?, s:O}", "layout", d.layout, "config", config_to_object(&d.config), "parameters",
                          counts_report(&d.config), "assumptions", d.assumptions);
        model_description_free(&d);
    }
    return json_object_set_new(report, "model", found) == 0 ? OK : error_set(e, ERR_MEMORY, "%s: no memory", c->path);
}

int cmd_inspect(int argc, char **argv) {
    bool json = false, template = false, families = false;
    const char *file = NULL;
    model_options o;
    model_options_init(&o);
    const option table[] = {
        {"model", 'm', OPTION_TEXT, &file, "FILE", "the checkpoint: a file, or a Hugging Face folder", 0, 0},
        {"layout", 0, OPTION_TEXT, &o.layout_file, "FILE",
         "how the tensors are to be read: a layout file, or a built-in one's name", 0, 0},
        {"config", 0, OPTION_TEXT, &o.config_file, "FILE", "JSON with what the file does not say", 0, 0},
        {"heads", 0, OPTION_INT, &o.n_heads, "N", "query heads, where the file does not say", 1, 1 << 20},
        {"families", 0, OPTION_FLAG, &families, NULL, "no FILE: print the families that Tally knows, as Markdown", 0, 0},
        {"layout-template", 0, OPTION_FLAG, &template, NULL,
         "print a first draft of a layout file, made from the names of the tensors", 0, 0},
        OPTION_JSON(&json),
    };
    const command help = {"inspect",
                          "FILE [options]",
                          "Lists what a checkpoint holds: its kind, its metadata (long lists shortened), the model that Tally "
                          "takes it for and what "
                          "it had to assume, every tensor with its shape, type and bytes, and the totals. Opens PyTorch, "
                          "safetensors, GGUF, llama2.c and JSON files, pickles without tensors, and "
                          "Hugging Face folders; the kind is found from the content.",
                          "tally inspect models/level21.pt",
                          table,
                          sizeof table / sizeof *table};
    arguments args = {0};
    int rc = options_parse(&help, argc, argv, &args);
    if (rc >= 0) return rc;
    if (families && args.n == 0 && file == NULL) return families_print();
    if (args.n + (file != NULL) != 1) return tool_usage("inspect: give one checkpoint (tally inspect --help)");
    error e = {0};
    checkpoint *c;
    if (checkpoint_open(&c, file != NULL ? file : args.items[0], &e) != OK) return tool_fail(&e);
    if (template) {
        rc = layout_template(c, &o);
        checkpoint_close(c);
        return rc;
    }
    json_t *report = container_report(c);
    if (c->n_tensors > 0 && add_model_report(report, c, &o, &e) != OK) {
        json_decref(report);
        checkpoint_close(c);
        return tool_fail(&e);
    }
    rc = json ? print_json(report, c) : print_report(report, c);
    json_decref(report);
    checkpoint_close(c);
    return rc;
}
