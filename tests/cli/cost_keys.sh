#!/bin/sh
# Both answer keys of the cost model, from the command line: the lesson's numbers, and numbers published elsewhere.
. tests/cli/lib.inc

value() { # value KEY OPTIONS...: the value of a result, whole or rounded to 4 decimals
    key=$1; shift
    "$TALLY" cost "$@" --json | awk -v key="\"$key\":" '
        $1 == key { found = 1 }
        found && $1 == "\"value\":" { sub(/,$/, "", $2); print ($2 ~ /^-?[0-9]+$/) || $2 == "null" ? $2 : sprintf("%.4f", $2); exit }'
}
answer() { # answer NAME EXPECTED KEY OPTIONS...
    name=$1 want=$2; shift 2
    same "$name" "$want" "$(value "$@")"
}
says() { # says NAME TEXT OPTIONS...: a line of the printed report holds TEXT
    name=$1 text=$2; shift 2
    if "$TALLY" cost "$@" | grep -qF -- "$text"; then ok "$name"; else not_ok "$name: '$text' is not printed"; "$TALLY" cost "$@"; fi
}

# The lesson.
says "1 head, d_k 4, 2 layers" "2 × 1 × 4 × 2 × 2 = 32 bytes per token" --heads 1 --head-dim 4 --layers 2
says "32 layers, 32 heads, d_k 128" "2 × 32 × 128 × 32 × 2 = 524,288 bytes = 512 KiB per token" --heads 32 --head-dim 128 --layers 32
says "4,000 tokens of it" "4,000 × 524,288 = 2,097,152,000 bytes = 1.95 GiB" --heads 32 --head-dim 128 --layers 32 --context 4000
answer "head 13 of 32 reads K/V head 3 of 8" 3 kv_head --heads 32 --kv-heads 8 --head 13
for pair in 8:8192 4:4096 2:2048 1:1024; do
    answer "GQA lab, ${pair%:*} K/V heads" "${pair#*:}" kv_bytes_per_token --heads 8 --kv-heads "${pair%:*}" --head-dim 64 --layers 4
done
answer "24 GiB, 16 GiB of weights" 131072 tokens_that_fit --memory 24GiB --weight-bytes 16GiB --kv-heads 4 --head-dim 128 --layers 32
answer "arithmetic alone, 7e9 weights" 7142.8571 tokens_per_second --params 7e9 --flops 1e14 --bytes 2
answer "(1,3) @ (3,4)" 24 product_flops --product 1,3,4
block='{"n_layers":1,"d_model":64,"n_heads":4,"d_ff":256,"gated":false,"n_vocab":15,"n_ctx":2048}'
answer "a block at L = 128" 131072 flops_matmul_attention --shape "$block" --logit-rows none --context 127
answer "its parts are equal at" 384.0000 attention_equals_matmul_at --shape "$block" --logit-rows none
answer "its attention at L = 1,280: scores" 163840 flops_scores --shape "$block" --logit-rows none --context 1279
answer "its attention at L = 1,280: values" 163840 flops_values --shape "$block" --logit-rows none --context 1279
answer "level 21: parameters" 102415 parameters --preset level21
answer "level 21: an epoch of training" 52231650000 training_flops --preset level21 --train-tokens 85000
says "level 21: an epoch, rounded" "52.23 GFLOP" --preset level21 --train-tokens 85000
answer "one user of 7e9 weights" 71.4286 tokens_per_second --params 7e9 --bytes 2 --bandwidth 1e12 --flops 1e14
answer "crossover, 2 bytes" 100.0000 crossover --params 7e9 --bytes 2 --bandwidth 1e12 --flops 1e14
answer "crossover, 1 byte" 50.0000 crossover --params 7e9 --bytes 1 --bandwidth 1e12 --flops 1e14
seven="--params 7e9 --kv-heads 8 --heads 32 --head-dim 128 --layers 32 --bandwidth 1e12 --flops 1e14 --bytes 2"
# shellcheck disable=SC2086 # words on purpose
{
    says "8 users: cache" "8 × 4,000 × 131,072 = 4,194,304,000 bytes = 4.19 GB" $seven --context 4000 --batch 8 --units decimal
    says "8 users: step" "= 18.19 ms" $seven --context 4000 --batch 8
    answer "8 users: each" 54.9623 tokens_per_second_user $seven --context 4000 --batch 8
    answer "8 users: all" 439.6981 tokens_per_second $seven --context 4000 --batch 8
    answer "users in 80 GB" 125 users_that_fit $seven --context 4000 --memory 80e9
    says "125 users: step" "= 79.54 ms" $seven --context 4000 --batch 125
    answer "125 users: each" 12.5729 tokens_per_second_user $seven --context 4000 --batch 125
    answer "125 users: all" 1571.6154 tokens_per_second $seven --context 4000 --batch 125
    answer "prefill of 2,000" 0.2800 prefill_seconds $seven --prompt 2000
    answer "prefill of 50" 0.0140 prefill_seconds $seven --prompt 50
    answer "caches of 4,000: the lines never meet" null crossover_with_caches $seven --context 4000
    answer "caches of 500: they meet" 188.0103 crossover_with_caches $seven --context 500
    says "never, in words" "= never" $seven --context 4000
}
# serve(7e9, 8, 128, 32, tokens, users, 1e12, 1e14, bytes): step in ms, each user, all users.
serve() { # serve TOKENS USERS BYTES MS EACH ALL
    set -- "$@" "--params 7e9 --kv-heads 8 --heads 32 --head-dim 128 --layers 32 --bandwidth 1e12 --flops 1e14 --context $1 --batch $2 --bytes $3"
    # shellcheck disable=SC2086
    got=$(printf '%.2f %.2f %.2f' "$("$TALLY" cost $7 --json | awk '/"step_seconds":/ { f = 1 } f && /"value":/ { print $2 * 1000; exit }')" \
        "$(value tokens_per_second_user $7)" "$(value tokens_per_second $7)")
    same "serve($1, $2, $3)" "$4 $5 $6" "$got"
}
serve 0 1 2 14.00 71.43 71.43
serve 0 1 1 7.00 142.86 142.86
serve 0 8 2 14.00 71.43 571.43
serve 0 256 2 35.84 27.90 7142.86
serve 0 256 1 35.84 27.90 7142.86
serve 4000 8 2 18.19 54.96 439.70
serve 4000 8 1 9.10 109.92 879.40
answer "100 tokens without a cache" 5050 keys_computed_without_cache --preset level21 --context 100
answer "100 tokens with one" 100 keys_computed_with_cache --preset level21 --context 100
answer "keys attended either way" 5050 keys_attended --preset level21 --context 100

