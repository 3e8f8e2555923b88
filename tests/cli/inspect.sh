#!/bin/sh
# tally inspect: what a checkpoint holds; every broken file is one line on stderr and exit 1.
. tests/cli/lib.inc
says() { # says NAME TEXT ARGUMENTS...
    name=$1 text=$2; shift 2
    if "$TALLY" inspect "$@" | grep -qF -- "$text"; then ok "$name"; else not_ok "$name: '$text' is not printed"; fi
}
says "the totals of level 21" "25 tensors, 102,415 elements, 409,660 bytes" models/level21.pt
says "a nested name, its shape and bytes" "state.blocks.0.attn.qkv.weight  [192,64]" models/level21.pt
says "metadata as flat lines" "config.d_ff = 256" -m models/level21.pt
says "--json has the shape" '"n_tensors": 25' models/level21.pt --json
says "--help has an example" "tally inspect models/level21.pt" --help

printf '{"w": [[1, 2], [3, 4]], "note": "a\\u001b[31mb"}' >"$work/w.json"
says "JSON weights" "w     [2,2]                f64" "$work/w.json"
if "$TALLY" inspect "$work/w.json" | LC_ALL=C grep -q "$(printf '\033')"; then not_ok "control characters reach the terminal"; else ok "control characters are escaped"; fi
cp models/level21.pt "$work/no-ending"
says "the ending does not matter" "PyTorch, 25 tensors" "$work/no-ending"

expect_error 2 'give one checkpoint' -- "$TALLY" inspect
expect_error 2 'give one checkpoint' -- "$TALLY" inspect a b
expect_error 1 '^tally: .*/nothing.pt: No such file' -- "$TALLY" inspect "$work/nothing.pt"
: >"$work/empty"
expect_error 1 '^tally: .*/empty: is empty$' -- "$TALLY" inspect "$work/empty"
head -c 5000 models/level21.pt >"$work/cut.pt"
expect_error 1 '^tally: .*/cut.pt: zip: no directory at its end' -- "$TALLY" inspect "$work/cut.pt"
same "one line on stderr" 1 "$(wc -l <"$work/err")"
same "nothing on stdout" 0 "$(wc -c <"$work/out")"
printf '{"a\\u001b[31m": [1, [2]]}' >"$work/hostile.json"
expect_error 1 'a.x1b\[31m: a list among numbers' -- "$TALLY" inspect "$work/hostile.json"
mkfifo "$work/pipe"
expect_error 1 'is not a regular file' -- "$TALLY" inspect "$work/pipe"
expect_error 1 'a folder without weights' -- "$TALLY" inspect "$work"
# shellcheck disable=SC2016
if [ -w /dev/full ]; then expect_error 1 'cannot be written' -- sh -c '"$0" inspect models/level21.pt >/dev/full' "$TALLY"; fi

# The whole of ../shared: opened or refused, never anything else, within the file's size and 64 MiB.
if [ -d $shared/malformed ]; then
    bad=0 n=0
    for f in "$shared"/malformed/* "$shared"/formats/pt/*.pt* "$shared"/checkpoints/*/* "$shared"/tokenizers/*.gguf; do
        [ -f "$f" ] || continue
        "$TALLY" inspect "$f" >"$work/out" 2>"$work/err"; got=$?; n=$((n + 1))
        if [ $got -gt 1 ] || { [ $got = 1 ] && ! grep -q "^tally: $f: ." "$work/err"; }; then echo "$f: exit $got, $(cat "$work/err")"; bad=$((bad + 1)); fi
    done
    same "every file of ../shared opens or is refused with one message ($n)" 0 $bad
else
    skip "../shared is not here"
fi
done_testing
