/* decode.c - the way in for generation: one new token each for B sequences.
 *
 * One step reads the weights once for all of them, and each sequence's own K and V (those of a shared prefix once for its group: step.c). */
#include "engine/engine_private.h"

status engine_decode(engine *e, kv_sequence *const *seqs, const int *ids, int B, float *logits, error *err) {
    step_sequence *q = e->decode_seqs;
    if (B < 1 || B > engine_max_sequences(e)) {
        return error_set(err, ERR_ARGUMENT, "a decode step of %d sequences (1 to %d)", B, engine_max_sequences(e));
    }
    for (int b = 0; b < B; b++) q[b] = (step_sequence){.kv = seqs[b], .ids = &ids[b], .n_new = 1, .n_logit_rows = 1};
    status st = engine_step(e, q, B, logits, err);
    for (int b = 0; b < B && st == OK; b++) {
        if (!q[b].finite) st = step_not_finite(&q[b], b, err);
    }
    return st;
}
