#include "tokenizer/companions.h"
#include "tokenizer/files.h"
#include "tokenizer/json_steps.h"

#include <stdlib.h>
#include <string.h>

static status read_beside(const char *path, const char *name, json_t **out, error *e) {
    char *file = path_beside(path, name);
    status s = json_read_if_there(file, out, e);
    free(file);
    return s;
}

/* A token is written as its text, or as an object with its content. The id; -1: not named; -2: not in the vocabulary. */
static int token_of(const tokenizer *t, json_t *j, const char *key) {
    json_t *token = json_object_get(j, key);
    const char *text = json_is_object(token) ? json_text(token, "content", NULL) : json_string_value(token);
    if (text == NULL) return -1;
    int id = vocab_find(&t->vocab, text, strlen(text));
    return id >= 0 ? id : -2;
}

/* An id, written as a number; -1: it is none. */
static json_int_t id_of(json_t *j) {
    double id = json_is_number(j) ? json_number_value(j) : -1;
    return id >= 0 && id <= INT32_MAX && id == (double)(json_int_t)id ? (json_int_t)id : -1;
}

/* From the first of the two that names it. */
static int named(const tokenizer *t, json_t *config, json_t *map, const char *key) {
    int id = token_of(t, config, key);
    return id == -1 ? token_of(t, map, key) : id;
}

/* What surrounds a text: add_bos_token and its like, where they are there, win over what the file itself said. */
static status set_flag(tokenizer *t, json_t *config, const char *key, int id, id_list *around, error *e) {
    json_t *flag = json_object_get(config, key);
    if (!json_is_boolean(flag)) return OK;
    if (!json_is_true(flag)) {
        around->n = 0;
        return OK;
    }
    if (id < 0) return error_set(e, ERR_FORMAT, "tokenizer_config.json sets %s, but the token is not in the vocabulary", key);
    for (size_t i = 0; i < around->n; i++)
        if (around->data[i] == id) return OK;
    (void)t;
    return ids_append(around, id) ? OK : error_set(e, ERR_MEMORY, "no memory for a tokenizer");
}

static status set_config(tokenizer *t, json_t *config, json_t *map, error *e) {
    int bos = named(t, config, map, "bos_token"), eos = named(t, config, map, "eos_token");
    if (bos >= 0) t->bos = bos;
    if (eos >= 0 && !tokenizer_is_eos(t, eos)) {
        status s = tokenizer_add_eos(t, eos, e);
        if (s != OK) return s;
    }
    for (size_t i = 0; eos >= 0 && i < t->ends.n; i++) /* the named one comes first */
        if (t->ends.data[i] == eos) {
            t->ends.data[i] = t->ends.data[0];
            t->ends.data[0] = eos;
        }
    status s = set_flag(t, config, "add_bos_token", bos, &t->prefix, e);
    return s == OK ? set_flag(t, config, "add_eos_token", eos, &t->suffix, e) : s;
}

/* eos_token_id: an id, or an array of them. Ids beyond the vocabulary belong to another tokenizer: they are left out. */
static status set_generation(tokenizer *t, json_t *generation, error *e) {
    json_t *ids = json_object_get(generation, "eos_token_id");
    size_t n = json_is_array(ids) ? json_array_size(ids) : json_is_number(ids) ? 1 : 0;
    status s = OK;
    for (size_t i = 0; s == OK && i < n; i++) {
        json_int_t id = id_of(json_is_array(ids) ? json_array_get(ids, i) : ids);
        if (id >= 0 && id < tokenizer_n_vocab(t) && tokenizer_has(t, (int)id)) s = tokenizer_add_eos(t, (int)id, e);
    }
    return s;
}

