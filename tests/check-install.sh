#!/usr/bin/env bash
# Installs into a temporary folder, then compiles the example that opens weft.h against what was
# installed, with nothing but pkg-config to find it, and runs it.
#
#   check-install.sh BUILD_FOLDER
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
build=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

fail() {
    echo "check-install: $1" >&2
    exit 1
}

DESTDIR=$place/staged cmake --install "$build" --prefix /opt/weft >/dev/null
mv "$place/staged/opt/weft" "$place/weft" # the pkg-config file must not care
cd "$place"

for file in bin/weft include/weft.h lib/libweft.a share/man/man1/weft.1 \
    share/bash-completion/completions/weft share/zsh/site-functions/_weft \
    share/fish/vendor_completions.d/weft.fish; do
    [ -s "weft/$file" ] || fail "$file was not installed"
done

# The example is the indented part of the header's opening comment.
{
    printf '#include <stdio.h>\n#include <weft.h>\nint main(void)\n{\n'
    sed -n '/\*\//q; s/^ \*     //p' "$source/include/weft.h"
    printf '    return 0;\n}\n'
} >example.c

export PKG_CONFIG_PATH=$place/weft/lib/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs weft)"
cc -std=c17 -Wall -Werror example.c "${flags[@]}" -o example
output=$(./example)
[[ $output =~ ^1[23]\.[0-9]\ B\ parameters\ on\ 32\ devices$ ]] || fail "the example says: $output"

# Only the names of weft.h may meet the names of the program that links the library.
others=$(nm --extern-only --defined-only --format=just-symbols weft/lib/libweft.a |
    grep -vE '^(weft_.*|.*:)?$' || true)
[ -z "$others" ] || fail "libweft.a exports more than weft.h: $(head -5 <<<"$others" | xargs)"

[ "$(weft/bin/weft --version)" = "weft $(pkg-config --modversion weft)" ] || fail "versions differ"
# The installed program finds its data without the source tree.
answer=$(env -i weft/bin/weft inspect gpt3-13b --on dgx-v100 --json)
grep -q '"measured": ' <<<"$answer" ||
    fail "no time of gpt3-13b on dgx-v100 is measured: the profiles are not found"
