/* The lesson's numbers, section by section. */
#include "tools/lesson.h"

#include <stddef.h>

#define SEVEN "--params 7e9 --kv-heads 8 --heads 32 --head-dim 128 --layers 32 --bandwidth 1e12 --flops 1e14"
#define BLOCK "{\"n_layers\":1,\"d_model\":64,\"n_heads\":4,\"d_ff\":256,\"gated\":false,\"n_vocab\":15,\"n_ctx\":2048}"
/* Small enough to be run at once: the cache of a token depends on neither d_ff nor the vocabulary. */
#define LAB(kv) "{\"n_layers\":4,\"d_model\":512,\"n_heads\":8,\"n_kv_heads\":" kv ",\"d_ff\":64,\"n_vocab\":16,\"n_ctx\":64}"
#define WIDE(kv)                                                                                                               \
    "{\"n_layers\":2,\"d_model\":128,\"n_heads\":32,\"n_kv_heads\":" kv                                                        \
    ",\"head_dim\":4,\"d_ff\":64,\"n_vocab\":16,\"n_ctx\":64}"
#define TINY "{\"n_layers\":1,\"d_model\":16,\"n_heads\":2,\"d_ff\":16,\"n_vocab\":16,\"n_ctx\":128}"
#define STEP "step_seconds tokens_per_second_user tokens_per_second"

#define ASK(words, command, keys)                                                                                              \
    { NULL, words, command, keys, RUN_NONE, NULL, NULL, 0 }
#define RUN(words, command, keys, run, shape, weights, n)                                                                      \
    { NULL, words, command, keys, run, shape, weights, n }
#define SECTION(title)                                                                                                         \
    { title, "", NULL, NULL, RUN_NONE, NULL, NULL, 0 }

