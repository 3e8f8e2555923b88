#!/bin/sh
# tally run, check and trace on the shipped checkpoint: answers, logits, numbers, refusals. (Their JSON: tests/test_json_output.c.)
. tests/cli/lib.inc
M=models/level21.pt
D=tests/data/level21
ids=1,5,6,13,8,11,14,11,4,2 # "23+58=81" and its end

# Answers. Piped, the completion is its bytes and no more.
run() { "$TALLY" run -m $M "$@" 2>"$work/err"; }
same "23+58=" 81 "$(run -p "23+58=")"
same "99+99=" 198 "$(run -p "99+99=")"
printf '7+5=' >"$work/prompt"
same "a prompt from a file" 12 "$(run -f "$work/prompt")"
same "a prompt from standard input" 12 "$(run -f - <"$work/prompt")"
same "a prompt as ids" 81 "$(run --ids 1,5,6,13,8,11,14)"
same "ids with spaces" 81 "$(run --ids '1 5 6 13 8 11 14')"
same "no more tokens than -n" 8 "$(run -p "23+58=" -n 1)"
same "no tokens at -n 0" "" "$(run -p "23+58=" -n 0)"
same "the context ends a completion without an end" "81" "$(run -p "23+58=" -n 1000000000)"
for storage in f32 f16 int8; do
    for kv in f32 f16 int8; do
        same "$storage weights, $kv cache" 81 "$(run -p "23+58=" --weights $storage --kv-type $kv)"
    done
done
for isa in portable auto; do
    for page in 1 2 4 16; do
        same "$isa, pages of $page, chunks of 3" 100 "$(run -p "10+90=" --isa $isa --page-size $page --prefill-chunk 3 -t 3)"
    done
done
run -p "23+58=" --verbose >/dev/null
for words in "layout level21" "102415 parameters" "assumed: .*ReLU" "7 tokens of prompt, 2 generated, ended by end token"; do
    if grep -q "$words" "$work/err"; then ok "--verbose says: $words"; else not_ok "--verbose does not say $words"; fi
done

