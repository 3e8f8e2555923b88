#!/bin/sh
# tally bench: a small grid, three ways of printing, and what it refuses.
. tests/cli/lib.inc
run="--random --preset level21 -t 1 --seconds 0"
check "a table" "$TALLY" bench $run --prefill 1,10 --batches 1,3 --contexts 0,5
same "with a line for each case" 6 "$(grep -c ' avx\| portable\| neon' "$work/out")"
check "as CSV, two storages" "$TALLY" bench $run --prefill 10 --batches 2 --contexts 0 --storages f32,int8 --csv
same "with a line for each case" "prefill decode prefill decode" "$(tail -n +2 "$work/out" | cut -d, -f1 | tr '\n' ' ' | sed 's/ $//')"
same "and the storages in their column" "f32 f32 q8_0 q8_0" "$(tail -n +2 "$work/out" | cut -d, -f4 | tr '\n' ' ' | sed 's/ $//')"
# 2 sequences at positions 0 to 9 decode in a burst of 11 steps: matrix products of 198,528 and attention of 512 L a token, L = 1..11.
same "and the counted FLOPs" "403200" "$(sed -n 3p "$work/out" | cut -d, -f13)"
check "portable kernels, as JSON" "$TALLY" bench $run --isas portable --prefill "" --batches 1 --contexts 0 --json
same "with the probe's instruction set" 1 "$(grep -c '"peak_isa": "portable"' "$work/out")"
check "what does not fit is left out" "$TALLY" bench $run --prefill 12 --batches 1 --contexts 0,11
same "and said" 1 "$(grep -c '2 cases were left out' "$work/err")"
expect_error 2 '--batches takes' -- "$TALLY" bench $run --batches 1,x
expect_error 2 "'q7' is not known" -- "$TALLY" bench $run --storages f32,q7
check "tally bench --help succeeds" "$TALLY" bench --help
# What would fail at the end is said before anything is measured.
expect_error 1 'p\.jpg: a plot is \.svg or \.png' -- "$TALLY" bench $run --plot "$work/p.jpg"
same "nothing was measured first" "" "$(cat "$work/out")"
expect_error 1 'nowhere/p\.svg: No such file' -- "$TALLY" bench $run --csv --plot "$work/nowhere/p.svg"
same "and nothing is drawn into the table" "" "$(cat "$work/out")"
if [ "$(uname -m)" = x86_64 ]; then missing=neon; else missing=avx2; fi
expect_error 1 "instruction set $missing is not to be had" -- "$TALLY" bench $run --isas portable,$missing --csv
same "before the first case" "" "$(cat "$work/out")"
done_testing
