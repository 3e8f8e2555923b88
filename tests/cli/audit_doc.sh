#!/bin/sh
# docs/audit.md is not out of date: what it says was counted is what is counted now. (What valgrind sees is for `make audit`.)
. tests/cli/lib.inc
doc=docs/audit.md build=${TALLY%/tally}
# shellcheck disable=SC2016
cases=$(sed -n 's/^\*\*.*(`\([a-z0-9-]*\)`)$/\1/p' $doc)
for c in $cases; do
    if ! "$build/audit_run" trace "$c" "$work/map" 2>"$work/err"; then
        case $c in *-avx2) skip "$c: $(cat "$work/err")" ;; *) not_ok "$c: $(cat "$work/err")" ;; esac
        continue
    fi
    sed -n "/(\`$c\`)\$/,/^| all else/p" $doc >"$work/section"
    "$build/audit_trace" "$work/map" counts >"$work/counts"
    stale=$(while IFS= read -r row; do grep -qF -- "$row" "$work/section" || echo "$row"; done <"$work/counts")
    if [ -s "$work/counts" ] && [ -z "$stale" ]; then ok "the counts of $c"
    else not_ok "$doc is out of date (make audit), $c: $stale"; fi
done
same "no line of the audit differs" 0 "$(grep -c 'differs\*\*' $doc)"
check "every case is there" [ "$(echo "$cases" | wc -l)" -ge 12 ]
done_testing
