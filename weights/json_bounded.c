#include <math.h>

#include "weights/container.h"

/* An upper estimate of what jansson allocates for a text, from its punctuation: linear, no nesting to follow. */
static size_t estimate(const char *text, size_t size) {
    size_t cost = 0;
    for (size_t i = 0; i < size; i++) {
        switch (text[i]) {
        case '{':
            cost += JSON_COST_OBJECT;
            break;
        case '[':
            cost += JSON_COST_ARRAY;
            break;
        case ':':
            cost += JSON_COST_MEMBER;
            break;
        case ',':
            cost += JSON_COST_NUMBER + JSON_COST_ITEM;
            break;
        case '"':
            cost += JSON_COST_TEXT;
            for (i++; i < size && text[i] != '"'; i++, cost++)
                if (text[i] == '\\') i++;
            break;
        default:
            break;
        }
    }
    return cost;
}

status json_load_bounded(json_t **out, reader *r, const void *text, size_t size, size_t flags, error *e) {
    json_error_t problem;
    *out = NULL;
    if (!reader_charge(r, size, e) || !reader_charge(r, estimate(text, size), e)) return ERR_LIMIT;
    *out = json_loadb(text, size, flags | JSON_REJECT_DUPLICATES, &problem);
    if (*out != NULL) return OK;
    if (json_error_code(&problem) == json_error_out_of_memory) return error_set(e, ERR_MEMORY, "no memory for its JSON");
    return error_set(e, ERR_FORMAT, "bad JSON, line %d column %d: %s", problem.line, problem.column, problem.text);
}

json_t *json_number(double x) {
    if (isfinite(x)) return json_real(x);
    return json_string(isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

json_t *json_bytes(const void *bytes, size_t n) {
    return json_stringn_nocheck(n > 0 ? bytes : "", n);
}
