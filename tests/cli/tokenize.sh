#!/bin/sh
# tally tokenize: ids, pieces, both ways, and what it refuses.
. tests/cli/lib.inc
ids() { "$TALLY" tokenize "$@" | head -1; }
model=models/level21.pt
same "the lesson's prompt with its bos" "1 5 6 13 8 11 14" "$(ids $model '23+58=')"
same "without it" "5 6 13 8 11 14" "$(ids $model '23+58=' --no-add-special)"
same "special text is text" "1" "$("$TALLY" tokenize $model '<eos>' --no-add-special 2>&1 | grep -c "character '<' (U+003C) is not in the vocabulary")"
same "unless it is asked for" "2" "$(ids $model '<eos>' --no-add-special --parse-special)"
same "an empty text is its bos" "1" "$(ids $model '')"
same "ids back to text" "<bos>23+58=" "$("$TALLY" tokenize $model --decode 1,5,6,13,8,11,14)"
same "ids separated by spaces, from a file" "81" "$(echo 11 4 | "$TALLY" tokenize $model --decode -f -)"
same "a text from standard input" "1 4 13 4" "$(printf '1+1' | "$TALLY" tokenize $model -f - | head -1)"
same "--json has ids and pieces" '[5,13] ["2","+"] 2 characters' "$("$TALLY" tokenize $model '2+' --no-add-special --json |
    python3 -c 'import json,sys; d=json.load(sys.stdin); print(json.dumps(d["ids"],separators=(",",":")), json.dumps(d["pieces"],separators=(",",":")), d["n_tokens"], d["tokenizer"])')"
same "--json of text" '81' "$("$TALLY" tokenize $model --decode 11,4 --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["text"])')"

cat >"$work/tokenizer.json" <<'J'
{"model": {"type": "BPE", "vocab": {"h": 0, "i": 1, "hi": 2, "<s>": 3}, "merges": ["h i"]}, "added_tokens": [{"id": 3, "content": "<s>", "special": true}]}
J
same "a tokenizer.json by itself" "2 2" "$(ids "$work/tokenizer.json" hihi)"
same "a folder with one" "2 2" "$(ids "$work" hihi)"
same "another tokenizer for a model" "2" "$(ids $model hi --tokenizer "$work/tokenizer.json")"
expect_error 1 "tokenizer.json: the character 'x' \(U\+0078\)" -- "$TALLY" tokenize "$work/tokenizer.json" hix
expect_error 1 'the id 4 is not in the vocabulary of 4 tokens' -- "$TALLY" tokenize "$work/tokenizer.json" --decode 4
expect_error 1 "is not a list of token ids" -- "$TALLY" tokenize "$work/tokenizer.json" --decode abc
echo '{"model": {"type": "WordPiece"}}' >"$work/bad.json"
expect_error 1 'bad.json: the model "WordPiece" is not supported' -- "$TALLY" tokenize "$work/bad.json" hi
expect_error 1 'nosuch.json: No such file' -- "$TALLY" tokenize nosuch.json hi
expect_error 2 'give either a text or -f FILE' -- "$TALLY" tokenize $model
expect_error 2 'one argument too many' -- "$TALLY" tokenize $model hi -f -
expect_error 2 'one argument too many' -- "$TALLY" tokenize $model hello world
expect_error 2 'give a model or a tokenizer' -- "$TALLY" tokenize
check "help has an example" "$TALLY" tokenize --help
same "of two lines" 2 "$("$TALLY" tokenize --help | grep -c 'tally tokenize models/')"
if [ -d $shared/tokenizers ]; then
    same "a GGUF file's own tokenizer" "15496 995" "$(ids $shared/tokenizers/ggml-vocab-gpt-2.gguf 'Hello world')"
    same "a llama2.c model's, beside it" "1 403 407" "$(ids $shared/checkpoints/stories260K/stories260K.bin 'Once upon')"
    same "any bytes come back" "yes" "$(head -c 3000 /bin/sh >"$work/bytes"; i=$("$TALLY" tokenize $shared/tokenizers/gpt2 -f "$work/bytes" | head -1)
        "$TALLY" tokenize $shared/tokenizers/gpt2 --decode "$i" | cmp -s - "$work/bytes" && echo yes)"
    expect_error 1 'has no tokenizer: it runs on ids' -- "$TALLY" tokenize $shared/checkpoints/pico/llama hi
    for f in tok_cut tok_empty tok_huge_len; do expect_error 1 "$f.bin: " -- "$TALLY" tokenize $shared/malformed/$f.bin hi; done
else
    skip "../shared is not there"
fi
done_testing
