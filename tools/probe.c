#include "tools/probe.h"

#include <stdbool.h>

/* Rounds of a piece of arithmetic: some tens of microseconds. */
enum { ROUNDS = 8192 };
/* A piece of reading: four streams of a quarter each; more than this at once only where the buffer is larger. */
enum { READ_PIECE = 4 << 20 };

/* Twelve chains fill two units of a latency of four cycles, and leave registers for the constants. */
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

#define BEGIN(i) OPAQUE(a##i);
#define END(i)   KEEP(a##i);

/* Keeps a value alive without a store that the timing would see. */
#define KEEP(x) __asm__ volatile("" : : "r"(&(x)) : "memory")

typedef float vec4 __attribute__((vector_size(16)));
typedef uint64_t vec16b __attribute__((vector_size(16)));

static const unsigned char *next_piece(probe_state *s, size_t *n) {
    if (s->bytes <= READ_PIECE) {
        *n = s->bytes / 4;
        return s->data;
    }
    if (s->at + READ_PIECE > s->bytes) s->at = 0;
    const unsigned char *p = s->data + s->at;
    s->at += READ_PIECE;
    *n = READ_PIECE / 4;
    return p;
}

/* Small buffers are read several times, so that a piece is long against the call. */
static int read_times(const probe_state *s) {
    return s->bytes >= READ_PIECE / 8 ? 1 : (int)(READ_PIECE / 8 / s->bytes);
}

/* Reads four streams of n bytes each, at p, p + n ...; LOAD and FOLD for a register of `width` bytes. */
#define READ_LOOP(type, width, load, fold)                                                                                     \
    size_t n;                                                                                                                  \
    const unsigned char *p = next_piece(s, &n);                                                                                \
    type a0 = load(p), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0;                                          \
    int times = read_times(s);                                                                                                 \
    for (int i = 0; i < times; i++) {                                                                                          \
        for (size_t at = 0; at < n; at += 2 * width) {                                                                         \
            a0 = fold(a0, load(p + at));                                                                                       \
            a1 = fold(a1, load(p + at + width));                                                                               \
            a2 = fold(a2, load(p + n + at));                                                                                   \
            a3 = fold(a3, load(p + n + at + width));                                                                           \
            a4 = fold(a4, load(p + 2 * n + at));                                                                               \
            a5 = fold(a5, load(p + 2 * n + at + width));                                                                       \
            a6 = fold(a6, load(p + 3 * n + at));                                                                               \
            a7 = fold(a7, load(p + 3 * n + at + width));                                                                       \
        }                                                                                                                      \
        KEEP(a0);                                                                                                              \
    }                                                                                                                          \
    a0 = fold(fold(fold(a0, a1), fold(a2, a3)), fold(fold(a4, a5), fold(a6, a7)));                                             \
    KEEP(a0);                                                                                                                  \
    return (uint64_t)times * 4 * n

#define LOAD_PLAIN(p)    (*(const vec16b *)(const void *)(p))
#define FOLD_PLAIN(a, b) ((a) ^ (b))

static uint64_t read_portable(probe_state *s) {
    READ_LOOP(vec16b, 16, LOAD_PLAIN, FOLD_PLAIN);
}

