#!/bin/sh
# lint.sh: formatting and static analysis. Installs its tools when they are missing (make lint only; not for building or testing).
set -eu
cd "$(dirname "$0")/.."
./tools/deps.sh clang-format clang-tidy cppcheck shellcheck
files=$(git ls-files '*.c' '*.h')
# shellcheck disable=SC2086
clang-format --dry-run -Werror $files
cppcheck --quiet --std=c11 -I. --library=tools/cppcheck.cfg --error-exitcode=1 --inline-suppr --enable=warning,portability --suppress=missingIncludeSystem \
    --suppress=normalCheckLevelMaxBranches -DNDEBUG kernels weights tokenizer engine tools
shellcheck -S warning -x -e SC1091 tools/*.sh tests/*.sh tests/cli/*.sh
