#!/bin/sh
# docs/how-kv-caching-works.md shows what the program prints: every line of it.
. tests/cli/lib.inc
doc=docs/how-kv-caching-works.md
shown() { # shown NAME COMMAND...: each line of the command's output stands in the document
    name=$1; shift
    "$@" >"$work/printed" 2>"$work/err" || { not_ok "$name: $(cat "$work/err")"; return; }
    missing=$(grep -vxFf $doc "$work/printed" | head -3)
    if [ -s "$work/printed" ] && [ -z "$missing" ]; then ok "$name"; else not_ok "$name: not in $doc: $missing"; fi
}
shown "the table with and without a cache" "$TALLY" trace -m models/level21.pt -p "23+58=" --no-cache
shown "the table of pages of four" "$TALLY" trace -m models/level21.pt -p "23+58=" --page-size 4
done_testing
