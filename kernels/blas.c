#include "kernels/blas.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "kernels/panel.h"

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);
enum { ROW_MAJOR = 101, NO_TRANS = 111 };

struct blas {
    void *library;
    sgemm_fn sgemm;
    char *(*describe)(void);
};

/* dlsym gives an object pointer; POSIX promises that it converts to a function's. */
static void symbol(void *library, const char *name, void *function_pointer) {
    *(void **)function_pointer = dlsym(library, name);
}

status blas_open(blas **out, error *e) {
    *out = NULL;
    blas *b = calloc(1, sizeof *b);
    if (b == NULL) return error_set(e, ERR_MEMORY, "out of memory for the BLAS backend");
    b->library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (b->library == NULL) {
        free(b);
        return error_set(e, ERR_UNSUPPORTED,
                         "libopenblas.so.0: cannot be opened (install libopenblas0-pthread, or use --matmul native)");
    }
    void (*set_threads)(int) = NULL;
    symbol(b->library, "cblas_sgemm", &b->sgemm);
    symbol(b->library, "openblas_set_num_threads", &set_threads);
    symbol(b->library, "openblas_get_config", &b->describe);
    if (b->sgemm == NULL) {
        blas_close(b);
        return error_set(e, ERR_UNSUPPORTED, "libopenblas.so.0: has no cblas_sgemm (use --matmul native)");
    }
    if (set_threads != NULL) set_threads(1);
    *out = b;
    return OK;
}

void blas_close(blas *b) {
    if (b == NULL) return;
    dlclose(b->library);
    free(b);
}

const char *blas_describe(const blas *b) {
    return b->describe != NULL ? b->describe() : "OpenBLAS";
}

void blas_sgemm(const blas *b, int n_m, int n_n, int n_k, const float *a, int lda, const float *bm, int ldb, float beta,
                float *c, int ldc) {
    b->sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, n_m, n_n, n_k, 1.0f, a, lda, bm, ldb, beta, c, ldc);
}

/* Panels [panel, panel + n) of some columns as one fp32 matrix [n_columns, 64]: what sgemm wants as B. */
static void group_spread(float *out, const float *decoded, const panel_slice *s) {
    int lanes = s->width < PANEL_ROWS ? s->width : PANEL_ROWS;
    for (int k = 0; k < s->n_columns; k++) {
        for (int p = 0; p < s->n_panels; p++) {
            const float *in = decoded + ((size_t)p * (size_t)s->n_columns + (size_t)k) * (size_t)lanes;
            for (int r = 0; r < lanes; r++) out[(size_t)k * PANEL_GROUP * PANEL_ROWS + (size_t)(p * PANEL_ROWS + r)] = in[r];
        }
    }
}

void blas_product(float *y, size_t ldy, const matrix *m, int panel, int end, const float *x, int n_rows, const blas *b,
                  worker *w) {
    float *decoded = w->scratch, *spread = decoded + PANEL_SLICE_BYTES / sizeof(float);
    int full = m->n_rows / PANEL_ROWS, step = panel_columns(m);
    for (int p = panel, n; p < end; p += n) {
        n = end - p < PANEL_GROUP ? end - p : PANEL_GROUP;
        if (p + n > full) n = p < full ? full - p : 1;
        for (int column = 0; column < m->n_cols; column += step) {
            int n_columns = m->n_cols - column < step ? m->n_cols - column : step;
            panel_slice s = panel_slice_get(m, p, n, column, n_columns, spread, &w->meter);
            int lanes = s.width < PANEL_ROWS ? s.width : PANEL_ROWS;
            panel_decode(decoded, (size_t)lanes * (size_t)n_columns, &s, m, w->kernels, &w->meter);
            group_spread(spread, decoded, &s);
            blas_sgemm(b, n_rows, s.width, n_columns, x + column, m->n_cols, spread, PANEL_GROUP * PANEL_ROWS,
                       column > 0 ? 1.0f : 0.0f, y + (size_t)(p - panel) * PANEL_ROWS, (int)ldy);
            meter_post(&w->meter, m->flops_term, 2 * (uint64_t)n_rows * (uint64_t)n_columns * (uint64_t)s.width);
        }
    }
}