static uint64_t fma_portable(probe_state *s) {
    (void)s;
    vec4 m = {0.999f, 0.998f, 0.997f, 0.996f}, c = {0.001f, 0.002f, 0.003f, 0.004f};
#define START(i) vec4 a##i = c * (float)(i + 1);
    TWELVE(START)
#undef START
    for (int r = 0; r < ROUNDS; r++) {
#define STEP(i) a##i = a##i * m + c;
        TWELVE(STEP)
#undef STEP
    }
    TWELVE(END)
    return (uint64_t)ROUNDS * 12 * 4 * 2;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define LOAD_256(p) _mm256_load_si256((const __m256i *)(const void *)(p))
#define LOAD_512(p) _mm512_load_si512((const void *)(p))

__attribute__((target("avx2"))) static uint64_t read_avx2(probe_state *s) {
    READ_LOOP(__m256i, 32, LOAD_256, _mm256_xor_si256);
}

__attribute__((target("avx512f"))) static uint64_t read_avx512(probe_state *s) {
    READ_LOOP(__m512i, 64, LOAD_512, _mm512_xor_si512);
}

/* A value the compiler knows nothing of: chains that began alike would be computed once for all twelve. */
#define OPAQUE(x) __asm__ volatile("" : "+x"(x))

/* Declares twelve chains, runs them, keeps the results. */
#define CHAINS(type, start, step, per_step)                                                                                    \
    (void)s;                                                                                                                   \
    type a0 = start, a1 = start, a2 = start, a3 = start, a4 = start, a5 = start, a6 = start, a7 = start, a8 = start,           \
         a9 = start, a10 = start, a11 = start;                                                                                 \
    TWELVE(BEGIN)                                                                                                              \
    for (int r = 0; r < ROUNDS; r++) {                                                                                         \
        TWELVE(step)                                                                                                           \
    }                                                                                                                          \
    TWELVE(END)                                                                                                                \
    return (uint64_t)ROUNDS * 12 * (per_step)

#define STEP_FMA_256(i) a##i = _mm256_fmadd_ps(a##i, m, c);
__attribute__((target("avx2,fma"))) static uint64_t fma_avx2(probe_state *s) {
    __m256 m = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(0.001f);
    CHAINS(__m256, c, STEP_FMA_256, 8 * 2);
}

#define STEP_FMA_512(i) a##i = _mm512_fmadd_ps(a##i, m, c);
__attribute__((target("avx512f"))) static uint64_t fma_avx512(probe_state *s) {
    __m512 m = _mm512_set1_ps(0.999f), c = _mm512_set1_ps(0.001f);
    CHAINS(__m512, c, STEP_FMA_512, 16 * 2);
}

/* Without VNNI: pairs to 16 bits, pairs to 32, then the addition. The empty statement makes y a new value to the compiler, which would
 * otherwise take the products out of the loop. */
#define STEP_INT8_256(i)                                                                                                       \
    OPAQUE(y);                                                                                                                 \
    a##i = _mm256_add_epi32(a##i, _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), one));
__attribute__((target("avx2"))) static uint64_t int8_avx2(probe_state *s) {
    __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(5), one = _mm256_set1_epi16(1);
    CHAINS(__m256i, one, STEP_INT8_256, 32 * 2);
}

#define STEP_VNNI_256(i) a##i = _mm256_dpbusd_avx_epi32(a##i, x, y);
__attribute__((target("avx2,avxvnni"))) static uint64_t int8_avx_vnni(probe_state *s) {
    __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(5);
    CHAINS(__m256i, x, STEP_VNNI_256, 32 * 2);
}

#define STEP_VNNI_512(i) a##i = _mm512_dpbusd_epi32(a##i, x, y);
__attribute__((target("avx512f,avx512vnni"))) static uint64_t int8_avx512_vnni(probe_state *s) {
    __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5);
    CHAINS(__m512i, x, STEP_VNNI_512, 64 * 2);
}

static bool has_avx_vnni(void) {
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2");
}
static bool has_fma(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f");
}
static bool has_avx512_vnni(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni");
}

static const struct {
    probe_loop loop;
    bool (*runs)(void);
} x86_loops[] = {
    {{"fma", "avx2", fma_avx2}, has_fma},
    {{"fma", "avx512", fma_avx512}, has_avx512},
    {{"int8", "avx2", int8_avx2}, has_avx2},
    {{"int8", "avx_vnni", int8_avx_vnni}, has_avx_vnni},
    {{"int8", "avx512_vnni", int8_avx512_vnni}, has_avx512_vnni},
};
#endif

size_t probe_loops(probe_loop *out) {
    size_t n = 0;
    out[n++] = (probe_loop){"fma", "portable", fma_portable};
#if defined(__x86_64__)
    for (size_t i = 0; i < sizeof x86_loops / sizeof *x86_loops; i++) {
        if (x86_loops[i].runs()) out[n++] = x86_loops[i].loop;
    }
#endif
    return n;
}

probe_work probe_read(void) {
#if defined(__x86_64__)
    if (has_avx512()) return read_avx512;
    if (has_avx2()) return read_avx2;
#endif
    return read_portable;
}

uint64_t probe_sgemm(probe_state *s) {
    blas_sgemm(s->blas, PROBE_SGEMM, PROBE_SGEMM, PROBE_SGEMM, s->a, PROBE_SGEMM, s->b, PROBE_SGEMM, 0, s->c, PROBE_SGEMM);
    return (uint64_t)2 * PROBE_SGEMM * PROBE_SGEMM * PROBE_SGEMM;
}
