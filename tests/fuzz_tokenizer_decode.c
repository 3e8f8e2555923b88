/* libFuzzer: any ids through decoders of every kind, at once and as a stream: the same bytes, whole characters only. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tokens.h"
#include "tokenizer/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MARK    "\xe2\x96\x81"
#define N_KINDS 4

static tokenizer *open_kind(int kind) {
    static const char *const decoders[N_KINDS] = {
        "{'type':'ByteLevel'}",
        "{'type':'Sequence','decoders':[{'type':'Replace','pattern':{'String':'o'},'content':'" MARK MARK
        "'},{'type':'ByteFallback'},"
        "{'type':'Fuse'},{'type':'Strip','content':'h','start':3,'stop':0}]}",
        "{'type':'Sequence','decoders':[{'type':'BPEDecoder','suffix':'l'},{'type':'Strip','content':'e','start':1,'stop':2}]}",
        "null"};
    json_t *root = byte_level_json();
    json_put(root, "decoder", decoders[kind]);
    return json_tokenizer(root);
}

/* Is a character of text cut at byte `at`? */
static bool cuts_character(const char *text, size_t n, size_t at) {
    uint32_t code;
    for (size_t back = 1; back <= 3 && back <= at; back++)
        if (utf8_decode(text + at - back, n - (at - back), &code) > (int)back) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tokenizer *kinds[N_KINDS];
    if (size < 1) return 0;
    int kind = data[0] % N_KINDS;
    if (kinds[kind] == NULL) kinds[kind] = open_kind(kind);
    const tokenizer *t = kinds[kind];
    unsigned flags = data[0] / N_KINDS % 4;
    size_t n_ids = 0, n = (size - 1) / 2;
    int *ids = malloc((n + 1) * sizeof *ids);
    if (ids == NULL) return 0;
    for (size_t i = 0; i < n; i++) {
        int id = data[1 + 2 * i] << 8 | data[2 + 2 * i];
        char *text;
        size_t n_text;
        error e;
        bool known = id < 280;
        if (tokenizer_has(t, id) != known) abort();
        if (!known && tokenizer_decode(t, &id, 1, flags, &text, &n_text, &e) != ERR_ARGUMENT) abort();
        if (known) ids[n_ids++] = id;
    }
    char *text;
    size_t n_text, done = 0, part_n;
    const char *part;
    token_stream s;
    error e;
    if (tokenizer_decode(t, ids, n_ids, flags, &text, &n_text, &e) != OK) abort();
    if (token_stream_init(&s, t, flags, &e) != OK) abort();
    for (size_t i = 0; i <= n_ids; i++) {
        if (i < n_ids && token_stream_push(&s, ids[i], &part, &part_n, &e) != OK) abort();
        if (i == n_ids) token_stream_flush(&s, &part, &part_n);
        if (part_n > n_text - done || memcmp(text + done, part, part_n) != 0) abort();
        done += part_n;
        if (cuts_character(text, n_text, done)) abort();
    }
    if (done != n_text) abort();
    token_stream_free(&s);
    free(text);
    free(ids);
    return 0;
}
