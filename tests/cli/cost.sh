#!/bin/sh
# tally cost: from the command line.
. tests/cli/lib.inc
same "cost --preset gpt2 counts the published parameters" "parameters: 124,439,808" "$("$TALLY" cost --preset gpt2 | grep '^parameters')"
expect_error 1 'no such preset' -- "$TALLY" cost --preset nosuch
expect_error 1 'nosuch.json: No such file' -- "$TALLY" cost --shape nosuch.json
expect_error 2 'unknown option --colour' -- "$TALLY" cost --colour
expect_error 2 'no such command' -- "$TALLY" nosuch
expect_error 2 'usage: tally COMMAND' -- "$TALLY"
check "tally --help succeeds" "$TALLY" --help
check "tally cost --help succeeds" "$TALLY" cost --help
done_testing
