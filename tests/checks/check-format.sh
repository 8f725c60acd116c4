#!/usr/bin/env bash
# Every source file is as .clang-format has it, and no declaration is torn by that; every script passes shellcheck, the manual page mandoc.
set -euo pipefail
cd "$(dirname "$0")/../.."

unformatted=$(find include src tests fuzz bench tools -name '*.[ch]' -print0 |
    xargs -0 clang-format-19 --dry-run --ferror-limit=1 2>&1 |
    sed -n 's/^\([^:]*\):.*clang-format-violations.*/\1/p' | sort -u)
if [ -n "$unformatted" ]; then
    printf 'make format would change:\n%s\n' "$unformatted" >&2
    exit 1
fi

# A comment that is too long for its line makes clang-format part a type from its name.
type='(bool|u?int[0-9]*_t|int|size_t|float|double|char|struct [a-z_0-9]+|enum [a-z_0-9]+)'
if grep -rnE "^ +(const )?$type( \*)?\$" include src tests --include='*.[ch]' >&2; then
    echo 'a type stands apart from its name: put the comment on lines before the declaration' >&2
    exit 1
fi

find tools tests .ci -type f \( -name '*.sh' -o -path .ci/run \) -print0 | xargs -0 shellcheck
shellcheck --shell=bash completions/weft.bash
mandoc -T lint -W warning man/weft.1
