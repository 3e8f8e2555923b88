#!/bin/sh
# demo.sh TALLY: what `make demo` shows: an answer of the shipped checkpoint, and what it cost.
tally=${1:?usage: demo.sh TALLY}
echo '$ tally run -m models/level21.pt -p "23+58="'
"$tally" run -m models/level21.pt -p "23+58=" || exit 1
printf '\n\n'
echo '$ tally check -m models/level21.pt -p "23+58=" --steps 2 --brief'
"$tally" check -m models/level21.pt -p "23+58=" --steps 2 --brief
