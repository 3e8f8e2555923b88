/* Peak memory: sizes that the engine itself gives, for an engine that is not made. */
#include <limits.h>
#include <string.h>

#include "engine/engine.h"
#include "kernels/sizes.h"
#include "tools/estimate.h"

status estimate_peak(peak_memory *out, const question *q, error *e) {
    static const dtype types[] = {[STORAGE_F32] = DTYPE_F32, [STORAGE_F16] = DTYPE_F16, [STORAGE_INT8] = DTYPE_Q8_0};
    model_config c = q->config;
    engine_options o;
    engine_memory m;
    memset(out, 0, sizeof *out);
    engine_options_init(&o);
    o.n_threads = 1;
    o.kv_type = types[q->kv_type];
    o.page_size = q->page_size > 0 ? q->page_size : o.page_size;
    o.prefill_chunk = q->chunk;
    uint64_t pages = q->batch * ceil_div(q->context, (size_t)o.page_size);
    if (q->batch > INT_MAX || q->context > INT_MAX || pages > INT_MAX) {
        return error_set(e, ERR_LIMIT, "%llu pages are more than this program can have", (unsigned long long)pages);
    }
    o.max_sequences = (int)q->batch;
    o.n_pages = (int)pages;
    if (c.n_ctx < (int)q->context) c.n_ctx = (int)q->context; /* what if it were longer than the model's */
    o.n_ctx = (int)q->context;
    status s = engine_memory_plan(&m, &c, &o, e);
    if (s != OK) return s;
    uint64_t rotations = c.position == POSITION_ROPE ? (uint64_t)(c.rope_dim / 2) * 4 * (c.rope_local_base != 0 ? 2 : 1) : 0;
    out->weights = estimate_stored(&q->config, q->weights) + rotations;
    out->pool = m.pool;
    out->tables = m.tables;
    out->activations = m.activations + m.scratch;
    out->total = out->weights + out->pool + out->tables + out->activations;
    return OK;
}
