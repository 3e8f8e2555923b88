#!/bin/sh
# tally batch: from the command line.
. tests/cli/lib.inc
model=models/level21.pt
sums=$work/sums # the problems without their answers
sed 's/=.*/=/' tests/data/level21/unseen_sums.txt >"$sums"
batch() { "$TALLY" batch -m "$model" --weights f32 "$@"; }
answers() { sed -E 's/.*"prompt":"([^"]*)","text":"([^"]*)".*/\1\2/' "$1"; } # 23+58=81

# The 1,000 sums that the model has never seen: 999 right, however the work is arranged.
batch -f "$sums" --parallel 64 -t 1 -o "$work/all.jsonl" 2>"$work/err"
same "a run whose prompts all end succeeds" 0 $?
answers "$work/all.jsonl" >"$work/all"
same "every prompt has its line, in order" "$(cat "$sums")" "$(sed 's/=.*/=/' "$work/all")"
same "999 of 1,000 are right, and the one miss is 4+26" "4+26=20" "$(awk -F'[+=]' '$1 + $2 != $3' "$work/all")"
same "every step is as predicted" 1 "$(grep -c 'every term of every step agrees' "$work/err")"
arranged() { # arranged OPTIONS...: the same texts
    batch -f "$sums" -o "$work/some.jsonl" --json "$@" 2>"$work/summary"
    same "a run with $* succeeds" 0 $?
    answers "$work/some.jsonl" >"$work/some"; rm -f "$work/some.jsonl"
    check "the same texts with $*" cmp "$work/all" "$work/some"
    same "as predicted with $*" '"agrees": true' "$(grep -o '"agrees": [a-z]*' "$work/summary")"
}
preempted() { [ "$(sed -n 's/.*"n_preemptions": \([0-9]*\).*/\1/p' "$work/summary")" -gt 0 ]; }
arranged --parallel 1 -t 1
arranged --parallel 1 -t 2 --page-size 4 --no-prefix-cache
arranged --parallel 7 -t 1 --page-size 1
arranged --parallel 7 -t 1 --page-size 4 --no-prefix-cache
arranged --parallel 64 -t 1 --page-size 1 --no-prefix-cache
arranged --parallel 64 -t 1 --page-size 4
arranged --parallel 64 -t 1 --page-size 1
arranged --parallel 64 -t 2 --page-size 16
arranged --parallel 7 -t 1 --page-size 1 --kv-pages 30
check "a pool of 30 tokens for 7 sequences preempts some" preempted
arranged --parallel 64 -t 1 --page-size 1 --kv-pages 200 --no-prefix-cache
check "and so does one of 200 for 64" preempted
arranged --parallel 64 -t 1 --page-size 4 --kv-pages 9
arranged --parallel 64 -t 1 --page-size 1 --prefill-chunk 64

# Broken off and gone on with: the same lines, but for the times.
untimed() { sed -E 's/,"cost":.*//' "$1"; }
untimed "$work/all.jsonl" >"$work/want"
head -400 "$work/all.jsonl" >"$work/part.jsonl"
sed -n '500,520p' "$work/all.jsonl" >>"$work/part.jsonl" # made before their turn
printf '{"index":430,"sample":0,"li' >>"$work/part.jsonl" # cut off in the middle
batch -f "$sums" --parallel 16 -t 1 -o "$work/part.jsonl" --resume 2>"$work/said"
same "a run that is gone on with succeeds" 0 $?
untimed "$work/part.jsonl" >"$work/got"
check "and gives the same file" cmp "$work/want" "$work/got"
same "and says what was there" 1 "$(grep -c '(421 were there)' "$work/said")"
expect_error 1 'is there already' -- batch -f "$sums" -o "$work/part.jsonl"
head -20 "$sums" >"$work/few.txt"
head -30 "$work/all.jsonl" >"$work/other.jsonl"
expect_error 1 'not of these prompts' -- batch -f "$work/few.txt" -o "$work/other.jsonl" --resume

# Ctrl-C: the step is finished, what is done is written.
yes '12+34=' | head -200000 >"$work/many.txt"
"$TALLY" batch -m $model --weights f32 -f "$work/many.txt" --parallel 8 -t 1 -o "$work/many.jsonl" 2>"$work/said" &
pid=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -s "$work/many.jsonl" ] && break; sleep 0.1; done
kill -INT $pid; wait $pid
same "Ctrl-C ends it with status 130" 130 $?
written=$(wc -l <"$work/many.jsonl")
check "and it says where it stopped" grep -q "stopped at prompt $((written + 1)) of 200000 (line $((written + 1)) of .*many.txt): $written of 200000 completions are written (--resume goes on)" "$work/said"
same "and what is written is whole" 12+34=46 "$(answers "$work/many.jsonl" | sort -u)"

