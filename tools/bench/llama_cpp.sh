#!/bin/sh
# llama_cpp.sh TALLY [SHAPE...]: Tally beside llama.cpp (prebuilt, from npm) on the same GGUF files, in turn, and the ratios.
#
# Needs node, npm, and a network that reaches npm's registry. SHAPE: small, mid (both). In $WORK (a new temporary folder, removed at the end;
# give one to keep the download and the models) it installs node-llama-cpp and writes random GGUF models. Environment:
# THREADS="1 2", TYPES="f16 q8_0", WORKS="p512 d1 d2 d4 d8 d16 d32", ROUNDS=3, MMAP=off (llama.cpp's; off reads the file).
# A round is one process of llama.cpp, then one of Tally, each through all kinds of work; printed are the medians over the rounds, the median of
# the rounds' ratios with the least and the greatest, and what Tally read and multiplied a second.
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
list() { for w in $works; do case $w in $1*) echo "${w#?}" ;; esac; done | paste -sd, -; }
# Both print "WORK tokens/s", Tally also GB/s, its share of the read probe, GFLOP/s and its share of the peak. d8: 8 sequences after prompts of 128.
theirs() { node "$here/peer.mjs" "$1" "$2" $works 2>/dev/null; }
ours() {
    "$tally" bench -m "$1" -t "$2" --prefill "$(list p)" --batches "$(list d)" --contexts 128 --seconds 1 --csv | awk -F, 'NR > 1 {
        print ($1 == "prefill" ? "p" : "d") $2, $8, $12 / $11 / 1e9, $12 / $11 / $14, $13 / $11 / 1e9, $13 / $11 / $17 }'
}
printf '%-6s %-5s %s %-5s %11s %10s %7s %15s %7s %8s %9s %8s  load\n' shape type t work llama.cpp tally ratio least-greatest GB/s "of read" GFLOP/s "of peak"
for shape in "$@"; do
    for type in $types; do
        model=$shape-$type.gguf
        [ -e "$model" ] || node "$here/make_gguf.mjs" "$shape" "$type" "$model"
        for t in $threads; do
            : >theirs.txt; : >ours.txt
            for r in $(seq "$rounds"); do
                theirs "$model" "$t" | sed "s/^/$r /" >>theirs.txt
                ours "$model" "$t" | sed "s/^/$r /" >>ours.txt
            done
            for w in $works; do
                awk -v w="$w" 'NR == FNR { if ($2 == w) a[$1] = $3; next } $2 == w && $1 in a { print $3 / a[$1] }' theirs.txt ours.txt | sort -g >ratios.txt
                [ -s ratios.txt ] || { echo "llama_cpp.sh: $model $w gave no figure" >&2; continue; }
                of() { awk -v w="$w" -v c="$2" '$2 == w { print $c }' "$1" | median; }
                printf '%-6s %-5s %s %-5s %11.1f %10.1f %7.2f %15s %7.1f %7.0f%% %9.1f %7.0f%%  %s\n' "$shape" "$type" "$t" "$w" "$(of theirs.txt 3)" "$(of ours.txt 3)" \
                    "$(median <ratios.txt)" "$(head -1 ratios.txt | cut -c1-5)-$(tail -1 ratios.txt | cut -c1-5)" "$(of ours.txt 4)" \
                    "$(of ours.txt 5 | awk '{ print 100 * $1 }')" "$(of ours.txt 6)" "$(of ours.txt 7 | awk '{ print 100 * $1 }')" "$(cut -d' ' -f1 /proc/loadavg)"
            done
        done
    done
done
