#!/bin/sh
# goals.sh TALLY [MODEL.gguf...]: what is not a comparison with another program (that is llama_cpp.sh): small models, long contexts, starting,
# loading, memory. Needs a C compiler. MODEL.gguf: files to load, as llama_cpp.sh leaves them in $WORK; without any, random ones are used and
# nothing is loaded. The machine should have nothing else to do. Loading is timed back to back: memory that a virtual machine has given
# back to its host comes at the host's pace, which is said beside it.
set -eu
tally=${1:?usage: goals.sh TALLY [MODEL.gguf...]}
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}
$cc -O2 -I "$here/../.." -o "$work/spawn" "$here/spawn.c"
echo 'int main(void) { return 0; }' >"$work/empty.c"
$cc -O2 -o "$work/empty" "$work/empty.c"

echo "# $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
echo
echo "# Small models, fp32, one thread"
"$tally" bench --random --preset level21 -t 1 --weights f32 --kv-type f32 --prefill 10 --batches 1,64 --contexts 0 --seconds 2
"$tally" bench --random --preset stories260k -t 1 --weights f32 --kv-type f32 -c 256 --prefill "" --batches 1 --contexts 0,100,200 --seconds 2

echo
echo "# Decode at context 4,096 beside context 0: time and counted bytes of a step, one thread"
for type in f16 int8; do
    "$tally" bench --random --shape "$here/small.json" -t 1 --weights $type --prefill "" --batches 1 --contexts 0,4096 --seconds 3 --csv |
        awk -F, 'NR == 2 { s = $11; b = $12; t = $4 } NR == 3 { printf "%-5s context 0: %.2f ms, %.1f MB   4,096: %.2f ms, %.1f MB   time +%.0f%%, bytes +%.0f%%\n",
            t, s * 1e3, b / 1e6, $11 * 1e3, $12 / 1e6, 100 * ($11 / s - 1), 100 * ($12 / b - 1) }'
done

echo
echo "# Starting: one answer of level 21, a whole process, beside a program that does nothing (median of 200, in turn)"
"$work/spawn" 200 "$work/empty" -- "$tally" run -m "$here/../../models/level21.pt" --ids 1,5,6,13,8,11,14 -n 3 >"$work/start"
awk 'NR == 1 { s = $1 } NR == 2 { printf "empty %.2f ms, tally %.2f ms: %.2f ms more\n", s * 1e3, $1 * 1e3, ($1 - s) * 1e3 }' "$work/start"
[ $# -gt 0 ] || exit 0

echo
echo "# Loading (and one step of 3 tokens), a whole process, median of 5; peak of memory over weights, pages and an empty process"
idle=$(awk 'NR == 1 { print $2 }' "$work/start")
echo '{"ids": [1, 2, 3], "n_predict": 1}' >"$work/prompt.jsonl"
for model in "$@"; do
    for map in off on; do
        set_by="--mmap $map -f $work/prompt.jsonl -c 512 --parallel 1"
        # shellcheck disable=SC2086 # a list of arguments
        "$tally" batch -m "$model" $set_by 2>"$work/summary" >/dev/null
        # shellcheck disable=SC2086
        "$work/spawn" 5 "$tally" batch -m "$model" $set_by >"$work/load"
        # A mapped file's pages are the weights.
        held=$(sed -n 's/^memory: \([0-9,]*\) bytes of weights, \([0-9,]*\) of pages.*/\1 \2/p' "$work/summary" | tr -d , | awk '{ print $1 + $2 }')
        size=$(wc -c <"$model")
        [ $map = off ] || held=$((held + size))
        awk -v n="$(basename "$model")" -v map="$map" -v size="$size" -v held="$held" -v idle="$idle" '{
            printf "%-16s --mmap %-3s %6.2f s, %5.2f GB/s of the file", n, map, $1, size / $1 / 1e9
            printf "   peak %.1f MiB over\n", ($2 - idle) / 1024 - held / 1048576 }' "$work/load"
    done
done
