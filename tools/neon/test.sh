#!/bin/sh
# test.sh: builds the kernels and their tests for AArch64 and runs them under qemu, NEON against portable and double.
# Needs a cross compiler and user-mode qemu: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
set -eu
cd "$(dirname "$0")/../.."
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v $tool >/dev/null || { echo "$tool is missing: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" >&2; exit 1; }
done
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for test in product q8 rows attend; do
    aarch64-linux-gnu-gcc -std=c11 -D_GNU_SOURCE -I. -Itools/neon -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror \
        -ffp-contract=off -fno-math-errno -fno-trapping-math -O2 -static -o "$out/$test" \
        tests/test_kernels_$test.c tests/guarded.c tests/kernel_sets.c kernels/isa.c kernels/kernels_neon.c kernels/portable.c \
        kernels/dtype.c kernels/type_*.c -lm
    echo "test_kernels_$test"
    qemu-aarch64 "$out/$test"
done
