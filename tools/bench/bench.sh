#!/bin/sh
# bench.sh TALLY: `make bench`. Level 21 and the two shapes of this folder, random weights, in every storage, then every instruction set.
# BENCH="arguments of tally bench" runs these instead. A full run takes some 20 minutes; the machine should have nothing else to do.
tally=${1:?usage: bench.sh TALLY}
here=$(dirname "$0")
if [ -n "${BENCH:-}" ]; then
    # shellcheck disable=SC2086 # a list of arguments
    exec "$tally" bench $BENCH
fi
set -e
echo "# $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "# level 21, one thread"
"$tally" bench --random --preset level21 -t 1 --storages f32,f16,int8 --prefill 1,10 --contexts 0
for shape in small mid; do
    echo "# $shape"
    "$tally" bench --random --shape "$here/$shape.json" --storages f16,int8
done
echo "# small, every instruction set"
isas=portable
for isa in avx2 avx512 neon; do
    "$tally" bench --random --preset level21 --isa $isa --prefill 1 --batches 1 --contexts 0 --seconds 0 >/dev/null 2>&1 && isas=$isas,$isa
done
"$tally" bench --random --shape "$here/small.json" --storages f32,f16,int8 --isas $isas --prefill 128 --batches 1,16 --contexts 0
