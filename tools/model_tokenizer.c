#include "tools/model_tokenizer.h"

#include <stdlib.h>
#include <string.h>

static status from_vocabulary(tokenizer **out, const json_t *vocabulary, error *e) {
    size_t n = json_array_size(vocabulary);
    const char **pieces = calloc(n > 0 ? n : 1, sizeof *pieces);
    if (pieces == NULL) return error_set(e, ERR_MEMORY, "out of memory for the vocabulary");
    char_vocab v = {
        .pieces = pieces, .n_pieces = (int)n, .bos = -1, .eos = -1, .pad = -1, .unk = -1, .source = "the layout's vocabulary"};
    for (size_t i = 0; i < n; i++) {
        pieces[i] = json_string_value(json_array_get(vocabulary, i));
        if (pieces[i] == NULL) continue;
        if (strcmp(pieces[i], "<bos>") == 0) v.bos = (int)i;
        if (strcmp(pieces[i], "<eos>") == 0) v.eos = (int)i;
        if (strcmp(pieces[i], "<pad>") == 0) v.pad = (int)i;
    }
    v.add_bos = v.bos >= 0;
    status st = tokenizer_from_chars(out, &v, e);
    free(pieces);
    return st;
}

status model_tokenizer(tokenizer **out, const checkpoint *c, const json_t *vocabulary, const char *path, error *e) {
    (void)c;
    (void)path;
    *out = NULL;
    return vocabulary != NULL ? from_vocabulary(out, vocabulary, e) : OK;
}