status companions_apply(tokenizer *t, const char *path, error *e) {
    json_t *config = NULL, *map = NULL, *generation = NULL;
    status s = read_beside(path, "tokenizer_config.json", &config, e);
    if (s == OK) s = read_beside(path, "special_tokens_map.json", &map, e);
    if (s == OK) s = read_beside(path, "generation_config.json", &generation, e);
    if (s == OK) s = set_config(t, config, map, e);
    if (s == OK) s = set_generation(t, generation, e);
    json_decref(config);
    json_decref(map);
    json_decref(generation);
    return s;
}

static status add_token(tokenizer *t, json_int_t id, const char *text, json_t *flags, bool special, error *e) {
    int known = vocab_find(&t->vocab, text, strlen(text));
    if (known >= 0 && known != id)
        return error_set(e, ERR_FORMAT, "the added token \"%.100s\" has the ids %lld and %d", text, (long long)id, known);
    status s = known < 0 ? vocab_add(&t->vocab, id, text, strlen(text), PIECE_NORMAL, e) : OK;
    if (s != OK) return s;
    added_token token = {.id = (int)id,
                         .special = json_flag(flags, "special", special),
                         .single_word = json_flag(flags, "single_word", false),
                         .strip_left = json_flag(flags, "lstrip", false),
                         .strip_right = json_flag(flags, "rstrip", false)};
    return tokenizer_add_added(t, token, NULL, 0, false, e);
}

/* {"151643": {"content": "<|endoftext|>", "special": true}} */
static status add_decoder_tokens(tokenizer *t, json_t *config, error *e) {
    const char *key;
    json_t *token;
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), key, token) {
        char *end;
        long long id = strtoll(key, &end, 10);
        const char *text = json_text(token, "content", NULL);
        if (*end != '\0' || text == NULL) return error_set(e, ERR_FORMAT, "added_tokens_decoder has the entry \"%.100s\"", key);
        status s = add_token(t, id, text, token, false, e);
        if (s != OK) return s;
    }
    return OK;
}

static status add_listed_tokens(tokenizer *t, json_t *list, error *e) {
    const char *text;
    json_t *id;
    json_object_foreach(list, text, id) {
        int known = vocab_find(&t->vocab, text, strlen(text));
        if (known >= 0 && t->vocab.kind[known] != PIECE_NORMAL) continue; /* the configuration says more about it */
        if (id_of(id) < 0) return error_set(e, ERR_FORMAT, "added_tokens.json: \"%.100s\" has no id", text);
        status s = add_token(t, id_of(id), text, NULL, true, e);
        if (s != OK) return s;
    }
    return OK;
}

status companions_add_tokens(tokenizer *t, const char *path, error *e) {
    json_t *config = NULL, *list = NULL;
    status s = read_beside(path, "tokenizer_config.json", &config, e);
    if (s == OK) s = read_beside(path, "added_tokens.json", &list, e);
    if (s == OK) s = add_decoder_tokens(t, config, e);
    if (s == OK) s = add_listed_tokens(t, list, e);
    json_decref(config);
    json_decref(list);
    return s;
}

status companions_cut(const char *path, const char **cut, error *e) {
    static const char *const classes[][2] = {{"GPT2Tokenizer", "gpt-2"},        {"GPT2TokenizerFast", "gpt-2"},
                                             {"CodeGenTokenizer", "gpt-2"},     {"CodeGenTokenizerFast", "gpt-2"},
                                             {"GPTNeoXTokenizerFast", "gpt-2"}, {"Qwen2Tokenizer", "qwen2"},
                                             {"Qwen2TokenizerFast", "qwen2"}};
    json_t *config = NULL;
    *cut = "gpt-2";
    status s = read_beside(path, "tokenizer_config.json", &config, e);
    const char *name = s == OK ? json_text(config, "tokenizer_class", NULL) : NULL;
    if (name != NULL) {
        *cut = NULL;
        for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
            if (strcmp(name, classes[i][0]) == 0) *cut = classes[i][1];
        if (*cut == NULL)
            s = error_set(e, ERR_UNSUPPORTED, "how a %.100s cuts words is not known (give its tokenizer.json)", name);
    }
    json_decref(config);
    return s;
}
