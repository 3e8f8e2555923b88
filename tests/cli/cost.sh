#!/bin/sh
# tally cost: options, errors, sweeps, other conventions.
. tests/cli/lib.inc
says() { # says NAME TEXT OPTIONS...
    name=$1 text=$2; shift 2
    if "$TALLY" cost "$@" | grep -qF -- "$text"; then ok "$name"; else not_ok "$name: '$text' is not printed"; fi
}
says "the published parameters of gpt2" "= 124,439,808" --preset gpt2
says "a shape may be given as text" "8 layers" --shape '{"n_layers":8,"d_model":64,"n_heads":4,"d_ff":96,"n_vocab":40,"n_ctx":10}'
says "a checkpoint is a shape too" "= 102,415" models/level21.pt
says "with its own storage" "f32 (in use)" models/level21.pt
says "or another" "int8 (in use)" -m models/level21.pt --weights int8
expect_error 2 'is enough' -- "$TALLY" cost models/level21.pt --preset gpt2
expect_error 1 'nosuch.pt' -- "$TALLY" cost nosuch.pt
says "options go over the shape" "2 × 32 × 128 × 32 × 2 = 524,288 bytes" --preset llama-3-8b --kv-heads 32
says "more than the model's positions is said" "more than the 1,024 positions" --preset gpt2 --context 2000
says "--explain names what a convention adds" "--attention full, FLOPs: every key" --preset level21 --prompt 10 --explain
says "decimal units are never binary" "= 524,288 bytes = 524.29 kB per token" --preset llama-2-7b --units decimal
if "$TALLY" cost --preset llama-2-7b --context 100 --memory 24e9 --units decimal | grep -E '[KMGT]iB'; then
    not_ok "binary units among decimal ones"
else
    ok "no binary unit among decimal ones"
fi
if "$TALLY" cost --preset llama-2-7b --context 100 --memory 24e9 | grep -E '[0-9] [kMGT]B'; then
    not_ok "decimal units among binary ones"
else
    ok "no decimal unit among binary ones"
fi
same "25 presets and more" yes "$([ "$("$TALLY" cost --presets | wc -l)" -ge 25 ] && echo yes)"
expect_error 1 'no such preset' -- "$TALLY" cost --preset nosuch
expect_error 1 'nosuch.json: No such file' -- "$TALLY" cost --shape nosuch.json
expect_error 1 'must divide' -- "$TALLY" cost --preset llama-3-8b --kv-heads 5
expect_error 1 'n_kv_heads must divide' -- "$TALLY" cost --shape '{"n_layers":1,"d_model":66,"n_heads":33,"n_kv_heads":2,"d_ff":9,"n_vocab":9,"n_ctx":9}'
expect_error 1 'unknown key "colour"' -- "$TALLY" cost --shape '{"colour":1}'
expect_error 1 'nothing to answer' -- "$TALLY" cost
expect_error 1 'too many to count' -- "$TALLY" cost --params 1e14 --batch 1e6
expect_error 2 'unknown option --colour' -- "$TALLY" cost --colour
expect_error 2 '--batch 0: a whole number from 1' -- "$TALLY" cost --preset gpt2 --batch 0
expect_error 2 '--batch 1.5: a whole number' -- "$TALLY" cost --preset gpt2 --batch 1.5
expect_error 2 '--memory lots: a size' -- "$TALLY" cost --preset gpt2 --memory lots
expect_error 2 '--attention some: one of exact.full.none' -- "$TALLY" cost --preset gpt2 --attention some
expect_error 2 '--batch needs a value' -- "$TALLY" cost --preset gpt2 --batch
expect_error 2 'no such command' -- "$TALLY" nosuch
expect_error 2 'usage: tally COMMAND' -- "$TALLY"

roof="--params 7e9 --layers 32 --heads 32 --kv-heads 8 --head-dim 128 --bytes 2 --bandwidth 1e12 --flops 1e14"
# shellcheck disable=SC2086 # words on purpose
{
    same "a doubling sweep has its ends" "1 2 4 8 16 32 64 128 200 " "$("$TALLY" cost $roof --sweep batch=1:200 --csv | tail -n +2 | cut -d, -f1 | tr '\n' ' ')"
    same "a stepped sweep" "0 500 1000 " "$("$TALLY" cost $roof --sweep context=0:1100:500 --csv | tail -n +2 | cut -d, -f1 | tr '\n' ' ')"
    same "a list of K/V heads changes the cache" "4096 8192 16384 131072 " \
        "$("$TALLY" cost $roof --bytes 1 --head-dim 64 --sweep kv-heads=1,2,4,32 --csv | tail -n +2 | cut -d, -f2 | tr '\n' ' ')"
    same "a batch of 8 in a sweep is the batch of 8 alone" 439.6980506 \
        "$("$TALLY" cost $roof --context 4000 --sweep batch=8 --csv | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "tokens_per_second") k = i } NR == 2 { print $k }')"
    check "a sweep as JSON" "$TALLY" cost $roof --sweep batch=1:4 --json
    expect_error 1 'no such variable' -- "$TALLY" cost $roof --sweep colour=1:2
    expect_error 1 'upwards' -- "$TALLY" cost $roof --sweep batch=5:2
    expect_error 1 'is needed' -- "$TALLY" cost $roof --sweep batch
    expect_error 1 'is not a number' -- "$TALLY" cost $roof --sweep batch=1,two
    expect_error 1 'more than 1024 values' -- "$TALLY" cost $roof --sweep batch=1:9999:1
    expect_error 1 '.svg or .png' -- "$TALLY" cost $roof --sweep batch=1:8 --plot "$work/plot.txt"
    if command -v gnuplot >/dev/null; then
        check "a plot is written" "$TALLY" cost $roof --context 500 --sweep batch=1:512 --plot "$work/it's a plot.svg"
        same "and marks the crossover" yes "$(grep -q crossover "$work/it's a plot.svg" && echo yes)"
    else
        expect_error 1 'needs gnuplot' -- "$TALLY" cost $roof --sweep batch=1:8 --plot "$work/plot.svg"
        skip "gnuplot is not installed: no plot was drawn"
    fi
}
check "tally cost --help succeeds" "$TALLY" cost --help
check "tally --help succeeds" "$TALLY" --help
done_testing
