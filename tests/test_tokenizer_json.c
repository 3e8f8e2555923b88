/* tokenizer.json: every part of it. The ids are those of Hugging Face's tokenizers (Rust) on the same files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/tokens.h"

#define BYTES_BY_WORD "{'type':'ByteLevel','add_prefix_space':false,'trim_offsets':true,'use_regex':true}"
#define BYTES         "{'type':'ByteLevel','add_prefix_space':false,'trim_offsets':true,'use_regex':false}"
#define SEQUENCE      "{'type':'Sequence','pretokenizers':["
#define END           "]}"
#define MARK          "\xe2\x96\x81"

/* A part of byte_level_json's, a text, and its ids up to -1. */
static const struct {
    const char *key, *part, *text;
    int ids[20];
} parts[] = {
    {"normalizer", "{'type':'NFC'}", "e\xcc\x81", {195, 169, -1}},
    {"normalizer", "{'type':'NFC'}", "\xe2\x84\xab", {195, 133, -1}},
    {"normalizer", "{'type':'NFD'}", "\xc3\xa9", {101, 204, 129, -1}},
    {"normalizer", "{'type':'NFD'}", "\xea\xb0\x80", {225, 132, 128, 225, 133, 161, -1}},
    {"normalizer", "{'type':'NFKC'}", "\xef\xac\x81\xc2\xbd", {102, 105, 49, 226, 129, 132, 50, -1}},
    {"normalizer", "{'type':'NFKC'}", "\xef\xbd\xb6\xef\xbe\x9e", {227, 130, 172, -1}},
    {"normalizer", "{'type':'NFKD'}", "\xef\xac\x81\xc2\xbd\xc3\xa9", {102, 105, 49, 226, 129, 132, 50, 101, 204, 129, -1}},
    {"normalizer",
     "{'type':'NFC'}",
     "a\xcc\x95\xcc\x80\xd6\xae"
     "b",
     {195, 160, 214, 174, 204, 149, 98, -1}},
    {"normalizer", "{'type':'Lowercase'}", "HELLO World", {259, 264, -1}},
    {"normalizer", "{'type':'Lowercase'}", "\xc3\x85\xc4\xb0\xce\xa3", {195, 165, 105, 204, 135, 207, 131, -1}},
    {"normalizer", "{'type':'Strip','strip_left':true,'strip_right':false}", " \xe3\x80\x80hello ", {259, 32, -1}},
    {"normalizer", "{'type':'Strip','strip_left':true,'strip_right':false}", "  ", {-1}},
    {"normalizer", "{'type':'Strip','strip_left':false,'strip_right':true}", " hello \t\n", {32, 259, -1}},
    {"normalizer",
     "{'type':'Sequence','normalizers':[{'type':'NFD'},{'type':'StripAccents'}]}",
     "\xc3\xa9 \xc3\xb6",
     {101, 32, 111, -1}},
    {"normalizer", "{'type':'Prepend','prepend':'>'}", "hello", {62, 259, -1}},
    {"normalizer", "{'type':'Prepend','prepend':'>'}", "", {-1}},
    {"normalizer",
     "{'type':'Replace','pattern':{'String':'ell'},'content':'ipp'}",
     "hello hello",
     {104, 105, 112, 112, 111, 273, 105, 112, 112, 111, -1}},
    {"normalizer", "{'type':'Replace','pattern':{'Regex':'\\\\s+'},'content':' '}", "a \t\n b", {97, 32, 98, -1}},
    {"normalizer",
     "{'type':'Nmt'}",
     "a\xe2\x80\x8b"
     "b\x01"
     "c\td",
     {97, 32, 98, 99, 32, 100, -1}},
    {"pre_tokenizer",
     "{'type':'ByteLevel','add_prefix_space':true,'trim_offsets':true,'use_regex':true}",
     "hello",
     {32, 259, -1}},
    {"pre_tokenizer",
     "{'type':'ByteLevel','add_prefix_space':true,'trim_offsets':true,'use_regex':true}",
     " hello",
     {32, 259, -1}},
    {"pre_tokenizer",
     "{'type':'ByteLevel','add_prefix_space':true,'trim_offsets':true,'use_regex':true}",
     "\nhello",
     {32, 10, 259, -1}},
    {"pre_tokenizer",
     SEQUENCE "{'type':'Digits','individual_digits':true}," BYTES_BY_WORD END,
     "a12 34",
     {97, 49, 50, 32, 51, 52, -1}},
    {"pre_tokenizer",
     SEQUENCE "{'type':'Digits','individual_digits':false}," BYTES_BY_WORD END,
     "a12 34",
     {97, 49, 50, 32, 51, 52, -1}},
    {"pre_tokenizer",
     SEQUENCE "{'type':'Split','pattern':{'String':'l'},'behavior':'Removed','invert':false}," BYTES END,
     "hello world",
     {256, 111, 263, 100, -1}},
    {"pre_tokenizer",
     SEQUENCE "{'type':'Split','pattern':{'Regex':'[lo]'},'behavior':'MergedWithPrevious','invert':false}," BYTES END,
     "hello hello",
     {256, 108, 108, 111, 32, 256, 108, 108, 111, -1}},
    {"pre_tokenizer",
     SEQUENCE "{'type':'Split','pattern':{'Regex':'[lo]'},'behavior':'MergedWithNext','invert':false}," BYTES END,
     "hello hello",
     {256, 108, 108, 111, 32, 256, 108, 108, 111, -1}},
    {"pre_tokenizer",
     SEQUENCE "{'type':'Split','pattern':{'Regex':'[lo]'},'behavior':'Contiguous','invert':false}," BYTES END,
     "hello hello",
     {256, 257, 111, 32, 256, 257, 111, -1}},
    {"pre_tokenizer",
     SEQUENCE "{'type':'Split','pattern':{'Regex':'hell|w'},'behavior':'Isolated','invert':true}," BYTES END,
     "hello world",
     {258, 111, 32, 119, 261, 262, -1}},
    {"pre_tokenizer",
     SEQUENCE "{'type':'Punctuation','behavior':'Isolated'}," BYTES END,
     "don't..\xc2\xbf",
     {269, 39, 116, 46, 46, 194, 191, -1}},
    {"pre_tokenizer",
     SEQUENCE "{'type':'Whitespace'}," BYTES END,
     "hello  world don't",
     {259, 119, 261, 262, 269, 39, 116, -1}},
    {"pre_tokenizer",
     SEQUENCE "{'type':'WhitespaceSplit'}," BYTES END,
     "hello \xe3\x80\x80world don't",
     {259, 119, 261, 262, 269, 270, -1}},
    {"pre_tokenizer",
     SEQUENCE "{'type':'CharDelimiterSplit','delimiter':'.'}," BYTES END,
     "hello.world.",
     {259, 119, 261, 262, -1}},
    {"pre_tokenizer", SEQUENCE "{'type':'BertPreTokenizer'}," BYTES END, "hello, world", {259, 44, 119, 261, 262, -1}},
};