const lesson_row lesson_rows[] = {
    SECTION("1. With a cache, each key is computed once"),
    RUN("100 tokens, one at a time, without a cache: keys computed in a layer", "--preset level21 --context 100",
        "keys_computed_without_cache", RUN_KEYS_WITHOUT, TINY, "f32", 100),
    RUN("with a cache", "--preset level21 --context 100", "keys_computed_with_cache", RUN_KEYS_WITH, TINY, "f32", 100),
    RUN("keys attended, either way", "--preset level21 --context 100", "keys_attended", RUN_KEYS_ATTENDED, TINY, "f32", 100),

    SECTION("2. What the cache takes"),
    RUN("1 head, d_k 4, 2 layers, 2 bytes: one token", "--heads 1 --head-dim 4 --layers 2", "kv_bytes_per_token",
        RUN_KV_PER_TOKEN, "{\"n_layers\":2,\"d_model\":8,\"n_heads\":1,\"head_dim\":4,\"d_ff\":16,\"n_vocab\":16,\"n_ctx\":64}",
        "f32", 8),
    ASK("32 layers, 32 heads, d_k 128, 2 bytes: one token", "--heads 32 --head-dim 128 --layers 32", "kv_bytes_per_token"),
    ASK("a conversation of 4,000 tokens", "--heads 32 --head-dim 128 --layers 32 --context 4000", "kv_bytes_conversation"),
    RUN("level 21: one token", "--preset level21", "kv_bytes_per_token", RUN_KV_PER_TOKEN, "level21", "f32", 8),

    SECTION("3. Fewer K/V heads than query heads"),
    ASK("32 query heads, 8 K/V heads: which one does head 13 use?", "--heads 32 --kv-heads 8 --head 13", "kv_head"),
    RUN("8 query heads, d_k 64, 4 layers, 8 K/V heads: one token", "--heads 8 --kv-heads 8 --head-dim 64 --layers 4",
        "kv_bytes_per_token", RUN_KV_PER_TOKEN, LAB("8"), "f16", 8),
    RUN("4 K/V heads", "--heads 8 --kv-heads 4 --head-dim 64 --layers 4", "kv_bytes_per_token", RUN_KV_PER_TOKEN, LAB("4"),
        "f16", 8),
    RUN("2 K/V heads", "--heads 8 --kv-heads 2 --head-dim 64 --layers 4", "kv_bytes_per_token", RUN_KV_PER_TOKEN, LAB("2"),
        "f16", 8),
    RUN("1 K/V head", "--heads 8 --kv-heads 1 --head-dim 64 --layers 4", "kv_bytes_per_token", RUN_KV_PER_TOKEN, LAB("1"),
        "f16", 8),
    RUN("a small model of 32 query heads, 32 K/V heads", "--heads 32 --kv-heads 32 --head-dim 4 --layers 2",
        "kv_bytes_per_token", RUN_KV_PER_TOKEN, WIDE("32"), "f16", 8),
    RUN("the same with 8", "--heads 32 --kv-heads 8 --head-dim 4 --layers 2", "kv_bytes_per_token", RUN_KV_PER_TOKEN, WIDE("8"),
        "f16", 8),
    RUN("the same with 1", "--heads 32 --kv-heads 1 --head-dim 4 --layers 2", "kv_bytes_per_token", RUN_KV_PER_TOKEN, WIDE("1"),
        "f16", 8),
    ASK("24 GiB, 16 GiB of weights, 4 K/V heads, d_k 128, 32 layers: how many tokens fit?",
        "--memory 24GiB --weight-bytes 16GiB --kv-heads 4 --head-dim 128 --layers 32", "memory_left tokens_that_fit"),

    SECTION("4. Arithmetic"),
    ASK("(1,3) @ (3,4)", "--product 1,3,4", "product_flops"),
    ASK("a block of d 64 and ffn 256, a token that sees L = 128 keys", "--shape " BLOCK " --logit-rows none --context 127",
        "flops_matmul flops_attention flops_matmul_attention"),
    ASK("where its two parts are equal", "--shape " BLOCK " --logit-rows none", "attention_equals_matmul_at"),
    ASK("its attention at L = 1,280", "--shape " BLOCK " --logit-rows none --context 1279", "flops_attention"),
    ASK("level 21: parameters", "--preset level21", "parameters"),
    RUN("level 21: matrix products for one token", "--preset level21 --context 10", "flops_matmul", RUN_MATMUL, "level21",
        "f32", 11),
    RUN("its attention at 11 keys", "--preset level21 --context 10", "flops_attention", RUN_ATTENTION, "level21", "f32", 11),
    RUN("everything else", "--preset level21 --context 10", "flops_other", RUN_OTHER, "level21", "f32", 11),
    RUN("a prefill of 10: matrix products", "--preset level21 --prompt 10", "prefill_matmul", RUN_PREFILL_MATMUL, "level21",
        "f32", 10),
    RUN("its attention", "--preset level21 --prompt 10", "prefill_attention", RUN_PREFILL_ATTENTION, "level21", "f32", 10),
    RUN("everything else", "--preset level21 --prompt 10", "prefill_other", RUN_PREFILL_OTHER, "level21", "f32", 10),
    ASK("training it for an epoch of 85,000 tokens", "--preset level21 --train-tokens 85000", "training_flops"),
    ASK("7e9 weights at 1e14 FLOP/s, arithmetic only", "--params 7e9 --flops 1e14", "tokens_per_second"),

    SECTION("5. Reading decides"),
    ASK("7e9 weights of 2 bytes at 1e12 bytes/s: one user", "--params 7e9 --bytes 2 --bandwidth 1e12 --flops 1e14",
        "step_seconds tokens_per_second"),
    ASK("from how many users does arithmetic decide?", "--params 7e9 --bytes 2 --bandwidth 1e12 --flops 1e14", "crossover"),
    ASK("with weights of 1 byte", "--params 7e9 --bytes 1 --bandwidth 1e12 --flops 1e14", "crossover"),
    RUN("level 21: bytes of weights for one token, fp32", "--preset level21 --weights f32 --context 3",
        "step_weight_side_bytes", RUN_WEIGHT_BYTES, "level21", "f32", 4),
    RUN("in fp16", "--preset level21 --weights f16 --context 3", "step_weight_side_bytes", RUN_WEIGHT_BYTES, "level21", "f16",
        4),
    RUN("in int8 with a scale for every 32", "--preset level21 --weights int8 --context 3", "step_weight_side_bytes",
        RUN_WEIGHT_BYTES, "level21", "int8", 4),

    SECTION("6. Many users"),
    ASK("8 users of 4,000 tokens at 128 KiB a token", SEVEN " --bytes 2 --context 4000 --batch 8 --units decimal",
        "kv_bytes_all " STEP),
    ASK("80 GB: how many users of 4,000 tokens fit beside 14 GB of weights?", SEVEN " --bytes 2 --context 4000 --memory 80e9",
        "users_that_fit"),
    ASK("a step of those 125", SEVEN " --bytes 2 --context 4000 --batch 125", STEP),
    ASK("prefill of 2,000 tokens", SEVEN " --bytes 2 --prompt 2000", "prefill_seconds"),
    ASK("prefill of 50 tokens", SEVEN " --bytes 2 --prompt 50", "prefill_seconds"),
    ASK("caches of 4,000 tokens: where do the lines meet?", SEVEN " --bytes 2 --context 4000", "crossover_with_caches"),
    ASK("caches of 500 tokens", SEVEN " --bytes 2 --context 500", "crossover_with_caches"),

    SECTION("7. serve(tokens, users, bytes)"),
    ASK("serve(0, 1, 2)", SEVEN " --bytes 2 --context 0 --batch 1", STEP),
    ASK("serve(0, 1, 1)", SEVEN " --bytes 1 --context 0 --batch 1", STEP),
    ASK("serve(0, 8, 2)", SEVEN " --bytes 2 --context 0 --batch 8", STEP),
    ASK("serve(0, 256, 2)", SEVEN " --bytes 2 --context 0 --batch 256", STEP),
    ASK("serve(0, 256, 1)", SEVEN " --bytes 1 --context 0 --batch 256", STEP),
    ASK("serve(4000, 8, 2)", SEVEN " --bytes 2 --context 4000 --batch 8", STEP),
    ASK("serve(4000, 8, 1)", SEVEN " --bytes 1 --context 4000 --batch 8", STEP),
    {NULL, NULL, NULL, NULL, RUN_NONE, NULL, NULL, 0},
};
