#!/bin/sh
# audit.sh BUILD OUT.md: runs the portable kernels under valgrind and writes what it saw beside what Tally counted.
# The exit status is the verdict on what must be exact.
set -u
build=${1:?usage: audit.sh BUILD OUT.md} out=${2:?usage: audit.sh BUILD OUT.md}
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
export LC_ALL=C OMP_NUM_THREADS=1
bad=0

# watch CASE [arrays|pages|products]: table rows of one marked step, from lackey's trace of every load and store
watch() {
    valgrind --tool=lackey --trace-mem=yes --log-fd=9 "$build/audit_run" trace "$1" "$dir/map" 9>&1 >/dev/null 2>"$dir/err" |
        "$build/audit_trace" "$dir/map" ${2:+"$2"} || { cat "$dir/err" >&2; return 1; }
}

section() { # section CASE "words"
    echo "audit: $1" >&2
    # shellcheck disable=SC2016
    printf '\n**%s** (`%s`)\n\n' "$2" "$1"
    echo '| array | counted | different bytes | explained | | bytes loaded | loads / counted |'
    echo '|---|---:|---:|---:|---|---:|---:|'
    watch "$1" || bad=1
}

LL=1048576
# misses CASE STEPS: "weights cache written read-misses write-misses" of a whole run
misses() {
    counted=$(valgrind --tool=cachegrind --cache-sim=yes --I1=32768,8,64 --D1=32768,8,64 --LL=$LL,16,64 \
        --cachegrind-out-file="$dir/cg" "$build/audit_run" cache "$1" "$2" 2>"$dir/err") || { cat "$dir/err" >&2; return 1; }
    awk -v counted="$counted" '/^events:/ { for (i = 2; i <= NF; i++) at[$i] = i } /^summary:/ { print counted, $at["DLmr"], $at["DLmw"] }' "$dir/cg"
}

cache_row() { # cache_row CASE "words": the difference of a run of three steps and of one, halved
    echo "audit: cache $1" >&2
    if ! one=$(misses "$1" 1) || ! three=$(misses "$1" 3); then bad=1; return; fi
    echo "$one $three" | awk -v words="$2" '
        function commas(n,  s) { s = sprintf("%d", n); while (s ~ /^[0-9]+[0-9][0-9][0-9]($|,)/) sub(/[0-9][0-9][0-9]($|,)/, ",&", s); return s }
        { w = ($6 - $1) / 2; c = ($7 - $2) / 2; o = ($8 - $3) / 2; r = 64 * ($9 - $4) / 2; s = 64 * ($10 - $5) / 2
          printf "| %s | %s | %s | %s | %.3f | %s | %s |\n", words, commas(w), commas(c), commas(r), r / (w + c), commas(o), commas(s) }'
}