static size_t count(const int *ids) {
    size_t n = 0;
    while (ids[n] >= 0) n++;
    return n;
}

static void normalisers_and_pre_tokenisers_do_what_the_originals_do(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *root = byte_level_json();
        json_put(root, parts[i].key, parts[i].part);
        tokenizer *t = json_tokenizer(root);
        assert_ids_of(t, parts[i].text, strlen(parts[i].text), 0, parts[i].ids, count(parts[i].ids));
        tokenizer_free(t);
    }
}

/* ---- a vocabulary of characters, with byte fallback ---- */

#define LLAMA_NORMALIZER                                                                                                       \
    "{'type':'Sequence','normalizers':[{'type':'Prepend','prepend':'" MARK "'},"                                               \
    "{'type':'Replace','pattern':{'String':' '},'content':'" MARK "'}]}"
#define LLAMA_DECODER                                                                                                          \
    "{'type':'Sequence','decoders':[{'type':'Replace','pattern':{'String':'" MARK "'},'content':' '},"                         \
    "{'type':'ByteFallback'},{'type':'Fuse'},{'type':'Strip','content':' ','start':1,'stop':0}]}"

/* <unk> <s> </s>, the 256 bytes, then the pieces below: 259 and up. */
static json_t *char_json(bool bytes) {
    static const char *const pieces[] = {MARK, "h",    "e",     "l",          "o",  "w",   "r",  "d",     "he",
                                         "ll", "hell", "hello", MARK "hello", "wo", "wor", "ld", "world", MARK "world"};
    json_t *root = json_quoted("{'added_tokens':[{'id':0,'content':'<unk>','special':true},{'id':1,'content':'<s>',"
                               "'special':true},{'id':2,'content':'</s>','special':true}]}");
    json_t *vocab = json_quoted("{'<unk>':0,'<s>':1,'</s>':2}");
    for (int b = 0; b < 256 && bytes; b++) {
        char piece[8];
        snprintf(piece, sizeof piece, "<0x%02X>", (unsigned)b);
        json_object_set_new(vocab, piece, json_integer(3 + b));
    }
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        json_object_set_new(vocab, pieces[i], json_integer((json_int_t)json_object_size(vocab)));
    json_put(root, "model",
             "{'type':'BPE','unk_token':'<unk>','fuse_unk':true,'merges':['h e','l l','he ll','hell o','" MARK
             " hello','w o','wo r','l d','wor ld','" MARK " world']}");
    json_object_set_new(json_object_get(root, "model"), "vocab", vocab);
    json_object_set_new(json_object_get(root, "model"), "byte_fallback", json_boolean(bytes));
    return root;
}

