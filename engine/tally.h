/* tally.h - the library for those who embed it: a checkpoint, sequences of token ids, logits, and what each step cost.
 *
 *   tally *t;  tally_sequence *s;  char why[TALLY_MESSAGE];
 *   tally_options o = tally_default_options();
 *   if (tally_open(&t, "model.gguf", &o, why)) fail(why);
 *   if (tally_sequence_begin(t, &s, why)) fail(why);
 *   float *logits = malloc(tally_n_vocab(t) * sizeof *logits);
 *   if (tally_prefill(t, s, ids, n_ids, logits, why)) fail(why);              n_ids rows through the model, logits of the last
 *   for (;;) { int id = best(logits); if (tally_decode(t, &s, &id, 1, logits, why)) fail(why); }
 *
 * This header stands alone: link libtally.a with -fopenmp -ljansson -lzip -lm -ldl. Functions that can fail return 0, or a positive
 * number with one line in `why` (char [TALLY_MESSAGE], or NULL). Nothing prints, nothing exits. One tally is for one thread at a time. */
#ifndef TALLY_H
#define TALLY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TALLY_MESSAGE 1024

typedef struct tally tally;                   /* a model, its workers, and one pool of pages for all sequences */
typedef struct tally_sequence tally_sequence; /* one timeline: tokens and their pages in the cache */

typedef struct {
    const char *weights; /* "auto" (as the file has them), "f32", "f16", "int8" */
    const char *kv_type; /* "f32", "f16", "int8" */
    const char *isa;     /* "auto", "portable", "avx2", "avx512", "neon" */
    const char *layout;  /* a layout file for a model of one's own, or NULL */
    int n_threads;       /* 0: as many as are fastest, found by trial */
    int n_ctx;           /* most tokens of a sequence; 0: the model's, at most 4096 */
    int max_sequences;   /* most sequences in one decode step */
    int prefill_chunk;   /* most rows of one step */
    int page_size;       /* tokens a page */
    int n_pages;         /* 0: max_sequences contexts */
} tally_options;

tally_options tally_default_options(void);

/* *out is NULL on failure. Close every sequence before the tally. */
int tally_open(tally **out, const char *path, const tally_options *o, char *why);
void tally_close(tally *t);
int tally_n_vocab(const tally *t);
int tally_n_ctx(const tally *t);

int tally_sequence_begin(tally *t, tally_sequence **out, char *why);
/* A second sequence with the same tokens; their pages are shared until one of them is written. */
int tally_sequence_fork(tally *t, tally_sequence **out, const tally_sequence *from, char *why);
void tally_sequence_end(tally *t, tally_sequence *s);
int tally_sequence_n_tokens(const tally_sequence *s);

/* n more tokens of one sequence; logits: [n_vocab] of the last of them. */
int tally_prefill(tally *t, tally_sequence *s, const int *ids, int n, float *logits, char *why);
/* One token each for B different sequences, the weights read once for all; logits: [B, n_vocab]. */
int tally_decode(tally *t, tally_sequence *const *seqs, const int *ids, int B, float *logits, char *why);

/* What the last step cost: exact, by term. Keys are those of --json ("flops_q", "bytes_kv_cached", ...). */
int tally_n_terms(void);
const char *tally_term_key(int term);
uint64_t tally_counted(const tally *t, int term);
uint64_t tally_predicted(const tally *t, int term);
double tally_seconds(const tally *t);

#ifdef __cplusplus
}
#endif

#endif
