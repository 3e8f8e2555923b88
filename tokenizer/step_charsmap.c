/* step_charsmap.c - the map of characters that SentencePiece compiles into a model ("nmt_nfkc" and its like).
 *
 *   bytes 0-3      n, little-endian: bytes of the trie, a multiple of 4
 *   n bytes        the trie: 32-bit units, a double array (Aoe 1989) in Yata's layout
 *   the rest       the texts that replace, each ended by a zero
 *
 * A unit: bits 0-7 label, bit 8 has a leaf, bit 9 offset is shifted by 8, bits 10-30 offset, bit 31: the unit is a leaf and
 * bits 0-30 are its value, here the byte at which the replacing text begins. At every place of the text the longest entry
 * is replaced. */
#include "tokenizer/steps.h"

#include <stdint.h>
#include <string.h>

#include "tokenizer/utf8.h"

#define MAX_ENTRY_BYTES 256 /* a hostile trie may run in circles */

typedef struct {
    const char *trie, *texts;
    size_t n_units, n_texts;
} charsmap;

static uint32_t read_u32(const char *p) {
    const unsigned char *u = (const unsigned char *)p;
    return (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

static bool open_map(charsmap *c, const char *map, size_t n) {
    if (n < 8) return false;
    size_t n_trie = read_u32(map);
    if (n_trie % 4 != 0 || n_trie == 0 || n_trie > n - 4) return false;
    *c = (charsmap){.trie = map + 4, .n_units = n_trie / 4, .texts = map + 4 + n_trie, .n_texts = n - 4 - n_trie};
    return c->n_texts == 0 || c->texts[c->n_texts - 1] == '\0';
}

status charsmap_check(const char *map, size_t n, error *e) {
    charsmap c;
    return open_map(&c, map, n) ? OK : error_set(e, ERR_FORMAT, "the normaliser's map of characters is cut or malformed");
}

static size_t child_base(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* Bytes of the longest entry that text begins with (0: none), and what replaces it. */
static size_t longest_entry(const charsmap *c, const char *text, size_t n, const char **to) {
    size_t found = 0, node = child_base(read_u32(c->trie));
    for (size_t i = 0; i < n && i < MAX_ENTRY_BYTES; i++) {
        unsigned char byte = (unsigned char)text[i];
        node ^= byte;
        if (byte == 0 || node >= c->n_units) break;
        uint32_t unit = read_u32(c->trie + 4 * node);
        if ((unit & ((1u << 31) | 0xFF)) != byte) break;
        node ^= child_base(unit);
        if (!(unit & (1u << 8))) continue;
        if (node >= c->n_units) break;
        uint32_t at = read_u32(c->trie + 4 * node) & 0x7FFFFFFFu;
        if (at >= c->n_texts) break;
        found = i + 1;
        *to = c->texts + at;
    }
    return found;
}

status charsmap_rewrite(const step *st, const char *text, size_t n, byte_buffer *out, error *e) {
    charsmap c;
    if (!open_map(&c, st->a, st->n_a)) return charsmap_check(st->a, st->n_a, e);
    for (size_t i = 0; i < n;) {
        const char *to = NULL;
        size_t taken = longest_entry(&c, text + i, n - i, &to);
        size_t step_bytes = taken > 0 ? taken : utf8_step(text + i, n - i);
        bool room = taken > 0 ? buffer_append(out, to, strlen(to)) : buffer_append(out, text + i, step_bytes);
        if (!room) return error_set(e, ERR_MEMORY, "no memory for a text of %zu bytes", n);
        i += step_bytes;
    }
    return OK;
}
