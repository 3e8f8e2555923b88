#!/bin/sh
# run.sh BUILD: runs every cmocka program of BUILD/tests and every command-line test, and adds up the results.
# The exit status is the verdict. The last line is "N passed, N failed, N skipped".
build=${1:?usage: run.sh BUILD_FOLDER}
cd "$(dirname "$0")/.." || exit 1
export TALLY="$PWD/$build/tally" LC_ALL=C.UTF-8
log=$(mktemp); trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0
for t in tests/test_*.c; do
    name=$(basename "$t" .c)
    if "$build/tests/$name" >"$log" 2>&1; then verdict=ok; else verdict=FAILED; fi
    p=$(grep -c '^\[       OK \]' "$log"); f=$(grep -c '^\[  FAILED  \] [^0-9]' "$log"); s=$(grep -c '^\[  SKIPPED \] [^0-9]' "$log")
    if [ $verdict = FAILED ]; then [ "$f" = 0 ] && f=1; cat "$log"; fi
    if [ $verdict = ok ] && [ $((p + s)) = 0 ]; then f=1; verdict=FAILED; echo "$name ran no test"; fi
    grep '^SKIP: ' "$log" | sort -u
    printf '%-32s %s (%d passed, %d failed, %d skipped)\n' "$name" $verdict "$p" "$f" "$s"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
for t in tests/cli/*.sh; do
    [ -e "$t" ] || continue
    if sh "$t" >"$log" 2>&1; then verdict=ok; else verdict=FAILED; fi
    p=$(grep -c '^ok ' "$log"); f=$(grep -c '^not ok ' "$log"); s=$(grep -c '^skip ' "$log")
    if [ $verdict = FAILED ]; then [ "$f" = 0 ] && f=1; cat "$log"; fi
    if [ $verdict = ok ] && [ "$f" != 0 ]; then verdict=FAILED; cat "$log"; fi
    if [ $verdict = ok ] && [ $((p + s)) = 0 ]; then f=1; verdict=FAILED; echo "$t ran no test"; fi
    grep '^skip ' "$log"
    printf '%-32s %s (%d passed, %d failed, %d skipped)\n' "cli/$(basename "$t")" $verdict "$p" "$f" "$s"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