write_audit() {
    cat <<TEXT
# The counts, proved by other programs

Tally's counters are posted by the code that does the work: the accessor that hands out a row of weights or a run of keys posts its bytes.
That is honest only as far as the code reads what it was handed, all of it, and nothing else. Here somebody else looks. \`make audit\` runs
one step of a small model on the portable kernels, one thread, under valgrind, which sees every load and store of the process; a program of
ours sorts them by the array that they fall into. Nothing of the counters is asked: the addresses of the arrays are all that the watcher is told.

This page is written by \`make audit\`; it fails when a line that must be exact is not. Last run: $(valgrind --version), $(${CC:-cc} --version | head -1).

Three proofs stand beside each other:

| what | how | where |
|---|---|---|
| bytes, term by term, array by array, page by page | valgrind's lackey: addresses of all loads and stores | this page |
| bytes that come from memory | valgrind's cachegrind: lines missed in a small last-level cache, times 64 | this page |
| FLOPs and every other term | a scalar forward pass that counts each operation when it does it | \`tests/counting_reference.h\`, \`make test\` |

## Term by term

The model: 2 layers, d_model 44, 6 heads on 2 K/V heads of 12, d_ff 90, 101 tokens, LayerNorm, biases everywhere, learned positions, an
embedding table of its own, and a window of 20 keys in the second layer. Pages of 16 tokens.

*Counted* is what the counters say. *Different bytes* are the bytes of the array that were loaded (for what is written: stored) at least once:
once a pass for weights, once a reading for K, V and page tables, since a pass may stream those several times (each tile of query rows reads
its keys again; decode rows that share a prefix read it once). **These two must be equal**, but for what is *explained* below. *Bytes loaded*
are all loads, repeated or not: the same byte again out of a register's or a cache's reach. The cost model does not count those, and the
last column says how many there are.
TEXT
    section decode-f32 "One token after 32, fp32 weights and cache"
    section decode-f16 "One token after 32, fp16 weights and cache"
    section decode-int8 "One token after 32, int8 weights, activations and cache"
    section decode-int8-f32 "One token after 32, int8 weights against fp32 activations, fp16 cache"
    section decode-shared "Three sequences that share their first 32 tokens, one token each, fp16"
    section decode-tied "One token after 32, fp16, the head is the embedding table"
    section prefill-f32 "40 tokens after 16, fp32"
    section prefill-f16 "40 tokens after 16, fp16"
    section prefill-int8 "40 tokens after 16, int8 weights, activations and cache"
    section prefill-int8-f32 "40 tokens after 16, int8 weights against fp32 activations, int8 cache"
    section prefill-no-logits "40 tokens after 16 without logits, fp16: a chunk that is not the last"
    if "$build/audit_run" trace decode-f16-avx2 "$dir/map" 2>/dev/null; then
        printf '\nThe same through the AVX2 kernels, which valgrind knows too:\n'
        section decode-f16-avx2 "One token after 32, fp16, AVX2"
        section decode-int8-avx2 "One token after 32, int8, AVX2"
        section prefill-f16-avx2 "40 tokens after 16, fp16, AVX2"
        section prefill-int8-avx2 "40 tokens after 16, int8, AVX2"
    fi
    cat <<'TEXT'

**What is exact.** Every line: the counters hand out neither a byte too many nor one too few. The embedding and position tables are read
one row a token and not otherwise; an array that the step has no use for (the head, in a chunk without logits) is not touched; of a page that
is half full only the tokens that are there are read, and of one that a window has half left behind only the keys that are still in it.

**What is explained.**
- *Weights, int8 against fp32 activations*: the last block of a Q8_0 row is padded to 32 numbers. The rule counts the block, as it lies in
  the file; the loop that turns it into fp32 stops at the last column. The padding is the difference: for q, 20 of each row's 64 columns. With int8
  activations the padding is loaded too (it is zeros), and nothing is left to explain.
- *The embedding row of a tied table*: the table is the head's panels, so that the row's bytes are the head's, and were counted twice: as a row
  looked up, and with the head. The head's line shows the second load of them.
- *Position rows of forks*: three sequences at one position want the same row of the table. The rule counts a row for each token.

**How often a byte is loaded.** One load for each time that a loop wants it:
- *Weights*: 1 in a decode step of one sequence. More rows share one panel while it is in the cache: where panels are multiplied as they lie,
  each row loads it again (40 rows: 40; three sequences: 3); where fp16 or int8 is first turned into fp32 (8 rows and more), the
  panel itself is loaded once and the copy many times (in "all else"). Below 1: padding that is not loaded.
- *Biases and gains*: once a row of activations. The head's bias and the final gain serve only the rows that get logits, so that the mean lies below.
- *Rows of tables*: 1; memcpy of 176 bytes takes a last 64 that overlap, which makes 1.45.
- *K and V*: each of the 3 query heads of a K/V head loads a key for itself: 3, and 9 where three sequences share it (with the windowed layer,
  which shares nothing, 5.16 on the whole). int8: the scale is loaded once for the three heads: (3 × 12 + 2) / 14 = 2.71. In prefill a range
  of keys is turned into fp32 once for a tile where there is no window, and rows go over the cache one by one where there is.
- *Page tables*: 1 a layer.
- *AVX2* keeps 16 numbers of a key in registers for the heads that share it (about 1 in place of 3), and a panel for several rows of activations (40
  rows of int8: 10). Where fewer than 16 rows of weights or keys are left, vectors overlap; and the int8 product of few rows loads the weights a second
  time, for their magnitudes, out of the first cache.

## Page by page

The same step of `decode-f16`: 32 tokens in two full pages, the step's own in the third. A token's K and V of one layer take
2 × 2 × 12 × 2 = 96 bytes. Layer 0 reads 16 + 16 + 1 tokens; layer 1, with its window of 20 keys, positions 13 to 32: 3 + 16 + 1. The step's own is
stored, then read back.

| page | bytes | different bytes loaded | bytes loaded | bytes stored |
|---|---:|---:|---:|---:|
TEXT
    watch decode-f16 pages || bad=1
    cat <<'TEXT'

## Array by array

And the other arrays of that step. A matrix is loaded from its first byte to its last, once; of the two tables one row; a page table has an entry for each page,
looked up in both layers.

<details><summary>all arrays of <code>decode-f16</code></summary>

| array | bytes | different bytes loaded | bytes loaded | bytes stored |
|---|---:|---:|---:|---:|
TEXT
    watch decode-f16 arrays || bad=1
    cat <<'TEXT'

</details>

## Multiply-adds, from outside

The portable product takes fp32 panels as they lie, one row of activations at a time: each multiply-add loads its weight, 4 bytes. So the loads
are a count of multiply-adds that owes nothing to ours. `prefill-f32`:

| product | FLOPs counted | bytes of weights loaded | 2 × loads / 4 |
|---|---:|---:|---:|
TEXT
    watch prefill-f32 products || bad=1
    cat <<TEXT

## Lines that come from memory

Cachegrind simulates caches: two of 32 KiB, and a last level of $((LL / 1024)) KiB, far smaller than the model's weights (4 layers, d_model 256, 8 heads
on 2 K/V heads of 32, d_ff 688, 1,000 tokens). Lines missed in the last level, times 64, are the bytes that a machine with such a
cache would move. A run of three steps less a run of one, halved, is a step without the process around it. Decode stands at 192 tokens;
prefill is 64 tokens in one pass.

| step | weights counted | K, V, tables counted | lines read × 64 | ratio | written, counted | lines missed by stores × 64 |
|---|---:|---:|---:|---:|---:|---:|
TEXT
    cache_row decode-f32 "decode, fp32"
    cache_row decode-f16 "decode, fp16"
    cache_row decode-int8 "decode, int8"
    cache_row prefill-f32 "prefill, fp32"
    cache_row prefill-f16 "prefill, fp16"
    cache_row prefill-int8 "prefill, int8"
    cat <<'TEXT'

**What to expect, and what is seen.** In decode the ratio is 1 and a little: every counted byte is on a line that was thrown out since the last
step, and lines come whole. The rest is what the counters leave out by rule (activations, the residual stream, rope tables, code's own data)
as far as it was thrown out too, and the ends of arrays and of runs of keys that do not fill their last line. Counted bytes are therefore what the
memory moves, and a step is bound by them. In prefill weights miss once for all 64 rows, though they are loaded 64 times: the reuse that the
rule "once a pass" supposes is real as long as a group of panels and the rows' activations fit in the cache; the activations of 64 rows and the
fp32 copies of panels take their share of this small one, which shows as a ratio above 1. K and V counted as read in the step that wrote them
(a prefill's own) are still in the cache, and cost no line: that is a count of requests, not of misses.

Stores miss where they are the first to touch a line since it was thrown out: activations above all, which are not counted; K and V written are a
small part of them.

## What this does not prove

The AVX-512 kernels run the same loops over the same accessors, and the tests compare their logits with the portable ones, but
valgrind does not know them; threads are not watched, since shares of the work do not change what is read. Times are not proved here at all: see
`tally check` and `tally machine`.
TEXT
}

write_audit >"$dir/audit.md"
if grep -q 'differs\*\*' "$dir/audit.md"; then bad=1; fi
cp "$dir/audit.md" "$out"
[ "$bad" = 0 ] && echo "audit: every counted byte is accounted for: $out" || echo "audit: something DIFFERS: $out" >&2
exit "$bad"