# Published elsewhere; the options are the convention.
answer "OPT-13B, a token" 819200 kv_bytes_per_token --preset opt-13b
says "OPT-13B: 800 KiB" "= 819,200 bytes = 800 KiB per token" --preset opt-13b
answer "OPT-13B, 2,048 tokens" 1677721600 kv_bytes_conversation --preset opt-13b --context 2048
answer "52B, a token" 2097152 kv_bytes_per_token --preset 52b
blocks="--preset 52b --logit-rows none --embedding none --vectors none --attention none"
# shellcheck disable=SC2086
{
    answer "52B, FLOPs of the matrices of the blocks" 103079215104 flops_matmul_attention $blocks
    says "52B, a step" "= 68.72 ms" $blocks --flops 312e12 --bandwidth 1.5e12
    answer "52B, ridge" 208.0000 machine_balance $blocks --flops 312e12 --bandwidth 1.5e12
}
answer "Llama-2-13B, 8,192 tokens" 6710886400 kv_bytes_conversation --preset llama-2-13b --context 8192
says "Llama-2-13B, rounded" "6.71 GB" --preset llama-2-13b --context 8192 --units decimal
answer "Llama-3-70B, a byte a number, no scales" 163840 kv_bytes_per_token --preset llama-3-70b --kv-bytes 1
answer "the same with its scales" 166400 kv_bytes_per_token --preset llama-3-70b --kv-type int8
answer "70e9 weights, prefill of 8,192" 0.9096 prefill_seconds --params 70e9 --prompt 8192 --flops 1.97e14 --devices 16 --efficiency 0.4
answer "crossover 240" 240.2439 crossover --params 70e9 --bytes 2 --flops 1.97e14 --bandwidth 8.2e11
answer "crossover 120" 120.1220 crossover --params 70e9 --bytes 1 --flops 1.97e14 --bandwidth 8.2e11
answer "GPT-2 parameters" 124439808 parameters --preset gpt2
answer "GPT-2 matmul FLOPs a token" 247064064 flops_matmul_attention --preset gpt2 --attention none
answer "GPT-2 forward, full square" 291648307200 prefill_flops --preset gpt2 --prompt 1024 --attention full --logit-rows all
answer "GPT-2 forward, visible keys" 272339828736 prefill_flops --preset gpt2 --prompt 1024 --logit-rows all
answer "Llama-2-7B parameters" 6738415616 parameters --preset llama-2-7b
answer "Llama-2-7B, 128 tokens, another tool's count" 1700063608832 prefill_total --preset llama-2-7b --prompt 128 \
    --attention full --logit-rows all --other one
says "Llama-2-7B, 850.0 GMACs" "850,031,804,416 multiply-adds" --preset llama-2-7b --prompt 128 --attention full --logit-rows all --other one
answer "Llama-3-8B, a token" 131072 kv_bytes_per_token --preset llama-3-8b
says "Llama-3-8B, 1,024 tokens" "= 134,217,728 bytes = 128 MiB" --preset llama-3-8b --context 1024
says "Llama-3-8B, 16,384 tokens" "= 2,147,483,648 bytes = 2 GiB" --preset llama-3-8b --context 16384
says "open-llama-3B, 512 tokens" "= 170,393,600 bytes = 162.50 MiB" --preset open-llama-3b --context 512
answer "4 GiB in pages of 16: Llama-3-8B" 2048 pages_that_fit --preset llama-3-8b --kv-mem 4GiB --page-size 16
answer "4 GiB in pages of 16: Llama-2-7B" 512 pages_that_fit --preset llama-2-7b --kv-mem 4GiB --page-size 16
small='{"n_layers":3,"d_model":64,"n_heads":8,"n_kv_heads":2,"d_ff":96,"n_vocab":40,"n_ctx":100}'
answer "8 heads, 2 K/V heads: a token" 192 kv_bytes_per_token --shape "$small"
answer "17 tokens used" 3264 kv_bytes_conversation --shape "$small" --context 17 --page-size 16
answer "17 tokens allocated" 6144 kv_bytes_allocated --shape "$small" --context 17 --page-size 16
done_testing
