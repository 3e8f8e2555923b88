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
#define BLOOM                 " ?[^(\\s|.,!?…。，、।۔،)]+"
#define CJK                   "[一-龥ࠀ-一가-\xED\x9F\xBF]+"
#define KANA                  "[一-龥぀-ゟ゠-ヿ]+"
#define DEEPSEEK_V3                                                                                                            \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"                        \
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define DEEPSEEK_LETTERS                                                                                                                                                         \
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-"                                                     \
    "ᲺᲽ-"                                                                                                                                                                    \
    "Ჿᴀ-"                                                                                                                                                                    \
    "ᴫᵫ-"                                                                                                                                                                    \
    "ᵷᵹ-"                                                                                                                                                                    \
    "ᶚḀ-"                                                                                                                                                                    \
    "ἕἘ-"                                                                                                                                                                    \
    "Ἕἠ-"                                                                                                                                                                    \
    "ὅὈ-"                                                                                                                                                                    \
    "Ὅὐ-"                                                                                                                                                                    \
    "ὗὙὛὝὟ-"                                                                                                                                                           \
    "ώ"                                                                                                                                                                         \
    "ᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-" \
    "ꚛꜢ-"                                                                                                                                                                    \
    "ꝯꝱ-"                                                                                                                                                                    \
    "ꞇꞋ-"                                                                                                                                                                    \
    "ꞎꭰ-"                                                                                                                                                                    \
    "ꮿﬀ-"                                                                                                                                                                    \
    "ﬆﬓ-"                                                                                                                                                                    \
    "ﬗＡ-"                                                                                                                                                                    \
    "Ｚａ-"                                                                                                                                                                    \
    "ｚ"                                                                                                                                                                        \
    "𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"

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
     .cuts = {"[\\r\\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", CJK, "\\p{N}+"}},
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