# Logits: all ten rows of the check weights, and the last row of each step of the examples, against float64.
golden_rows() { # the numbers of "logits" in a golden, row by row
    awk -v V=15 '/"logits"/ { on = 1; next } on && /^-?[0-9]/ { sub(/,/, ""); printf "%s%s", $1, ++n % V ? " " : "\n" } /"prompt"|"source"/ { on = 0 }' "$1"
}
within() { # within NAME TOLERANCE FILE GOLDEN_ROWS
    worst=$(paste -d' ' "$3" "$4" | awk -v rows="$(wc -l <"$4")" '
        NF != 30 { bad = 1 }
        { for (i = 1; i <= 15; i++) { d = $i - $(i + 15); if (d < 0) d = -d; if (d > worst) worst = d } }
        END { printf "%.9f", bad || NR != rows || NR == 0 ? 1e9 : worst }')
    if awk -v w="$worst" -v t="$2" 'BEGIN { exit !(w <= t) }'; then ok "$1"; else not_ok "$1: $worst"; fi
}
C=$D/check_weights.json
golden_rows $D/golden_check.json >"$work/golden"
same "ten rows of 15 in the golden" "10 150" "$(wc -lw <"$work/golden" | awk '{ print $1, $2 }')"
rows() { "$TALLY" run -m $C --ids $ids -n 0 --logit-rows all --logits-out "$work/logits" "$@"; }
rows --kv-type f32
within "check weights within 1e-4" 1e-4 "$work/logits" "$work/golden"
rows --kv-type f32 --isa portable
within "check weights within 1e-4, portable" 1e-4 "$work/logits" "$work/golden"
cp "$work/logits" "$work/portable"
rows --kv-type f32 --isa portable --prefill-chunk 1 -t 2 --page-size 2
same "row by row: the same text" "" "$(cmp "$work/portable" "$work/logits" 2>&1)"
rows --weights f16 --kv-type f16
within "check weights in fp16 within 1e-3 x 1.52" 1.52e-3 "$work/logits" "$work/golden"
if rows --kv-type f32 --matmul blas 2>"$work/err"; then
    within "check weights through OpenBLAS within 1e-3" 1e-3 "$work/logits" "$work/golden"
else
    skip "OpenBLAS is not installed: $(cat "$work/err")"
fi
rows --logit-rows last
tail -n 1 "$work/golden" >"$work/last"
within "--logit-rows last is the last row alone" 1e-3 "$work/logits" "$work/last"
golden_rows $D/golden_model.json >"$work/golden"
: >"$work/steps"
for prompt in 23+58= 99+99= 0+0= 7+5= 10+90= 48+2=; do
    "$TALLY" run -m $M -p $prompt --kv-type f32 --logits-out "$work/logits" >/dev/null
    cat "$work/logits" >>"$work/steps"
done
within "every step of six answers within 1e-4" 1e-4 "$work/steps" "$work/golden"
same "every logit is written as a number" "" "$(awk '{ for (i = 1; i <= NF; i++) if ($i !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/) print $i }' "$work/steps")"

# Sampling from the command line.
drawn() { run -p "23+" --temp 3 -n 5 --json "$@" | awk '/"ids"/ { on = 1; next } on && /]/ { on = 0 } on { gsub(/[ ,]/, ""); printf "%s ", $0 } /finish_reason/ { printf "/" }'; }
same "a seed repeats its run" "$(drawn -s 7)" "$(drawn -s 7)"
if [ "$(drawn -s 7)" = "$(drawn -s 8)" ]; then not_ok "another seed gave the same"; else ok "another seed is another run"; fi
four=$(drawn -s 7 --samples 4)
same "four samples" "////" "$(printf %s "$four" | tr -dc /)"
same "the first of four is the one alone" "$(drawn -s 7)" "${four%%/*}/"
same "top_k 1 is greedy" 81 "$(run -p "23+58=" --temp 5 --top-k 1 -s 3)"
same "top_k above the vocabulary is all of it" "$(drawn -s 7)" "$(drawn -s 7 --top-k 1000)"

# Refusals.
expect_error 1 'a prompt of 12 tokens does not fit the context of 11 .shorten the prompt: the model has no more positions' -- "$TALLY" run -m $M -p "99+99=99+99"
expect_error 1 'does not fit the context of 5 .shorten the prompt, or raise --ctx-size' -- "$TALLY" run -m $M -p "23+58=" -c 5
expect_error 1 "a context of 12 is longer than the model's 11" -- "$TALLY" run -m $M -p 1+1= -c 12
expect_error 1 'character .x. .U.0078. is not in the vocabulary' -- "$TALLY" run -m $M -p 23x58=
expect_error 1 'character .é. ' -- "$TALLY" run -m $M -p é
expect_error 1 'token id 15 is not in the vocabulary .0 to 14' -- "$TALLY" run -m $M --ids 1,15
expect_error 1 "'1,five' is not a list of token ids" -- "$TALLY" run -m $M --ids 1,five
expect_error 1 'the KV cache is full: 7 pages are needed and 3 of 3 are free' -- "$TALLY" run -m $M -p "23+58=" --page-size 1 --kv-pages 3
expect_error 1 'less than one page' -- "$TALLY" run -m $M -p "23+58=" --kv-mem 100
expect_error 1 'nosuch.pt: No such file' -- "$TALLY" run -m nosuch.pt -p 1+1=
expect_error 1 'cannot be written' -- "$TALLY" run -m $M -p 1+1= --logits-out "$work/no/such/folder"
expect_error 2 'a model is needed' -- "$TALLY" run -p 1+1=
expect_error 2 '--temp -1 .0, greedy, to 1e6' -- "$TALLY" run -m $M -p 1+1= --temp -1
expect_error 2 '--temp nan: a number is needed' -- "$TALLY" run -m $M -p 1+1= --temp nan
expect_error 2 '--top-p 0 ' -- "$TALLY" run -m $M -p 1+1= --top-p 0
expect_error 2 '--min-p 2 ' -- "$TALLY" run -m $M -p 1+1= --min-p 2
expect_error 2 '--weights f8: one of auto.f32.f16.int8' -- "$TALLY" run -m $M -p 1+1= --weights f8
expect_error 2 '--threads 0: a whole number from 1' -- "$TALLY" run -m $M -p 1+1= -t 0
expect_error 2 'unknown option --colour' -- "$TALLY" run -m $M --colour
for command in run check trace; do check "tally $command --help" "$TALLY" $command --help; done
printf '%s' "$("$TALLY" run -m $M -p 23x58= 2>&1 >/dev/null)" >"$work/err"
same "one line on stderr" 0 "$(wc -l <"$work/err" | tr -d ' ')"

# check: every step agrees, and says so; every flag that changes the plan keeps it so.
agrees() { # agrees NAME OPTIONS...
    name=$1; shift
    if "$TALLY" check "$@" >"$work/out" 2>"$work/err" && grep -q '^counted = predicted in every term of every step$' "$work/out"; then ok "$name"
    else not_ok "$name: $(cat "$work/err")"; fi
}
agrees "the shipped checkpoint" -m $M
for words in "198,528 .* 4,096 .* 3,683 .* 403,516" "2 N M" "biases: added, not multiplied" "embedding table: only rows are read"; do
    if grep -q "$words" "$work/out"; then ok "check prints $words"; else not_ok "check does not print $words"; fi
done
agrees "int8 weights and cache" -m $M --weights int8 --kv-type int8
agrees "int8 weights, fp32 activations" -m $M --weights int8 --activations f32
agrees "fp16 weights, pages of 2, chunks of 3, batch 4, 3 threads" -m $M --weights f16 --page-size 2 --prefill-chunk 3 --batch 4 -t 3
agrees "portable kernels" -m $M --isa portable
printf '{"n_layers":2,"d_model":48,"n_heads":6,"n_kv_heads":2,"head_dim":10,"d_ff":80,"n_vocab":90,"n_ctx":700,"window":20,"window_layers":"odd"}' >"$work/shape"
for heads in 6 3 2 1; do
    sed "s/\"n_kv_heads\":2/\"n_kv_heads\":$heads/" "$work/shape" >"$work/shape.json"
    agrees "a random model of 6 heads and $heads K/V heads, windows" --random --shape "$work/shape.json" --prompt-tokens 300 --batch 3 --prefill-chunk 128
done
if "$TALLY" run -m $M -p 1+1= -n 0 --matmul blas >/dev/null 2>&1; then
    agrees "OpenBLAS" -m $M --prompt-tokens 10 --matmul blas --weights int8
else
    skip "OpenBLAS is not installed: no check of it"
fi
expect_error 1 'a prompt of 12 tokens does not fit' -- "$TALLY" check -m $M --prompt-tokens 12

# trace: the lesson's table.
"$TALLY" trace -m $M -p "23+58=" --no-cache >"$work/out"
for words in "9 keys computed in each layer with the cache, 45 without" "the same logits, bit for bit" "completed: 81"; do
    if grep -q "$words" "$work/out"; then ok "trace says: $words"; else not_ok "trace does not say $words: $(tail -3 "$work/out")"; fi
done
same "step 6 reads k and v of 0..5" "0..5" "$(awk '$1 == 6 { print $4 }' "$work/out")"
done_testing