static tokenizer *llama(void) {
    json_t *root = char_json(true);
    json_put(root, "normalizer", LLAMA_NORMALIZER);
    json_put(root, "decoder", LLAMA_DECODER);
    json_put(root, "post_processor",
             "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'<s>','type_id':0}},{'Sequence':{'id':'A'}},"
             "{'SpecialToken':{'id':'</s>','type_id':0}}],'special_tokens':{'<s>':{'ids':[1]},'</s>':{'ids':[2]}}}");
    return json_tokenizer(root);
}

static void a_llama_tokenizer_prepends_to_every_section_and_falls_back_to_bytes(void **state) {
    (void)state;
    const unsigned p = TOKENIZE_PARSE_SPECIAL;
    tokenizer *t = llama();
    assert_ids(t, "hello world", p, 2, 271, 276);
    assert_ids(t, "  hello", p, 3, 259, 259, 271);
    assert_ids(t, "hello<s>hello", p, 3, 271, 1, 271);
    assert_ids(t, "\xc3\xa9 hello", p, 4, 259, 198, 172, 271);
    assert_ids(t, "", p, 0);
    assert_ids(t, "<s> world", p, 3, 1, 259, 276);
    assert_text(t, DETOKENIZE_SPECIAL, "  hello", 3, 259, 259, 271);
    assert_text(t, DETOKENIZE_SPECIAL, "<s> hello</s>", 3, 1, 271, 2);
    assert_text(t, 0, "hello", 3, 1, 271, 2);
    assert_text(t, DETOKENIZE_CONTINUED, " hello", 1, 271);
    assert_round_trip(t, "hello \xff\xc3 world", 15, 0);
    tokenizer_free(t);
}

static void a_template_puts_its_tokens_around_the_text_exactly_once(void **state) {
    (void)state;
    const unsigned both = TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL;
    tokenizer *t = llama();
    assert_ids(t, "hello world", TOKENIZE_ADD_SPECIAL, 4, 1, 271, 276, 2);
    assert_ids(t, "", TOKENIZE_ADD_SPECIAL, 2, 1, 2);
    assert_ids(t, "<s>hello", both, 3, 1, 271, 2);
    assert_ids(t, "<s><s>hello", both, 4, 1, 1, 271, 2);
    assert_int_equal(tokenizer_bos(t), 1);
    assert_int_equal(tokenizer_eos(t), 2);
    tokenizer_free(t);
}

static void metaspace_has_three_schemes(void **state) {
    (void)state;
    static const struct {
        const char *scheme;
        int hello, after_special;
        const char *decoded;
    } cases[] = {{"always", 271, 271, "hello world"}, {"never", 270, 270, " hello world"}, {"first", 271, 270, "hello world"}};
    for (int i = 0; i < 3; i++) {
        char part[200];
        json_t *root = char_json(true);
        snprintf(part, sizeof part, "{'type':'Metaspace','replacement':'" MARK "','prepend_scheme':'%s'}", cases[i].scheme);
        json_put(root, "pre_tokenizer", part);
        json_put(root, "decoder", part);
        tokenizer *t = json_tokenizer(root);
        assert_ids(t, "hello world", 0, 2, cases[i].hello, 276);
        assert_ids(t, "hello<s>hello", TOKENIZE_PARSE_SPECIAL, 3, cases[i].hello, 1, cases[i].after_special);
        assert_text(t, 0, cases[i].decoded, 2, 271, 276);
        tokenizer_free(t);
    }
}

