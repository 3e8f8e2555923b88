#!/bin/sh
# tally check --quality: its numbers against logits written by tally run and compared here, and its texts.
. tests/cli/lib.inc
M=models/level21.pt
D=tests/data/level21

quality() { "$TALLY" check --quality "$@" --json >"$work/quality"; }
# number KEY [WEIGHTS KV_TYPE ACTIVATIONS]: of the report, or of one of its runs
number() {
    awk -v key="\"$1\":" -v run="${2-} ${3-} ${4-}" '
        { value = $2; gsub(/[",]/, "", value) }
        $1 == "\"weights\":" { at = value }
        $1 == "\"kv_type\":" || $1 == "\"activations\":" { at = at " " value }
        $1 == key && (run == "  " || at == run) { print value; exit }' "$work/quality"
}

# The same comparison, by this script: every row of "23+58=81<eos>" from the = on, for three storages.
printf '23+58=81\n' >"$work/one"
logits() { # logits FILE OPTIONS...
    file=$1; shift
    "$TALLY" run -m $M --ids 1,5,6,13,8,11,14,11,4 -n 0 --logit-rows all --logits-out "$work/$file" "$@"
}
logits reference --weights f32 --kv-type f32
compare() { # compare FILE: top-1, max and mean difference, perplexity; rows 7 to 9 predict ids 11, 4, 2
    awk 'BEGIN { next_id[7] = 11; next_id[8] = 4; next_id[9] = 2 }
        function best(v, n,   i, b) { b = 1; for (i = 2; i <= n; i++) if (v[i] + 0 > v[b] + 0) b = i; return b }
        { getline other < reference; n = split($0, x); split(other, y) }
        FNR in next_id {
            scored++; agree += best(x, n) == best(y, n); sum = 0
            for (i = 1; i <= n; i++) {
                d = x[i] - y[i]; if (d < 0) d = -d
                if (d > max) max = d
                all += d; logits++; sum += exp(x[i] - x[best(x, n)])
            }
            log_p += x[next_id[FNR] + 1] - x[best(x, n)] - log(sum)
        }
        END { printf "%d %.4e %.4e %.8f", agree, max, all / logits, exp(-log_p / scored) }' reference="$work/reference" "$work/$1"
}
quality "$work/one" -m $M --after =
same "a line is one text" 1 "$(number n_texts)"
same "what follows the = is scored, and the end" 3 "$(number n_scored)"
for storage in "f16 f16 f32" "int8 f32 f32" "int8 int8 int8" "f32 f32 f32"; do
    # shellcheck disable=SC2086 # words on purpose
    set -- $storage
    logits other --weights "$1" --kv-type "$2" --activations "$3"
    got="$(number n_agree "$@") $(printf '%.4e %.4e %.8f' "$(number max_logit_difference "$@")" "$(number mean_logit_difference "$@")" "$(number perplexity "$@")")"
    same "$1 weights, $2 cache, $3 activations: as compared here" "$(compare other)" "$got"
done
same "int8 does differ" yes "$(awk -v d="$(number max_logit_difference int8 int8 int8)" 'BEGIN { print (d > 0.01) ? "yes" : d }')"

quality $D/unseen_sums.txt -m $M --after =
same "lines that fp32 gets right: as the golden says" 999 "$(number n_lines_right f32 f32 f32)"
same "1,000 lines" 1000 "$(number n_texts)"
same "twelve storages" 12 "$(grep -c '"weights":' "$work/quality")"
same "counted as predicted throughout" "13 0" "$(grep -c '"agrees": true' "$work/quality") $(grep -c '"agrees": false' "$work/quality")"
for bytes in "f32 403516" "f16 204732" "int8 111740"; do
    same "bytes a step, ${bytes% *} weights" "${bytes#* }" "$(number weight_bytes_per_step "${bytes% *}" f32 f32)"
done
for bytes in "f32 1024" "f16 512" "int8 288"; do
    same "bytes a token, ${bytes% *} cache" "${bytes#* }" "$(number kv_bytes_per_token f32 "${bytes% *}" f32)"
done
"$TALLY" check -m $M --quality $D/unseen_sums.txt --after = --prefill-chunk 3 --page-size 2 -t 2 --json >"$work/again"
same "chunks, pages and threads change nothing" "" "$(diff "$work/quality" "$work/again")"

# Texts. A random model has no tokenizer: ids, a line each.
shape='{"n_layers":1,"d_model":24,"n_heads":2,"d_ff":24,"n_vocab":20,"n_ctx":6,"activation":"relu"}'
printf '%s' "$shape" >"$work/shape.json"
printf '1,2,3\n\n4 5 6 7 8 9 10\n' >"$work/ids"
quality "$work/ids" --random --shape "$work/shape.json"
same "ids, a line each; empty lines are none" "2 8" "$(number n_texts) $(number n_scored)"
printf '1,2,3,4,5,6,7,8\n' >"$work/long"
printf '1,20\n' >"$work/outside"
printf '5\n' >"$work/short"
: >"$work/empty"
expect_error 1 'long: line 1: 7 tokens do not fit the context of 6' -- "$TALLY" check --random --shape "$work/shape.json" --quality "$work/long"
expect_error 1 'outside: line 1: id 20 is not in the vocabulary' -- "$TALLY" check --random --shape "$work/shape.json" --quality "$work/outside"
expect_error 1 'short: line 1: there is no token to predict' -- "$TALLY" check --random --shape "$work/shape.json" --quality "$work/short"
expect_error 1 'empty: there is no text in it' -- "$TALLY" check -m $M --quality "$work/empty"
expect_error 1 'nosuch: No such file' -- "$TALLY" check -m $M --quality nosuch
expect_error 1 "line 1: '%' is not in it" -- "$TALLY" check -m $M --quality $D/unseen_sums.txt --after %
expect_error 1 'character .#.' -- "$TALLY" check -m $M --quality models/README.md
expect_error 1 'leave out --matmul blas' -- "$TALLY" check -m $M --quality $D/unseen_sums.txt --matmul blas
expect_error 1 '\-\-after needs a tokenizer' -- "$TALLY" check --random --shape "$work/shape.json" --quality "$work/ids" --after =
printf '{"n_layers":1,"d_model":24,"n_heads":2,"d_ff":24,"n_vocab":20,"n_ctx":6,"activation":"relu","colour":1}' >"$work/shape.json"
expect_error 1 'unknown key' -- "$TALLY" check --random --shape "$work/shape.json" --quality "$work/ids"

if [ -d "$shared/checkpoints/stories260K" ]; then
    S=$shared/checkpoints/stories260K
    quality $S/stories260K_expected_stdout_200.txt -m $S/stories260K.gguf
    same "a text of one window" "windows 1 200" "$(number cut) $(number n_texts) $(number n_scored)"
    quality $S/stories260K_expected_stdout_200.txt -m $S/stories260K.gguf -c 50
    same "a text in windows of 50 tokens, each begun anew" "windows 4 200" "$(number cut) $(number n_texts) $(number n_scored)"
    quality $S/stories260K_expected_stdout_200.txt -m $S/stories260K_q80_gs4.bin
    same "the file's own storage is there where it is none of ours" "521600 0.0" \
        "$(number weight_bytes_per_step i8g f32 f32) $(number max_logit_difference i8g f32 f32)"
else
    skip "../shared is not here: no quality of stories260K"
fi
done_testing
