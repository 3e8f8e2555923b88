#!/bin/sh
# tally machine: measured once, then kept.
. tests/cli/lib.inc
export XDG_CACHE_HOME="$work/cache"
check "a quick look prints the crossover batch" "$TALLY" machine --quick
same "with every storage" 3 "$(grep -c ' users (' "$work/out")"
same "a quick look is not kept" no "$([ -e "$work/cache/tally" ] && echo yes || echo no)"
check "as JSON" "$TALLY" machine --quick --json
same "with its crossovers" 1 "$(grep -c '"crossover": {' "$work/out")"
expect_error 2 'unknown option --slow' -- "$TALLY" machine --slow
check "tally machine --help succeeds" "$TALLY" machine --help
# A compiler that sees twelve equal chains computes one, and the peak would read many times too high.
if command -v objdump >/dev/null && [ "$(uname -m)" = x86_64 ] && ! objdump -d "$TALLY" | grep -q __asan; then
    objdump -d --no-show-raw-insn "$TALLY" | awk '/^[0-9a-f]+ <(fma|int8)_(portable|avx)/ { f = $2 } /^$/ { f = "" }
        f != "" && /vfmadd|vpdpbusd|vpmaddubsw|mulps/ { n[f]++ } END { for (f in n) print n[f], f }' | sort >"$work/chains"
    same "every peak probe runs its twelve chains" "12 12 12 12 12 12" "$(cut -d' ' -f1 "$work/chains" | tr '\n' ' ' | sed 's/ $//')"
else
    skip "the chains of the peak probes: no objdump, another processor, or a sanitizer's build"
fi
done_testing
