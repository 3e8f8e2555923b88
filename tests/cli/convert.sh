#!/bin/sh
# tally convert and inspect --layout: files in, files out, the same tokens after.
. tests/cli/lib.inc
L21=models/level21.pt
answer() { "$TALLY" run -m "$1" -p "23+58=" 2>"$work/err"; }

check "level 21 converts to GGUF" "$TALLY" convert $L21 "$work/l21.gguf"
same "and answers as before" "$(answer $L21)" "$(answer "$work/l21.gguf")"
check "it converts to int8" "$TALLY" convert $L21 "$work/l21q.gguf" --weights int8
same "and still answers" 81 "$(answer "$work/l21q.gguf")"
check "it converts to a safetensors folder" "$TALLY" convert $L21 "$work/l21st" --weights f16
same "and that answers" 81 "$(answer "$work/l21st")"
check "counts agree with the prediction on what was converted" "$TALLY" check -m "$work/l21q.gguf"
check "K/V heads are merged" "$TALLY" convert $L21 "$work/l21kv.gguf" --kv-heads 2
same "and the cache is half as large" 2 "$("$TALLY" inspect --json "$work/l21kv.gguf" | sed -n 's/.*"n_kv_heads": \([0-9]*\).*/\1/p' | head -1)"
check "a random shape becomes a GGUF" sh -c "echo '{\"family\":\"llama\",\"n_layers\":1,\"d_model\":32,\"n_heads\":4,\"d_ff\":64,\"n_vocab\":50,\"n_ctx\":32}' >$work/s.json && $TALLY convert --random --shape $work/s.json $work/r.gguf"
same "of the llama family" llama-gguf "$("$TALLY" inspect --json "$work/r.gguf" | sed -n 's/.*"layout": "\([a-z0-9-]*\)".*/\1/p' | head -1)"
expect_error 2 "give the checkpoint and the file to write" -- "$TALLY" convert $L21
expect_error 1 "4 K/V heads cannot be averaged into 3" -- "$TALLY" convert $L21 "$work/x.gguf" --kv-heads 3
expect_error 1 "no int8 with scales" -- "$TALLY" convert $L21 "$work/x" --weights int8
expect_error 1 "cannot be written" -- "$TALLY" convert $L21 "$work/nowhere/x.gguf"
cp $L21 "$work/own.gguf"
expect_error 1 "is what is being converted" -- "$TALLY" convert "$work/own.gguf" "$work/own.gguf"
expect_error 1 "is what is being converted" -- "$TALLY" convert "$work/own.gguf" "$work/own.gguf" --force
check "what was being converted is as it was" cmp $L21 "$work/own.gguf"
echo precious >"$work/there.gguf"
expect_error 1 "is there already" -- "$TALLY" convert $L21 "$work/there.gguf"
same "what was there is as it was" precious "$(cat "$work/there.gguf")"
check "with --force it is replaced" "$TALLY" convert $L21 "$work/there.gguf" --force
expect_error 1 "is not a list of token ids" -- "$TALLY" run -m $L21 --ids 1,,2
same "and nothing is left of failures" "" "$(find "$work" -name '*partial*' -o -name 'x*')"

"$TALLY" inspect $L21 >"$work/inspect"
same "inspect shows the parameters" "102,415" "$(awk '$1 == "total" { print $2 }' "$work/inspect")"
same "and what was assumed" 1 "$(grep -c 'attention scale 1/sqrt(head_dim)' "$work/inspect")"
"$TALLY" inspect $L21 --layout-template >"$work/layout.json"
check "a layout printed by inspect reads the model that it was printed for" "$TALLY" inspect $L21 --layout "$work/layout.json"
same "to the same answer" 81 "$("$TALLY" run -m $L21 --layout "$work/layout.json" -p "23+58=" 2>/dev/null)"
expect_error 1 "is neither a built-in layout nor a file" -- "$TALLY" inspect $L21 --layout "$work/none.json"

"$TALLY" inspect --families >"$work/families.md"
same "docs/families.md is what the layouts say (make families)" "" "$(diff "$work/families.md" docs/families.md | head -3)"

if [ -d $shared ]; then
    S=$shared/checkpoints/stories260K
    "$TALLY" run -m $S/stories260K.bin -p "Once upon a time" -n 60 >"$work/a" 2>/dev/null
    check "llama2.c converts with its tokenizer" "$TALLY" convert $S/stories260K.bin "$work/s.gguf"
    "$TALLY" run -m "$work/s.gguf" -p "Once upon a time" -n 60 >"$work/b" 2>/dev/null
    same "and tells the same story" "$(cat "$work/a")" "$(cat "$work/b")"
    check "GGUF converts to GGUF" "$TALLY" convert $S/stories260K.gguf "$work/g.gguf" --weights f16
    "$TALLY" run -m "$work/g.gguf" -p "Once upon a time" -n 60 >"$work/c" 2>/dev/null
    same "and tells it too" "$(cat "$work/a")" "$(cat "$work/c")"
    check "a family whose form is not written becomes Tally's own" "$TALLY" convert $shared/checkpoints/pico/opt "$work/opt"
    "$TALLY" run -m $shared/checkpoints/pico/opt --ids 3,4,5 -n 6 >"$work/d" 2>/dev/null
    same "and gives the same tokens" "$(cat "$work/d")" "$("$TALLY" run -m "$work/opt" --ids 3,4,5 -n 6 2>/dev/null)"
    check "a Hugging Face folder converts to itself" "$TALLY" convert $shared/checkpoints/hf-tiny/neox-parallel "$work/neox"
    "$TALLY" inspect $shared/checkpoints/slm4096/ckpt.pt --layout-template >"$work/draft.json"
    expect_error 1 "n_heads: how many query heads" -- "$TALLY" inspect $shared/checkpoints/slm4096/ckpt.pt --layout "$work/draft.json"
    sed -e '/"n_heads": {/,/}/c "n_heads": 4,' -e '/"norm": {/,/}/c "norm": "layer",' -e '/"activation": {/,/}/c "activation": "gelu_erf",' \
        "$work/draft.json" >"$work/done.json"
    same "a draft with its questions answered reads the model" "Step one" \
        "$("$TALLY" run -m $shared/checkpoints/slm4096/ckpt.pt --layout "$work/done.json" -p "Q: What is a page?
A:" -n 10 2>/dev/null | cut -c 2-9)"
else skip "no ../shared: conversions of stories260K, and the draft of a layout"; fi
done_testing