# Prompts as JSON lines.
cat >"$work/p.jsonl" <<'EOF'
{"prompt": "23+58=", "id": {"mine": [1, 2]}}

{"ids": [1, 5, 6, 13, 8, 11, 14], "n_predict": 1}
{"prompt": "7+8=", "samples": 3, "temp": 1.5, "seed": 9}
{"prompt": "what?"}
{"prompt": "12345678901+1="}
EOF
batch -f "$work/p.jsonl" --parallel 4 -t 1 >"$work/lines" 2>"$work/err"
same "a run with prompts that are refused fails" 1 $?
same "each sample has its line" '0 0,1 0,2 0,2 1,2 2,3 0,4 0' \
    "$(sed -E 's/."index":([0-9]*),"sample":([0-9]*).*/\1 \2/' "$work/lines" | paste -sd,)"
same "what was given as id comes out again" 1 "$(grep -c '"id":{"mine":\[1,2\]},"prompt":"23+58=","text":"81"' "$work/lines")"
same "ids are a prompt, and -n a limit" 1 "$(grep -c '"prompt_ids":\[1,5,6,13,8,11,14\],"text":"8","ids":\[11\],"finish_reason":"-n"' "$work/lines")"
check "a character outside the vocabulary is an error of its line" grep -q '"prompt":"what?","text":null,"ids":\[\],"finish_reason":"error","error":".*w' "$work/lines"
check "a prompt longer than the context too" grep -q '15 tokens does not fit the context of 11' "$work/lines"
for i in 0 1 2; do
    "$TALLY" run -m $model --weights f32 -p "7+8=" --samples 3 --temp 1.5 -s 9 | sed -n "/== sample $((i + 1))/{n;p;}"
done >"$work/want"
sed -nE 's/.*"prompt":"7\+8=","text":"([^"]*)".*/\1/p' "$work/lines" >"$work/got"
check "samples are those of tally run" cmp "$work/want" "$work/got"
refused() { printf '%s\n' "$1" >"$work/bad.jsonl"; expect_error 1 "$2" -- batch -f "$work/bad.jsonl"; }
refused '{"prompt": "1+1=", "temprature": 1}' 'bad.jsonl:1: unknown key "temprature"'
refused '{"prompt": "1+1=", "temp": -1}' 'bad.jsonl:1: "temp"'
refused '{"prompt": "1+1=", "n_predict": 1.5}' 'bad.jsonl:1: "n_predict": a whole number'
refused '{"id": 1}' 'bad.jsonl:1: either "prompt" or "ids"'
refused '{"prompt": "1+1=", "ids": [1]}' 'bad.jsonl:1: either "prompt" or "ids"'
refused '{"ids": [1, -2]}' 'bad.jsonl:1: number 2 of "ids"'
refused '{"prompt": "1+1="' 'bad.jsonl:1: not a JSON object'
refused '[1]' 'bad.jsonl:1: not a JSON object'
refused '' 'bad.jsonl: no prompt in it'
refused '{"prompt": "1+1=", "top_p": 0}' 'bad.jsonl: line 1: --top-p 0'
expect_error 2 'prompts are needed' -- batch
expect_error 2 'resume needs the file' -- batch -f "$sums" --resume
expect_error 1 'nosuch.txt: No such file' -- batch -f nosuch.txt
printf '1+1=\r\n\r\n2+2=\r\n' | batch -f - -t 1 >"$work/out" 2>/dev/null
same "lines may end as on Windows" '1+1=2,2+2=4' "$(answers "$work/out" | paste -sd,)"

# What can never fit is refused at once: 65 tokens in a pool of 4 pages of 16.
cat >"$work/shape.json" <<'EOF'
{"n_layers": 2, "d_model": 32, "n_heads": 4, "n_kv_heads": 2, "head_dim": 8, "d_ff": 48, "n_vocab": 50, "n_ctx": 200}
EOF
{ printf '{"ids": [1'; for i in $(seq 64); do printf ', %d' $((i % 50)); done; printf '], "n_predict": 0}\n{"ids": [3, 4], "n_predict": 5}\n'; } >"$work/long.jsonl"
timeout 20 "$TALLY" batch --random --shape "$work/shape.json" -f "$work/long.jsonl" --kv-pages 4 -t 1 >"$work/lines" 2>/dev/null
same "65 tokens in four pages of 16 are refused, and the rest goes on" 1 $?
same "with the numbers" 1 "$(grep -c 'up to 65 tokens takes 5 pages of 16, and the KV cache has 4' "$work/lines")"
same "the other prompt has its answer" 1 "$(grep -c '"index":1,.*"n_generated":5' "$work/lines")"
expect_error 1 'takes .* bytes, and .* are available' -- "$TALLY" batch --random --shape "$work/shape.json" -f "$work/long.jsonl" --kv-mem 1TB
check "tally batch --help succeeds" "$TALLY" batch --help
done_testing
