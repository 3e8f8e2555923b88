#!/bin/sh
# docs/cost-model.md (and any `$ tally cost` or `$ tally lesson` elsewhere) shows what the program prints, and names functions that exist.
. tests/cli/lib.inc
check_block() { # $work/want: lines that the output of $work/command must hold
    [ -s "$work/command" ] || return 0
    command=$(cat "$work/command")
    eval "\"\$TALLY\" $command" >"$work/printed" 2>&1 || { not_ok "$doc: tally $command: $(cat "$work/printed")"; return; }
    missing=$(grep -vxFf "$work/printed" "$work/want")
    if [ -s "$work/want" ] && [ -z "$missing" ]; then ok "$doc: tally $command"; else not_ok "$doc: tally $command does not print: $missing"; fi
}
commands=0
for doc in README.md docs/*.md; do
    inside=no
    : >"$work/command"
    while IFS= read -r line; do
        case $line in
        '```'*)
            check_block
            : >"$work/command"
            if [ $inside = no ]; then inside=yes; else inside=no; fi
            ;;
        '$ tally cost '* | '$ tally lesson'*)
            if [ $inside = yes ]; then
                check_block
                printf '%s' "${line#\$ tally }" >"$work/command"
                : >"$work/want"
                commands=$((commands + 1))
            fi
            ;;
        '...' | '') ;;
        *) [ -s "$work/command" ] && printf '%s\n' "$line" >>"$work/want" ;;
        esac
    done <"$doc"
done
same "documents show commands" yes "$([ $commands -ge 10 ] && echo yes)"

# shellcheck disable=SC2016 # backticks of the text
grep -o '`[a-z_0-9]*()`' docs/cost-model.md | tr -d '`()' | sort -u >"$work/functions"
while IFS= read -r f; do
    # shellcheck disable=SC2046 # file names without spaces
    if [ "$f" = function ] || grep -qE "^[a-z].*[ *]$f\(" $(git ls-files 'engine/*.[ch]' 'kernels/*.[ch]' 'weights/*.[ch]' 'tools/*.[ch]' 2>/dev/null ||
        find engine kernels weights tools -name '*.[ch]'); then
        ok "$f() exists"
    else
        not_ok "docs/cost-model.md names $f(), which does not exist"
    fi
done <"$work/functions"
done_testing
