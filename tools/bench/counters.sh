#!/bin/sh
# counters.sh: what counting costs, in instructions. Builds Tally with and without its counters, and runs both under callgrind (valgrind is
# needed; it knows AVX2 and not AVX-512) for 2 and for 10 tokens: the difference between the two runs is 8 decode steps and no set-up.
set -eu
cd "$(dirname "$0")/../.."
command -v valgrind >/dev/null || { echo "counters.sh: valgrind is needed" >&2; exit 1; }
make -s B=build/release all
make -s B=build/nocount CFLAGS="-O2 -g -DTALLY_NO_COUNTERS" all
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
instructions() { # build, tokens, arguments
    b=$1 n=$2
    shift 2
    valgrind --tool=callgrind --callgrind-out-file="$out/cg" "build/$b/tally" run --random --isa avx2 -t 1 --ids 1 -n "$n" "$@" 2>"$out/log" >/dev/null
    sed -n 's/.*Collected : *//p' "$out/log"
}
steps() { # build, arguments
    b=$1
    shift
    a=$(instructions "$b" 10 "$@") z=$(instructions "$b" 2 "$@")
    echo $((a - z))
}
printf '%-14s %14s %14s %8s\n' model counting "not counting" cost
for preset in level21 stories15m; do
    with=$(steps release --preset $preset) without=$(steps nocount --preset $preset)
    awk "BEGIN { printf \"%-14s %14d %14d %7.2f%%\n\", \"$preset\", $with, $without, 100 * ($with / $without - 1) }"
done
