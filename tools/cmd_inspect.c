/* tally inspect: what a checkpoint holds. A container is opened and listed whether or not it is a model. */
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/options.h"
#include "tools/show.h"
#include "weights/checkpoint.h"

static json_t *shape_of(const tensor *t) {
    json_t *shape = json_array();
    for (int d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_integer(t->shape[d]));
    return shape;
}

/* {"file", "kind", "metadata", "tensors": [{"name", "shape", "dtype", "elements", "bytes"}], "n_tensors", "n_elements", "bytes"} */
static json_t *container_report(const checkpoint *c) {
    json_t *tensors = json_array();
    json_int_t n_elems = 0, bytes = 0;
    for (size_t i = 0; i < c->n_tensors; i++) {
        const tensor *t = &c->tensors[i];
        json_t *name = show_text(t->name, strlen(t->name));
        const char *type = t->type == DTYPE_OTHER ? t->type_name : dtype_info(t->type)->name;
        json_array_append_new(tensors, json_pack("{s:o?, s:o?, s:s, s:s, s:I, s:I}", "name", name, "shape", shape_of(t),
                                                 "dtype", type, "stored_as", t->type_name, "elements", (json_int_t)t->n_elems,
                                                 "bytes", (json_int_t)t->n_bytes));
        n_elems += (json_int_t)t->n_elems;
        bytes += (json_int_t)t->n_bytes;
    }
    return json_pack("{s:o?, s:s, s:o?, s:o?, s:I, s:I, s:I}", "file", show_text(c->path, strlen(c->path)), "kind",
                     checkpoint_kind_name(c->kind), "metadata", show_copy(c->meta, 64, 1000), "tensors", tensors, "n_tensors",
                     (json_int_t)c->n_tensors, "n_elements", n_elems, "bytes", bytes);
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

static void print_tensors(const json_t *tensors) {
    size_t i;
    json_t *t;
    int width = 4;
    json_array_foreach(tensors, i, t) {
        size_t n = json_string_length(json_object_get(t, "name"));
        if (n > (size_t)width && n <= 60) width = (int)n;
    }
    printf("  %-*s  %-20s %-6s %15s\n", width, "name", "shape", "dtype", "bytes");
    json_array_foreach(tensors, i, t) {
        char bytes[32];
        char *name = json_dumps(json_object_get(t, "name"), JSON_ENCODE_ANY);
        char *shape = json_dumps(json_object_get(t, "shape"), JSON_COMPACT);
        int n = name != NULL ? (int)strlen(name) - 2 : 0;
        printf("  %-*.*s  %-20s %-6s %15s\n", width, n, name != NULL ? name + 1 : "", shape != NULL ? shape : "?",
               json_string_value(json_object_get(t, "dtype")), grouped(bytes, json_integer_value(json_object_get(t, "bytes"))));
        free(name);
        free(shape);
    }
}

static int print_report(const json_t *report) {
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
    if (json_array_size(json_object_get(report, "tensors")) > 0) {
        printf("\ntensors\n");
        print_tensors(json_object_get(report, "tensors"));
    }
    if (fflush(stdout) == 0) return 0;
    fprintf(stderr, "tally: the output cannot be written\n");
    return 1;
}

int cmd_inspect(int argc, char **argv) {
    bool json = false;
    const char *model = NULL;
    const option table[] = {
        {"model", 'm', OPTION_TEXT, &model, "FILE", "the checkpoint: a file, or a Hugging Face folder", 0, 0},
        OPTION_JSON(&json),
    };
    const command help = {
        "inspect",
        "FILE [options]",
        "Lists what a checkpoint holds: its kind, its metadata (long lists shortened), every tensor with its shape, type "
        "and bytes, and the totals. Opens PyTorch, safetensors, GGUF, llama2.c and JSON files, pickles without tensors, and "
        "Hugging Face folders; the kind is found from the content.",
        "tally inspect models/level21.pt",
        table,
        sizeof table / sizeof *table};
    arguments args = {0};
    int rc = options_parse(&help, argc, argv, &args);
    if (rc >= 0) return rc;
    if (args.n + (model != NULL) != 1) return tool_usage("inspect: give one checkpoint (tally inspect --help)");
    error e = {0};
    checkpoint *c;
    if (checkpoint_open(&c, model != NULL ? model : args.items[0], &e) != OK) return tool_fail(&e);
    json_t *report = container_report(c);
    rc = json ? show_json(report) : print_report(report);
    json_decref(report);
    checkpoint_close(c);
    return rc;
}