static void unknown_characters_are_fused_where_the_file_says_so(void **state) {
    (void)state;
    for (int fuse = 0; fuse < 2; fuse++) {
        json_t *root = char_json(false);
        json_object_set_new(json_object_get(root, "model"), "fuse_unk", json_boolean(fuse));
        tokenizer *t = json_tokenizer(root);
        if (fuse) assert_ids(t, "hellozzo", 0, 3, 14, 0, 7);
        if (!fuse) assert_ids(t, "hellozzo", 0, 4, 14, 0, 0, 7);
        assert_text(t, DETOKENIZE_SPECIAL, "hello <unk> o", 3, 14, 0, 7);
        tokenizer_free(t);
    }
}

static void without_an_unknown_token_a_missing_character_is_an_error(void **state) {
    (void)state;
    json_t *root = char_json(false);
    json_object_del(json_object_get(root, "model"), "unk_token");
    tokenizer *t = json_tokenizer(root);
    assert_encode_fails(t, "hello z", 7, ERR_ARGUMENT, "' ' (U+0020)");
    assert_encode_fails(t, "helloz", 6, ERR_ARGUMENT, "'z' (U+007A)");
    tokenizer_free(t);
}

/* ---- other models ---- */

static void unigram_takes_the_most_probable_pieces(void **state) {
    (void)state;
    json_t *root = json_object();
    json_put(root, "model",
             "{'type':'Unigram','unk_id':0,'vocab':[['<unk>',0],['" MARK "',-3.0],['h',-4.0],['e',-4.0],['l',-4.0],['o',-4.0],"
             "['he',-5.0],['ll',-5.5],['hello',-9.0],['" MARK "hello',-8.0],['lo',-4.5],['" MARK "he',-6.0]]}");
    json_put(root, "pre_tokenizer", "{'type':'Metaspace','replacement':'" MARK "','add_prefix_space':true}");
    json_put(root, "decoder", "{'type':'Metaspace','replacement':'" MARK "','add_prefix_space':true}");
    tokenizer *t = json_tokenizer(root);
    assert_string_equal(tokenizer_kind(t), "unigram");
    assert_ids(t, "hello hello", 0, 2, 9, 9);
    assert_ids(t, "helo", 0, 2, 11, 10);
    assert_ids(t, "hezzo", 0, 3, 11, 0, 5);
    assert_ids(t, "lllo", 0, 3, 1, 7, 10);
    assert_text(t, 0, "hello hello", 2, 9, 9);
    tokenizer_free(t);
}

static void words_are_looked_up_whole(void **state) {
    (void)state;
    json_t *root = json_object();
    json_put(root, "model", "{'type':'WordLevel','vocab':{'[UNK]':0,'hello':1,'world':2,'.':3},'unk_token':'[UNK]'}");
    json_put(root, "pre_tokenizer", "{'type':'Whitespace'}");
    tokenizer *t = json_tokenizer(root);
    assert_ids(t, "hello world.", 0, 3, 1, 2, 3);
    assert_ids(t, "hello mars .", 0, 3, 1, 0, 3);
    assert_text(t, 0, "hello world .", 3, 1, 2, 3);
    tokenizer_free(t);
}

static void the_end_of_a_word_may_be_part_of_its_pieces(void **state) {
    (void)state;
    json_t *root = json_object();
    json_put(root, "model",
             "{'type':'BPE','unk_token':'<unk>','end_of_word_suffix':'</w>','vocab':{'<unk>':0,'h':1,'e':2,'l':3,'o':4,'w':5,"
             "'h</w>':6,'e</w>':7,'l</w>':8,'o</w>':9,'w</w>':10,'he':11,'ll':12,'llo</w>':13,'hello</w>':14},"
             "'merges':['h e','l l','ll o</w>','he llo</w>']}");
    json_put(root, "pre_tokenizer", "{'type':'Whitespace'}");
    json_put(root, "decoder", "{'type':'BPEDecoder','suffix':'</w>'}");
    tokenizer *t = json_tokenizer(root);
    assert_ids(t, "hello hell hello", 0, 5, 14, 11, 3, 8, 14);
    assert_text(t, 0, "hello hell hello", 5, 14, 11, 3, 8, 14);
    tokenizer_free(t);
}

