/* json_ends.c - the parts of a tokenizer.json after the model: what is put around the ids, and how they become text again. */
#include "tokenizer/json_steps.h"

#include <string.h>

/* ---- decoder ---- */

static status metaspace_decoder(tokenizer *t, json_t *j, error *e) {
    const char *mark = json_text(j, "replacement", SPACE_MARK);
    if (!json_is(json_prepend_scheme(j), "never")) {
        t->n_strip = 1;
        t->strip_text[0] = ' ';
    }
    return decoder_add(t, DECODE_REPLACE, mark, " ", e);
}

/* After Fuse, Strip takes characters from the whole text; before it, from every piece. */
static status strip_decoder(tokenizer *t, json_t *j, error *e) {
    const char *content = json_text(j, "content", " ");
    json_int_t start = json_integer_value(json_object_get(j, "start")), stop = json_integer_value(json_object_get(j, "stop"));
    if (start < 0 || stop < 0 || start > 1000 || stop > 1000)
        return error_set(e, ERR_LIMIT, "the decoder \"Strip\" strips %lld and %lld", (long long)start, (long long)stop);
    if (!t->fused) {
        status s = decoder_add(t, DECODE_STRIP, content, "", e);
        if (s != OK) return s;
        t->decoder[t->n_decoder - 1].n_left = (int)start;
        t->decoder[t->n_decoder - 1].n_right = (int)stop;
        return OK;
    }
    if (stop > 0)
        return error_set(e, ERR_UNSUPPORTED, "the decoder \"Strip\" with stop %lld is not supported", (long long)stop);
    if (strlen(content) >= sizeof t->strip_text) return error_set(e, ERR_LIMIT, "the decoder \"Strip\" strips \"%s\"", content);
    strcpy(t->strip_text, content);
    t->n_strip = (int)start;
    return OK;
}

static status decoder_part(tokenizer *t, json_t *j, const char *type, error *e) {
    const char *text, *regex;
    if (json_is(type, "ByteLevel")) return decoder_add(t, DECODE_BYTE_CHARS, "", "", e);
    if (json_is(type, "ByteFallback")) return decoder_add(t, DECODE_BYTE_FALLBACK, "", "", e);
    if (json_is(type, "Metaspace")) return metaspace_decoder(t, j, e);
    if (json_is(type, "Strip")) return strip_decoder(t, j, e);
    if (json_is(type, "BPEDecoder")) return decoder_add(t, DECODE_SUFFIX, json_text(j, "suffix", "</w>"), "", e);
    if (json_is(type, "Fuse")) {
        t->fused = true;
        return OK;
    }
    if (json_is(type, "Replace")) {
        status s = json_pattern(j, &text, &regex, e);
        if (s == OK && (text == NULL || t->fused))
            s = error_set(e, ERR_UNSUPPORTED, "the decoder \"Replace\" with a Regex or after Fuse is not supported");
        return s == OK ? decoder_add(t, DECODE_REPLACE, text, json_text(j, "content", ""), e) : s;
    }
    return json_unsupported("decoder", type, e);
}

status json_decoder(tokenizer *t, json_t *j, error *e) {
    if (j == NULL || json_is_null(j)) t->join_with_space = true;
    return json_each_part(t, j, "decoder", "decoders", decoder_part, 0, e);
}

/* ---- post_processor ---- */

static status append_special(tokenizer *t, id_list *to, json_int_t id, error *e) {
    if (id < 0 || id > INT32_MAX || !tokenizer_has(t, (int)id))
        return error_set(e, ERR_FORMAT, "the post_processor adds the token %lld, which is not in the vocabulary",
                         (long long)id);
    return ids_append(to, (int)id) ? OK : error_set(e, ERR_MEMORY, "no memory for the special tokens");
}

/* {"SpecialToken": {"id": "<s>"}} names an entry of special_tokens, which has the ids. */
static status template_token(tokenizer *t, json_t *specials, json_t *token, id_list *to, error *e) {
    const char *name = json_text(token, "id", "");
    json_t *ids = json_object_get(json_object_get(specials, name), "ids");
    if (!json_is_array(ids)) return error_set(e, ERR_FORMAT, "the post_processor's token \"%s\" has no ids", name);
    status s = OK;
    for (size_t i = 0; s == OK && i < json_array_size(ids); i++)
        s = append_special(t, to, json_integer_value(json_array_get(ids, i)), e);
    return s;
}

static status template(tokenizer *t, json_t *j, error *e) {
    json_t *single = json_object_get(j, "single"), *specials = json_object_get(j, "special_tokens");
    status s = OK;
    int n_texts = 0;
    for (size_t i = 0; s == OK && i < json_array_size(single); i++) {
        json_t *part = json_array_get(single, i), *token = json_object_get(part, "SpecialToken");
        if (token == NULL) n_texts++;
        if (token != NULL) s = template_token(t, specials, token, n_texts == 0 ? &t->prefix : &t->suffix, e);
    }
    if (s == OK && n_texts != 1) s = error_set(e, ERR_UNSUPPORTED, "a template with the text in it %d times", n_texts);
    return s;
}

static status post_processor_part(tokenizer *t, json_t *j, const char *type, error *e) {
    if (json_is(type, "ByteLevel")) return OK; /* it moves offsets, not ids */
    if (json_is(type, "TemplateProcessing")) return template(t, j, e);
    if (json_is(type, "BertProcessing") || json_is(type, "RobertaProcessing")) {
        json_t *first = json_object_get(j, "cls"), *last = json_object_get(j, "sep");
        status s = append_special(t, &t->prefix, json_integer_value(json_array_get(first, 1)), e);
        return s == OK ? append_special(t, &t->suffix, json_integer_value(json_array_get(last, 1)), e) : s;
    }
    return json_unsupported("post_processor", type, e);
}

status json_post_processor(tokenizer *t, json_t *j, error *e) {
    return json_each_part(t, j, "post_processor", "processors", post_processor_part, 0, e);
}
