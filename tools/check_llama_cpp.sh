#!/bin/sh
# check_llama_cpp.sh [FOLDER]: for every family that both know, a GGUF of random weights written by tally convert, and the greedy tokens that
# llama.cpp (npm package node-llama-cpp, installed in FOLDER) and Tally make of it. Exit 1 where they differ. Not part of `make test`.
set -eu
cd "$(dirname "$0")/.."
here=$PWD tally=$PWD/build/release/tally
peer=${1:-$(mktemp -d)}
[ -d "$peer/node_modules/node-llama-cpp" ] || (cd "$peer" && npm init -y >/dev/null && npm i --ignore-scripts node-llama-cpp@3.21.1 >/dev/null)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
ids=5,99,17,210,3,3,180,42 n=32

dims='"n_layers":4,"d_model":64,"n_heads":4,"d_ff":96,"n_vocab":256,"n_ctx":256'
bias='"q_bias":true,"kv_bias":true,"o_bias":true,"ffn_bias":true,"norm":"layer","norm_bias":true'
gemma='"activation":"gelu_tanh","embedding_scale":8,"tied":true,"n_kv_heads":2,"head_dim":16'
shape() { printf '{%s,%s}' "$dims" "$2" >"$work/$1.json"; }
shape llama           '"family":"llama","n_kv_heads":2'
shape llama-mha-tied  '"family":"llama","tied":true,"q_bias":true,"kv_bias":true'
shape llama-linear    '"family":"llama","n_kv_heads":2,"rope_scaling":"linear","rope_factor":4'
shape llama-llama3    '"family":"llama","n_kv_heads":2,"rope_base":500000,"rope_scaling":"llama3","rope_factor":8,"rope_low_freq_factor":1,"rope_high_freq_factor":4,"rope_original_ctx":32'
shape llama-yarn      '"family":"llama","n_kv_heads":2,"rope_scaling":"yarn","rope_factor":4,"rope_original_ctx":64,"rope_beta_fast":32,"rope_beta_slow":1'
shape qwen2           '"family":"qwen2","n_kv_heads":2,"q_bias":true,"kv_bias":true'
shape qwen3           '"family":"qwen3","n_kv_heads":2,"head_dim":32,"qk_norm":"head"'
shape gemma           '"family":"gemma",'"$gemma"
shape gemma2          '"family":"gemma2","attn_post_norm":true,"ffn_post_norm":true,"attn_softcap":50,"final_softcap":30,"window":8,"window_layers":"even",'"$gemma"
shape gemma3          '"family":"gemma3","n_layers":12,"attn_post_norm":true,"ffn_post_norm":true,"qk_norm":"head","rope_base":1000000,"rope_local_base":10000,"window":8,"window_layers":[0,1,2,3,4,6,7,8,9,10],'"$gemma"
shape phi             '"family":"phi","gated":false,"activation":"gelu_tanh","parallel_residual":true,"ffn_pre_norm":false,"head_bias":true,"rope_dim":8,'"$bias"
shape phi3            '"family":"phi3","n_kv_heads":2'
shape gpt2            '"family":"gpt2","gated":false,"activation":"gelu_tanh","position":"learned","tied":true,'"$bias"
shape gpt_neox        '"family":"gpt_neox","gated":false,"activation":"gelu_erf","parallel_residual":true,"rope_dim":4,'"$bias"
shape gpt_neox-seq    '"family":"gpt_neox","gated":false,"activation":"gelu_erf","rope_dim":4,'"$bias"
shape starcoder2      '"family":"starcoder2","n_kv_heads":2,"gated":false,"activation":"gelu_tanh",'"$bias"
shape gpt_bigcode     '"family":"gpt_bigcode","n_kv_heads":1,"gated":false,"activation":"gelu_tanh","position":"learned",'"$bias"
shape olmo2           '"family":"olmo2","n_kv_heads":2,"attn_pre_norm":false,"ffn_pre_norm":false,"attn_post_norm":true,"ffn_post_norm":true,"qk_norm":"width"'
shape granite         '"family":"granite","n_kv_heads":2,"embedding_scale":12,"residual_scale":0.22,"logit_scale":0.125,"attn_scale":0.1'
shape stablelm        '"family":"stablelm","n_kv_heads":2,"norm":"layer","norm_bias":true,"rope_dim":4'
shape stablelm-par    '"family":"stablelm","n_kv_heads":2,"norm":"layer","norm_bias":true,"rope_dim":4,"parallel_residual":true,"ffn_pre_norm":false,"q_bias":true,"kv_bias":true'
shape falcon          '"family":"falcon","n_kv_heads":1,"gated":false,"activation":"gelu_erf","parallel_residual":true,"ffn_pre_norm":false,"norm":"layer","norm_bias":true'
shape falcon40        '"family":"falcon","n_kv_heads":2,"gated":false,"activation":"gelu_erf","parallel_residual":true,"norm":"layer","norm_bias":true'
shape bloom           '"family":"bloom","gated":false,"activation":"gelu_tanh","position":"alibi","embedding_norm":true,"tied":true,'"$bias"

failed=0
for s in "$work"/*.json; do
    name=$(basename "$s" .json)
    sed -E 's/("n_layers":[0-9]+)(.*)"n_layers":([0-9]+),/"n_layers":\3\2/; s/^\{"n_layers":4,(.*)"n_layers":12,/{"n_layers":12,\1/' "$s" >"$s.one" && mv "$s.one" "$s"
    "$tally" convert --random --shape "$s" "$work/$name.gguf" --seed 7 >"$work/$name.said" || { echo "$name: not written"; failed=1; }
done
(cd "$peer" && node "$here/tools/check_llama_cpp.mjs" "$ids" "$n" "$work"/*.gguf) >"$work/peer" 2>"$work/err" || true
for g in "$work"/*.gguf; do
    name=$(basename "$g" .gguf)
    theirs=$(awk -v f="$g" '$1 == f { $1 = ""; print substr($0, 2) }' "$work/peer")
    ours=$("$tally" run -m "$g" --ids $ids -n "$n" --weights f32 --kv-type f32 2>/dev/null | grep -oE '[0-9]+' | paste -sd,) || true
    layout=$(sed -n 's/.*layout //p' "$work/$name.said" | head -1)
    if [ -n "$theirs" ] && [ "$theirs" = "$ours" ]; then echo "ok      $name ($layout)"
    else echo "DIFFERS $name ($layout)"; echo "  llama.cpp $theirs"; echo "  tally     $ours"; failed=1; fi
done
exit $failed