static void the_inside_of_a_word_may_be_marked_in_its_pieces(void **state) {
    (void)state;
    json_t *root = json_object();
    json_put(
        root, "model",
        "{'type':'BPE','continuing_subword_prefix':'##','vocab':{'<unk>':0,'h':1,'e':2,'l':3,'o':4,'##h':5,'##e':6,'##l':7,"
        "'##o':8,'he':9,'##ll':10,'##llo':11,'hello':12},'merges':['h ##e','##l ##l','##ll ##o','he ##llo']}");
    json_put(root, "pre_tokenizer", "{'type':'Whitespace'}");
    tokenizer *t = json_tokenizer(root);
    assert_ids(t, "hello hell", 0, 3, 12, 9, 10);
    tokenizer_free(t);
}

static void ignore_merges_takes_a_word_that_is_a_token_as_it_is(void **state) {
    (void)state;
    for (int ignore = 0; ignore < 2; ignore++) {
        json_t *root = byte_level_json();
        json_object_set_new(json_object_get(json_object_get(root, "model"), "vocab"), "\xc4\xa0wo", json_integer(280));
        json_object_set_new(json_object_get(root, "model"), "ignore_merges", json_boolean(ignore));
        tokenizer *t = json_tokenizer(root);
        if (ignore) assert_ids(t, " wo", 0, 1, 280);
        if (!ignore) assert_ids(t, " wo", 0, 2, 260, 111);
        tokenizer_free(t);
    }
}

/* ---- added tokens ---- */

static void append_added(json_t *root, const char *token) {
    json_array_append_new(json_object_get(root, "added_tokens"), json_quoted(token));
}

static json_t *added_json(void) {
    json_t *root = byte_level_json();
    append_added(root, "{'id':280,'content':'<x>','lstrip':true,'special':true,'normalized':false}");
    append_added(root, "{'id':281,'content':'<y>','rstrip':true,'special':true,'normalized':false}");
    append_added(root, "{'id':282,'content':'on','single_word':true,'special':true,'normalized':false}");
    append_added(root, "{'id':283,'content':'Wor','special':false,'normalized':true}");
    append_added(root, "{'id':284,'content':'foo','special':false,'normalized':false}");
    return root;
}

static void added_tokens_strip_and_stand_alone_as_their_flags_say(void **state) {
    (void)state;
    const unsigned p = TOKENIZE_PARSE_SPECIAL;
    tokenizer *t = json_tokenizer(added_json());
    assert_ids(t, "a <x> b", p, 4, 97, 280, 32, 98);
    assert_ids(t, "a <y> b", p, 4, 97, 32, 281, 98);
    assert_ids(t, "on don on.", p, 6, 282, 32, 269, 32, 282, 46);
    assert_ids(t, "onon _on", p, 8, 111, 110, 111, 110, 32, 95, 111, 110);
    assert_ids(t, " foo", p, 2, 32, 284);
    assert_ids(t, " foo", 0, 2, 32, 284); /* not special: text that is always one token */
    assert_ids(t, "Wor", p, 1, 283);
    tokenizer_free(t);
}

static void added_tokens_are_looked_for_before_or_after_normalising(void **state) {
    (void)state;
    const unsigned p = TOKENIZE_PARSE_SPECIAL;
    json_t *root = added_json();
    json_put(root, "normalizer", "{'type':'Lowercase'}");
    tokenizer *t = json_tokenizer(root);
    assert_ids(t, "WORLD", p, 2, 283, 262);
    assert_ids(t, "wor FOO foo", p, 7, 283, 32, 102, 111, 111, 32, 284);
    assert_ids(t, "on On", p, 4, 282, 32, 111, 110);
    tokenizer_free(t);
}

static void a_classifier_template_surrounds_the_text(void **state) {
    (void)state;
    json_t *root = byte_level_json();
    json_put(root, "post_processor", "{'type':'RobertaProcessing','sep':['<|im_end|>',278],'cls':['<s>',279]}");
    tokenizer *t = json_tokenizer(root);
    assert_ids(t, "hello", TOKENIZE_ADD_SPECIAL, 3, 279, 259, 278);
    assert_ids(t, "hello", 0, 1, 259);
    tokenizer_free(t);
}

