#!/usr/bin/env bash
# Every source file is as .clang-format has it; every script passes shellcheck, the manual page mandoc.
set -euo pipefail
cd "$(dirname "$0")/../.."

unformatted=$(find include src tests fuzz bench tools -name '*.[ch]' -print0 |
    xargs -0 clang-format-19 --dry-run --ferror-limit=1 2>&1 |
    sed -n 's/^\([^:]*\):.*clang-format-violations.*/\1/p' | sort -u)
if [ -n "$unformatted" ]; then
    printf 'make format would change:\n%s\n' "$unformatted" >&2
    exit 1
fi

find tools tests .ci -type f \( -name '*.sh' -o -path .ci/run \) -print0 | xargs -0 shellcheck
shellcheck --shell=bash completions/weft.bash
mandoc -T lint -W warning man/weft.1
