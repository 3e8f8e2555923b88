#!/bin/sh
# docs/serving.md shows what the program prints: every line of a summary but the one with times.
. tests/cli/lib.inc
doc=docs/serving.md
shown() { # shown NAME OPTIONS...
    name=$1; shift
    "$TALLY" batch --random --preset stories15m -f tests/data/same_beginning.jsonl --parallel 8 -c 256 -t 1 "$@" >"$work/lines" 2>"$work/said" ||
        { not_ok "$name: $(cat "$work/said")"; return; }
    missing=$(grep -v 'tokens/s' "$work/said" | grep -vxFf $doc | head -3)
    if [ "$(wc -l <"$work/said")" -ge 5 ] && [ -z "$missing" ]; then ok "$name"; else not_ok "$name: not in $doc: $missing"; fi
    sed -E 's/.*"text":("[^"]*"),.*/\1/' "$work/lines" >"$work/texts$#"
}
shown "eight prompts that begin alike"
shown "and without the prefix cache" --no-prefix-cache
check "their texts are the same" cmp "$work/texts0" "$work/texts1"
done_testing
