/* presets.c - how byte-level BPE vocabularies cut text into words, by the name that GGUF files have for it.
 *
 * The patterns are the ones of the models' own tokenizer.json files. */
#include "tokenizer/internal.h"

#include <string.h>

#define CONTRACTION "'s|'t|'re|'ve|'m|'ll|'d"
#define GPT2        CONTRACTION "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* cl100k and its like: DIGITS differ. */
#define CL100K(digits)                                                                                                         \
    "(?i:" CONTRACTION ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                                               \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER                 "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER                 "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(ending)         "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" ending "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" ending
#define O200K(ending, digits) CASED(ending) "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BLOOM                 " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
#define CJK                   "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define KANA                  "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define DEEPSEEK_V3                                                                                                            \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"                        \
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define DEEPSEEK_LETTERS                                                                                                       \
    "\\s?[A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}"                       \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}"             \
    "\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"                 \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"                          \
    "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}"                          \
    "\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}"                  \
    "\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"                 \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"                  \
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}"                            \
    "\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"                  \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                           \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"                          \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}"                    \
    "\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}]+"

#define MAX_CUTS 6

typedef struct {
    const char *names; /* separated by spaces */
    const char *cuts[MAX_CUTS];
    bool ignore_merges, add_bos, nfc;
} preset;

static const preset presets[] = {
    {.names = "gpt-2 gpt2 phi-2 mpt olmo jais trillion exaone4 gigachat a.x-4.0 mellum granite-docling jina-es jina-de "
              "jina-v2-es jina-v2-de",
     .cuts = {GPT2}},
    {.names = "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2",
     .cuts = {CL100K("\\p{N}{1,3}")},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "cl100k dbrx smaug-bpe glm4 chatglm-bpe", .cuts = {CL100K("\\p{N}{1,3}")}},
    {.names = "qwen2 deepseek-r1-qwen megrez kormo", .cuts = {CL100K("\\p{N}")}, .nfc = true},
    {.names = "stablelm2 hunyuan solar-open grok-2", .cuts = {CL100K("\\p{N}")}},
    {.names = "o200k gpt-4o llama4 kanana2 minimax-m2", .cuts = {O200K("(?i:" CONTRACTION ")?", "\\p{N}{1,3}")}},
    {.names = "tekken", .cuts = {O200K("", "\\p{N}")}, .ignore_merges = true, .add_bos = true},
    {.names = "deepseek-llm",
     .cuts = {"[\\r\\n]", DEEPSEEK_LETTERS,
              "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+", "\\s+$", CJK,
              "\\p{N}+"}},
    {.names = "deepseek-coder", .cuts = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm", .cuts = {"\\p{N}{1,3}", KANA, DEEPSEEK_V3}},
    {.names = "falcon", .cuts = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", .cuts = {"\\p{N}", GPT2}},
    {.names = "bloom poro-chat gpt3-finnish", .cuts = {BLOOM}},
    {.names = "viking", .cuts = {BLOOM, "\\p{N}"}},
    {.names = "seed-coder",
     .cuts = {"(?i:" CONTRACTION ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+"
              "|\\s+(?!\\S)|\\s+"}},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .cuts = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]"
              "|\\s+(?!\\S)|\\s+"}},
};

static bool is_named(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *at = names; n > 0 && (at = strstr(at, name)) != NULL; at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

status tokenizer_set_preset(tokenizer *t, const char *name, bool *add_bos, error *e) {
    const preset *p = NULL;
    *add_bos = false;
    for (size_t i = 0; i < sizeof presets / sizeof *presets && strchr(name, ' ') == NULL; i++)
        if (is_named(presets[i].names, name)) p = &presets[i];
    if (p == NULL)
        return error_set(e, ERR_UNSUPPORTED,
                         "the way of cutting words \"%s\" is not known (give the model's tokenizer.json with --tokenizer)",
                         name);
    status s = p->nfc ? steps_add_kind(&t->normalizer, STEP_NFC, e) : OK;
    for (int i = 0; s == OK && i < MAX_CUTS && p->cuts[i] != NULL; i++)
        s = steps_add_cut(&t->cutter, p->cuts[i], strlen(p->cuts[i]), CUT_ISOLATED, false, e);
    if (s == OK) s = steps_add_kind(&t->cutter, STEP_BYTE_CHARS, e);
    if (s == OK) s = decoder_add(t, DECODE_BYTE_CHARS, "", "", e);
    t->ignore_merges = p->ignore_merges;
    *add_bos = p->add_bos;
    return s;
}
