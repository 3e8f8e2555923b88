#!/bin/sh
# llama_cpp.sh TALLY [SHAPE...]: Tally beside llama.cpp (prebuilt, from npm) on the same GGUF files, in turn, and the ratios.
#
# Needs node, npm, and a network that reaches npm's registry. SHAPE: small, mid (both). In $WORK (a new temporary folder, removed at the end;
# give one to keep the download and the models) it installs node-llama-cpp and writes random GGUF models. Environment:
# THREADS="1 2", TYPES="f16 q8_0", WORKS="p512 d1 d2 d4 d8 d16 d32", ROUNDS=3, MMAP=off (llama.cpp's; off reads the file).
# Each round runs llama.cpp, then Tally, for every kind of work; printed are medians over all rounds and the median of the rounds' ratios.
set -eu
tally=${1:?usage: llama_cpp.sh TALLY [SHAPE...]}
shift
[ $# -gt 0 ] || set -- small mid
tally=$(cd "$(dirname "$tally")" && pwd)/$(basename "$tally")
here=$(cd "$(dirname "$0")" && pwd)
threads=${THREADS:-"1 2"} types=${TYPES:-"f16 q8_0"} works=${WORKS:-"p512 d1 d2 d4 d8 d16 d32"} rounds=${ROUNDS:-3}
export MMAP="${MMAP:-off}" STEPS="${STEPS:-16}" REPEATS=1
command -v node >/dev/null && command -v npm >/dev/null || { echo "llama_cpp.sh: node and npm are needed" >&2; exit 1; }
if [ -z "${WORK:-}" ]; then
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
fi
mkdir -p "$WORK"
cd "$WORK"
[ -d node_modules/node-llama-cpp ] || { npm init -y >/dev/null; npm install --ignore-scripts --no-audit --no-fund node-llama-cpp@3.21.1 >&2; }

median() { sort -g | awk '{ x[NR] = $1 } END { if (NR) print (NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2) }'; }
# Tokens/s of one kind of work: p512, or d8 after prompts of 128.
ours() { # model threads work
    n=${3#?}
    case $3 in
    p*) set -- "$@" --prefill "$n" --batches "" --contexts 0 ;;
    *) set -- "$@" --prefill "" --batches "$n" --contexts 128 ;;
    esac
    model=$1 t=$2
    shift 3
    "$tally" bench -m "$model" -t "$t" --seconds 1 --csv "$@" | awk -F, 'NR == 2 { print $8 }'
}
printf '%-6s %-6s %s %-5s %12s %12s %8s   load\n' shape type t work llama.cpp tally ratio
for shape in "$@"; do
    for type in $types; do
        model=$shape-$type.gguf
        [ -e "$model" ] || node "$here/make_gguf.mjs" "$shape" "$type" "$model"
        for t in $threads; do
            for w in $works; do
                : >theirs.txt; : >ours.txt; : >ratios.txt
                for _ in $(seq "$rounds"); do
                    a=$(node "$here/peer.mjs" "$model" "$t" "$w" 2>/dev/null | awk -v w="$w" '$1 == w { print $2 }' | median)
                    b=$(ours "$model" "$t" "$w")
                    [ -n "$a" ] && [ -n "$b" ] || { echo "llama_cpp.sh: $model $w gave no figure" >&2; continue; }
                    echo "$a" >>theirs.txt; echo "$b" >>ours.txt
                    awk "BEGIN { print $b / $a }" >>ratios.txt
                done
                printf '%-6s %-6s %s %-5s %12.1f %12.1f %8.2f   %s\n' "$shape" "$type" "$t" "$w" "$(median <theirs.txt)" "$(median <ours.txt)" \
                    "$(median <ratios.txt)" "$(cut -d' ' -f1 /proc/loadavg)"
            done
        done
    done
done
