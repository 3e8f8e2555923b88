/* libFuzzer: any bytes as a tokenizer's file. The first byte chooses: tokenizer.json, GGUF metadata, SentencePiece, llama2.c.
 * What opens must encode, and decode its own ids. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static status open_file(tokenizer **out, bool llama2c, const uint8_t *data, size_t size, error *e) {
    char path[64];
    int fd = memfd_create("tokenizer", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    status s = llama2c ? tokenizer_from_llama2c(out, path, e) : tokenizer_from_sentencepiece(out, path, e);
    close(fd);
    return s;
}

static status open_gguf(tokenizer **out, const uint8_t *data, size_t size, error *e) {
    json_t *meta = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);
    *out = NULL;
    if (!json_is_object(meta)) {
        json_decref(meta);
        return error_set(e, ERR_FORMAT, "no object");
    }
    status s = tokenizer_from_gguf(out, meta, "fuzz.gguf", e);
    json_decref(meta);
    return s;
}

static void use(const tokenizer *t, const char *text, size_t n) {
    int *ids;
    char *back;
    size_t n_ids, n_back;
    error e;
    if (tokenizer_encode(t, text, n, TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL, &ids, &n_ids, &e) != OK) {
        if (e.message[0] == '\0' || ids != NULL) abort();
        return;
    }
    for (size_t i = 0; i < n_ids; i++)
        if (!tokenizer_has(t, ids[i])) abort();
    if (tokenizer_decode(t, ids, n_ids, 0, &back, &n_back, &e) != OK) abort();
    free(ids);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "<s>Hello world, 12 <unk>\n  a\xcc\x81\xff\xe6\xad \xf0\x9f\x98\x80\xe2\x96\x81 aaaaaaaa";
    if (size < 1) return 0;
    tokenizer *t;
    error e = {0};
    int kind = data[0] % 4;
    status s = kind == 0   ? tokenizer_from_json(&t, (const char *)data + 1, size - 1, "fuzz.json", &e)
               : kind == 1 ? open_gguf(&t, data + 1, size - 1, &e)
                           : open_file(&t, kind == 3, data + 1, size - 1, &e);
    if (s != OK) {
        if (t != NULL || e.message[0] == '\0') abort();
        return 0;
    }
    use(t, text, sizeof text - 1);
    use(t, "", 0);
    tokenizer_free(t);
    return 0;
}
