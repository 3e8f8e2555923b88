#!/bin/sh
# kernels.sh BUILD: the products of the best instruction set alone, one thread: from the second-level cache, and from memory.
build=${1:?usage: kernels.sh BUILD_FOLDER}
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
${CC:-cc} -O2 -std=c11 -D_GNU_SOURCE -I. -o "$work/kernels" tools/bench/kernels.c "$build/tools/probe.o" "$build/libtally.a" -fopenmp -ljansson -lzip -lpcre2-8 -lutf8proc -lm -ldl -lpthread || exit 1
isa=$("$build/tally" run --random --preset level21 --ids 1 -n 1 -v 2>&1 | sed -n 's/.*kernels \([a-z0-9]*\).*/\1/p')
echo "# from the second-level cache"
for type in f32 f16 int8; do "$work/kernels" "$isa" $type 768 64 0 1 6 12 64 512; done
[ "$isa" != avx512 ] || "$work/kernels" avx512-vnni int8 768 64 0 4 16 512
echo "# 200 MB of weights"
for type in f16 int8; do "$work/kernels" "$isa" $type 768 2048 200 1 2 4 8 12 16 32 64 512; done