/* ---- what is refused, by name ---- */

static const struct {
    const char *key, *part;
    status want;
    const char *words;
} refused[] = {
    {"model", "{'type':'WordPiece','vocab':{}}", ERR_UNSUPPORTED, "\"WordPiece\""},
    {"model", "{'type':'BPE','vocab':{'a':0},'merges':[],'dropout':0.1}", ERR_UNSUPPORTED, "dropout 0.1"},
    {"model", "{'type':'BPE','vocab':{'a':0},'merges':['a b']}", ERR_FORMAT, "merge 0 names the token \"b\""},
    {"model", "{'type':'BPE','vocab':{'a':0,'b':1},'merges':['a b']}", ERR_FORMAT, "merge 0 makes the token \"ab\""},
    {"model", "{'type':'BPE','vocab':{'a':0,'b':1,'ab':2},'merges':['a b','a b']}", ERR_FORMAT, "merge 1 repeats merge 0"},
    {"model", "{'type':'BPE','vocab':{'a':0,'b':1,'ab':2},'merges':['a  b']}", ERR_FORMAT, "merge 0 is not a pair"},
    {"model", "{'type':'BPE','vocab':{'a':0,'b':1,'ab':2},'merges':[['a','b','c']]}", ERR_FORMAT, "merge 0 is not a pair"},
    {"model", "{'type':'BPE','vocab':{'a':0,'b':0},'merges':[]}", ERR_FORMAT, "have the same id 0"},
    {"model", "{'type':'BPE','vocab':{'a':-1},'merges':[]}", ERR_FORMAT, "has the id -1, out of range"},
    {"model", "{'type':'BPE','vocab':{'a':2147483648},'merges':[]}", ERR_FORMAT, "has the id 2147483648, out of range"},
    {"model", "{'type':'BPE','vocab':{'a':9000000},'merges':[]}", ERR_FORMAT, "has the id 9000000, out of range"},
    {"model", "{'type':'BPE','vocab':{'a':'0'},'merges':[]}", ERR_FORMAT, "\"a\" has no id"},
    {"model", "{'type':'BPE','vocab':['a'],'merges':[]}", ERR_FORMAT, "vocab is not an object"},
    {"model", "{'type':'BPE','vocab':{'a':0},'merges':[],'unk_token':'<unk>'}", ERR_FORMAT, "the unk_token \"<unk>\""},
    {"model", "{'type':'Unigram','vocab':[['a',0],['a',1]]}", ERR_FORMAT, "the token \"a\" stands twice"},
    {"model", "{'type':'Unigram','vocab':[['a',0]],'unk_id':1}", ERR_FORMAT, "the unk_id 1"},
    {"model", "{'type':'Unigram','vocab':[['a']]}", ERR_FORMAT, "entry 0"},
    {"model", "[]", ERR_FORMAT, "has no model"},
    {"normalizer", "{'type':'BertNormalizer'}", ERR_UNSUPPORTED, "\"BertNormalizer\""},
    {"normalizer", "{'type':'Replace','pattern':{},'content':''}", ERR_FORMAT, "neither a String nor a Regex"},
    {"normalizer", "{'type':'Precompiled','precompiled_charsmap':'AAAA!'}", ERR_FORMAT, "not base64"},
    {"normalizer", "{'type':'Precompiled','precompiled_charsmap':'/////w=='}", ERR_FORMAT, "map of characters"},
    {"normalizer", "{}", ERR_FORMAT, "the normalizer has no type"},
    {"pre_tokenizer", "{'type':'UnicodeScripts'}", ERR_UNSUPPORTED, "\"UnicodeScripts\""},
    {"pre_tokenizer", "{'type':'Sequence'}", ERR_FORMAT, "has no pretokenizers"},
    {"pre_tokenizer", "{'type':'Split','pattern':{'String':'a'},'behavior':'Sideways'}", ERR_UNSUPPORTED, "\"Sideways\""},
    {"pre_tokenizer", "{'type':'Split','pattern':{'Regex':'('},'behavior':'Isolated'}", ERR_UNSUPPORTED, "missing closing"},
    {"pre_tokenizer", "{'type':'Split','pattern':{'Regex':'a{1,3}+'},'behavior':'Isolated'}", ERR_UNSUPPORTED, "quantifier }+"},
    {"pre_tokenizer", "{'type':'Split','pattern':{'Regex':'[a[b]]'},'behavior':'Isolated'}", ERR_UNSUPPORTED,
     "set inside a set"},
    {"pre_tokenizer", "{'type':'Split','pattern':{'Regex':'(?m)a'},'behavior':'Isolated'}", ERR_UNSUPPORTED, "flags (?m)"},
    {"pre_tokenizer", "{'type':'Metaspace','prepend_scheme':'last'}", ERR_UNSUPPORTED, "\"last\""},
    {"decoder", "{'type':'CTC'}", ERR_UNSUPPORTED, "\"CTC\""},
    {"decoder", "{'type':'Sequence','decoders':[{'type':'Fuse'},{'type':'Strip','content':' ','start':0,'stop':1}]}",
     ERR_UNSUPPORTED, "stop 1"},
    {"post_processor", "{'type':'Martian'}", ERR_UNSUPPORTED, "\"Martian\""},
    {"post_processor",
     "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'<b>'}},{'Sequence':{'id':'A'}}],"
     "'special_tokens':{'<b>':{'ids':[999]}}}",
     ERR_FORMAT, "adds the token 999"},
    {"post_processor", "{'type':'TemplateProcessing','single':[],'special_tokens':{}}", ERR_UNSUPPORTED, "0 times"},
    {"added_tokens", "[{'id':5,'content':'hello'}]", ERR_FORMAT, "has the id 5, but in the vocabulary 259"},
    {"added_tokens", "[{'id':97,'content':'<a>'}]", ERR_FORMAT, "have the same id 97"},
    {"added_tokens", "{}", ERR_FORMAT, "added_tokens is not an array"},
};

