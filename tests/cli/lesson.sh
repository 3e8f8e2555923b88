#!/bin/sh
# tally lesson: the lesson's numbers, as it prints them, and its commands, which must say the same.
. tests/cli/lib.inc
check "tally lesson: counted = predicted wherever a model was run" "$TALLY" lesson
cp "$work/out" "$work/lesson"
said() { if grep -qF -- "$1" "$work/lesson"; then ok "the lesson says $1"; else not_ok "the lesson does not say $1"; fi; }
said "without it: 100 × 101 / 2 = 5,050"
said "2 × 1 × 4 × 2 × 2 = 32 bytes per token"
said "2 × 32 × 128 × 32 × 2 = 524,288 bytes = 512 KiB per token"
said "4,000 × 524,288 = 2,097,152,000 bytes = 1.95 GiB"
said "floor(13 / (32 / 8)) = 3"
for n in 8,192 4,096 2,048 1,024; do said "= $n bytes"; said "counted in a run: $n"; done
said "floor(8,589,934,592 / 65,536) = 131,072"
said "2 × 1 × 3 × 4 = 24 FLOPs"
said "98,304 + 32,768 = 131,072 FLOPs"
said "= 384 keys"
said "attention: 327,680 FLOPs"
said "99,264 + 1,167 + 320 + 960 + 704 = 102,415"
said "6 × 102,415 × 85,000 = 52,231,650,000 FLOPs = 52.23 GFLOP"
for n in 198,528 5,632 3,827 1,968,000 28,160 33,155 403,516 204,732 111,740; do said "counted in a run: $n"; done
said "= 7,142.86 tokens/s"
said "= 71.43 tokens/s"
said "2 × 1e14 / (2 × 1e12) = 100 users"
said "1 × 1e14 / (2 × 1e12) = 50 users"
said "= 4,194,304,000 bytes = 4.19 GB"
said "= 18.19 ms"
said "= 54.96 tokens/s"
said "= 439.70 tokens/s"
said "= 125"
said "= 79.54 ms"
said "= 12.57 tokens/s"
said "= 1,571.62 tokens/s"
said "= 280 ms"
said "= 14 ms"
said "= never"
said "= 188.01 users"
said "= 35.84 ms"
said "= 27.90 tokens/s"
said "= 109.92 tokens/s"
said "= 879.40 tokens/s"
same "nothing differs" 0 "$(grep -c DIFFERS "$work/lesson")"

# Every command that it prints is run, and prints the numbers that the lesson printed above it.
"$TALLY" lesson --no-run >"$work/lesson"
commands=0 wrong=0
: >"$work/said"
while IFS= read -r line; do
    case $line in
    '  $ tally '*)
        commands=$((commands + 1))
        eval "\"\$TALLY\" ${line#  \$ tally }" >"$work/answer" || wrong=$((wrong + 1))
        while IFS= read -r number; do
            grep -qF -- "$number" "$work/answer" || { wrong=$((wrong + 1)); echo "not in tally ${line#  \$ tally }: $number"; }
        done <"$work/said"
        : >"$work/said"
        ;;
    '  '*': '*) echo "${line#*: }" >>"$work/said" ;;
    esac
done <"$work/lesson"
same "every command of the lesson says what the lesson says" 0 $wrong
same "there are some" yes "$([ $commands -ge 45 ] && echo yes)"
check "tally lesson --json" "$TALLY" lesson --json
same "agrees in JSON" 1 "$(grep -c '"agrees": true' "$work/out")"
done_testing
