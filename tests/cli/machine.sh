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
done_testing
