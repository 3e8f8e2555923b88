#!/bin/sh
# docs/quantisation.md: every table of `tally check --quality` is made again and compared, row by row. Bytes are exact. What rounding does may
# differ a little from one instruction set to another: top-1 by a point, the largest difference by a factor of 3, the mean by one of 1.5,
# perplexity by 1%, lines right by 2.
. tests/cli/lib.inc
doc=docs/quantisation.md
grep '^\$ tally check' $doc | sed 's/^\$ tally //' >"$work/commands"
same "the document has its five tables" 5 "$(wc -l <"$work/commands" | tr -d ' ')"
while IFS= read -r command; do
    file=$(printf '%s' "$command" | awk '{ print $3 }')
    if [ ! -e "$file" ]; then
        skip "$file is not here: its table in $doc was not made again"
        continue
    fi
    # shellcheck disable=SC2086 # words on purpose
    if ! "$TALLY" $command >"$work/now" 2>"$work/err"; then
        not_ok "tally $command: $(cat "$work/err")"
        continue
    fi
    awk -v command="\$ tally $command" '$0 == command { on = 1 } on && /^```/ { exit } on' $doc | tail -n +2 >"$work/then"
    wrong=$(awk '
        function rows(line) { return line ~ /^  (f32|f16|int8|i8g) / }
        function near(a, b, factor) { return a == b || (a <= b * factor && b <= a * factor) }
        FNR == NR { if (rows($0)) { key = $1 " " $2 " " $3; was[key] = $0; n++ } else if (/tokens scored/) scored = $0; next }
        /tokens scored/ && $0 != scored { print "not " $0 }
        rows($0) {
            seen++
            split(was[$1 " " $2 " " $3], w)
            if ($4 != w[4] || $5 != w[5]) print "bytes: " $0
            if ($6 - w[6] > 1 || w[6] - $6 > 1) print "top-1: " $0
            if (!near($7, w[7], 3)) print "largest difference: " $0
            if (!near($8, w[8], 1.5)) print "mean difference: " $0
            if (!near($9, w[9], 1.01)) print "perplexity: " $0
            if ($10 - w[10] > 2 || w[10] - $10 > 2) print "lines: " $0
        }
        END { if (seen != n || n < 12) print "rows: " n ", now " seen }' "$work/then" "$work/now")
    same "tally $command" "" "$wrong"
done <"$work/commands"

# Functions and files that the document names.
# shellcheck disable=SC2016 # backticks of the text
grep -o '`[a-z_0-9]*()`' $doc | tr -d '`()' | sort -u | while IFS= read -r f; do
    if grep -qE "^[a-z].*[ *]$f\(" engine/*.c kernels/*.c; then ok "$f() exists"; else not_ok "$doc names $f(), which does not exist"; fi
done
# shellcheck disable=SC2016
for f in $(grep -oE '`(kernels|tests|weights)/[a-z_0-9/]*\.[ch]`' $doc | tr -d '`' | sort -u); do
    if [ -e "$f" ]; then ok "$f exists"; else not_ok "$doc names $f, which does not exist"; fi
done
done_testing