static void what_is_not_supported_or_malformed_is_named(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        json_t *root = byte_level_json();
        if (strcmp(refused[i].key, "model") == 0) json_object_clear(root);
        json_put(root, refused[i].key, refused[i].part);
        assert_json_refused(root, refused[i].want, refused[i].words);
    }
}

static void sequences_are_not_followed_without_end(void **state) {
    (void)state;
    json_t *root = byte_level_json(), *part = json_quoted("{'type':'NFC'}");
    for (int i = 0; i < 100; i++) part = json_pack("{s:s, s:[o]}", "type", "Sequence", "normalizers", part);
    json_object_set_new(root, "normalizer", part);
    assert_json_refused(root, ERR_LIMIT, "deep");
}

static void text_that_is_no_json_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"", "{", "[1]", "{'model'", "{\"model\": {\"a\": 1, \"a\": 2}}", "\xff"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tokenizer *t;
        error e = {0};
        assert_int_equal(tokenizer_from_json(&t, texts[i], strlen(texts[i]), "x.json", &e), ERR_FORMAT);
        assert_null(t);
        assert_non_null(strstr(e.message, "x.json: is "));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalisers_and_pre_tokenisers_do_what_the_originals_do),
        cmocka_unit_test(a_llama_tokenizer_prepends_to_every_section_and_falls_back_to_bytes),
        cmocka_unit_test(a_template_puts_its_tokens_around_the_text_exactly_once),
        cmocka_unit_test(metaspace_has_three_schemes),
        cmocka_unit_test(unknown_characters_are_fused_where_the_file_says_so),
        cmocka_unit_test(without_an_unknown_token_a_missing_character_is_an_error),
        cmocka_unit_test(unigram_takes_the_most_probable_pieces),
        cmocka_unit_test(words_are_looked_up_whole),
        cmocka_unit_test(the_end_of_a_word_may_be_part_of_its_pieces),
        cmocka_unit_test(the_inside_of_a_word_may_be_marked_in_its_pieces),
        cmocka_unit_test(ignore_merges_takes_a_word_that_is_a_token_as_it_is),
        cmocka_unit_test(added_tokens_strip_and_stand_alone_as_their_flags_say),
        cmocka_unit_test(added_tokens_are_looked_for_before_or_after_normalising),
        cmocka_unit_test(a_classifier_template_surrounds_the_text),
        cmocka_unit_test(what_is_not_supported_or_malformed_is_named),
        cmocka_unit_test(sequences_are_not_followed_without_end),
        cmocka_unit_test(text_that_is_no_json_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
