/* prefill.c - the way in for a prompt: all its tokens, prefill_chunk rows at a time.
 *
 * The rows of a chunk go through each matrix together, so the weights are read once a chunk and not once a token. Within a chunk a row sees the
 * rows before it because K and V are written before attention reads them. Only the last chunk makes logits (or each its own, for all rows). */
#include "engine/engine.h"

status engine_prefill(engine *e, kv_sequence *s, const int *ids, int n, int logit_rows, float *logits, error *err) {
    size_t n_vocab = (size_t)engine_model(e)->config.n_vocab;
    if (n < 1) return error_set(err, ERR_ARGUMENT, "an empty prompt (give at least one token)");
    if (n > engine_n_ctx(e) - s->n_tokens) {
        return error_set(err, ERR_LIMIT, "a prompt of %d tokens does not fit the context of %d%s (%s)", n, engine_n_ctx(e),
                         s->n_tokens > 0 ? " after what is there" : "", engine_context_advice(e));
    }
    for (int done = 0, chunk; done < n; done += chunk) {
        chunk = n - done < engine_max_rows(e) ? n - done : engine_max_rows(e);
        bool last = done + chunk == n;
        step_sequence q = {.kv = s, .ids = ids + done, .n_new = chunk};
        q.n_logit_rows = logit_rows == n && n > 1 ? chunk : last ? logit_rows : 0;
        status st = engine_step(e, &q, 1, logits, err);
        if (st != OK) return st;
        if (!q.finite) return step_not_finite(&q, -1, err);
        if (logits != NULL) logits += (size_t)q.n_logit_rows * n_vocab;
    }
    return OK;
}
