#!/bin/sh
# parallel.sh TALLY [ARGUMENTS OF tally batch]: tokens/s of `tally batch` against the number of sequences at once, as a table.
#
# Without arguments: the 1,000 sums of tests/data with the level-21 model, one thread; then 64 short prompts, 32 tokens each, with a random
# model of 124 M weights (small.json) in fp16, whose weights are larger than any cache. Environment: PARALLEL="1 2 4 8 16 32 64",
# ROUNDS=5 (every B in turn, ROUNDS times; printed are the median and the spread between the quartiles). Bytes a step are predicted from the
# configuration and the plan, and counted by the kernels. The machine should have nothing else to do.
tally=${1:?usage: parallel.sh TALLY [ARGUMENTS]}
shift
sizes=${PARALLEL:-1 2 4 8 16 32 64} rounds=${ROUNDS:-5}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
table() { # table ARGUMENTS...
    rm -f "$work/all"
    for _ in $(seq "$rounds"); do
        for B in $sizes; do
            "$tally" batch "$@" --parallel "$B" --json >/dev/null 2>"$work/summary" || { cat "$work/summary" >&2; exit 1; }
            sed -nE 's/^ *"(n_steps|n_rows|n_generated|tokens_per_second|bytes_predicted|bytes_counted)": ([0-9.e+]+),?$/\1 \2/p' "$work/summary" |
                awk -v B="$B" '{ v[$1] = $2 } END { print B, v["tokens_per_second"], v["n_steps"], v["n_rows"], v["bytes_predicted"], v["bytes_counted"], v["n_generated"] }' >>"$work/all"
        done
    done
    echo "| B | tokens/s | spread | times B = 1 | steps | rows a step | bytes a step, predicted | counted | bytes a generated token |"
    echo "|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    for B in $sizes; do
        awk -v B="$B" '$1 == B' "$work/all" | sort -g -k2,2 | awk -v first="$first" '
            { s[NR] = $2; steps = $3; rows = $4; p = $5; c = $6; n = $7 }
            END {
                m = s[int((NR + 1) / 2)]; low = s[int((NR + 3) / 4)]; high = s[NR + 1 - int((NR + 3) / 4)]
                if (first == "") first = m
                printf "| %d | %.0f | %.0f%% | %.2f | %d | %.1f | %.0f | %.0f | %.0f |\n", B, m, 100 * (high - low) / m, m / first, steps, rows / steps, p / steps, c / steps, c / n
            }' B="$B" >"$work/row"
        [ -n "$first" ] || first=$(awk -F'|' '{ print $3 + 0 }' "$work/row")
        cat "$work/row"
    done
    first=
}
first=
echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
if [ $# -gt 0 ]; then
    table "$@"
    exit
fi
root=$(dirname "$0")/../..
echo; echo "level 21, fp32, one thread, the 1,000 sums:"; echo
sed 's/=.*/=/' "$root/tests/data/level21/unseen_sums.txt" >"$work/sums.txt"
table -m "$root/models/level21.pt" --weights f32 -f "$work/sums.txt" -t 1
awk 'BEGIN { for (i = 0; i < 64; i++) printf "{\"ids\": [%d, %d], \"n_predict\": 32}\n", 5 + i, 9 + 7 * i }' >"$work/short.jsonl"
echo; echo "124 M random weights, fp16, 64 prompts of 2 tokens, 32 generated each:"; echo
table --random --shape "$root/tools/bench/small.json" --weights f16 -c 64 -f "$work/short.jsonl"
