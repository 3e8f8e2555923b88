#!/bin/sh
# tally convert keeps every bit that the type can hold: a converted file computes what the original computes in that storage, and converts to
# itself. (Position rows are written in fp32, and become fp16 with --weights f16.)
. tests/cli/lib.inc
M=models/level21.pt
ids=1,5,6,13,8,11,14,11,4,2
logits() { # logits FILE MODEL OPTIONS...
    out=$1; shift
    "$TALLY" run --ids $ids -n 0 --kv-type f32 --logit-rows all --logits-out "$work/$out" -m "$@" 2>"$work/err" || cat "$work/err"
}
convert() { "$TALLY" convert "$@" >"$work/out" 2>&1 || cat "$work/out"; }
differ() { cmp "$work/$1" "$work/$2" 2>&1; }
for storage in f32 f16 int8; do
    logits direct.$storage $M --weights $storage
    for file in $storage.gguf $storage.folder; do
        [ "$file" = int8.folder ] && continue # safetensors has no int8 with scales
        data=
        [ "$file" = $storage.folder ] && data=/model.safetensors
        convert $M "$work/$file" --weights $storage
        logits converted "$work/$file" --weights $storage
        same "$file has the logits of $storage weights, bit by bit" "" "$(differ direct.$storage converted)"
        convert "$work/$file" "$work/again.$file"
        convert "$work/again.$file" "$work/third.$file"
        same "$file converted again and again is one file" "" "$(differ "again.$file$data" "third.$file$data")"
        logits again "$work/again.$file" --weights $storage
        same "$file converted again computes the same" "" "$(differ direct.$storage again)"
    done
done
for storage in f16 int8; do
    convert "$work/f32.gguf" "$work/later.gguf" --weights $storage --force
    logits later "$work/later.gguf" --weights $storage
    same "f32 to $storage by way of a file, or at once" "" "$(differ direct.$storage later)"
done
for threads in 1 2 3; do
    convert $M "$work/threads.gguf" --weights int8 -t $threads --force
    same "int8 on $threads threads is one file" "" "$(differ threads.gguf int8.gguf)"
done
convert "$work/f16.gguf" "$work/wide.gguf" --weights f32
logits narrow "$work/f16.gguf"
logits wide "$work/wide.gguf"
same "f16 to f32 loses nothing" "" "$(differ narrow wide)"
for pair in "f32 f16" "f16 int8"; do
    if cmp -s "$work/direct.${pair% *}" "$work/direct.${pair#* }"; then not_ok "$pair are the same"; else ok "$pair are not the same"; fi
done
done_testing
