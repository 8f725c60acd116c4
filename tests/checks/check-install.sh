#!/usr/bin/env bash
# Installs into a temporary folder, then compiles the example that opens weft.h against what was
# installed, with nothing but pkg-config to find it, and runs it.
#
#   check-install.sh BUILD_FOLDER
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
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

for file in bin/weft include/weft.h lib/libweft.a lib/libweft.so lib/python3/dist-packages/weft/__init__.py share/man/man1/weft.1 \
    share/bash-completion/completions/weft share/zsh/site-functions/_weft \
    share/fish/vendor_completions.d/weft.fish; do
    [ -s "weft/$file" ] || fail "$file was not installed"
done

# Every command has a page of its own.
while read -r command; do
    page=weft/share/man/man1/weft-$command.1
    [ -s "$page" ] || fail "weft $command has no manual page"
    mandoc -T lint -W warning "$page" || fail "the manual page of weft $command"
    grep -q "^\.Nd ." "$page" || fail "the manual page of weft $command does not say what it does"
done < <(weft/bin/weft --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
[ -s weft/share/man/man1/weft-mcp.1 ] || fail "no commands were found in weft --help"

# The example is the indented part of the header's opening comment.
{
    printf '#include <stdio.h>\n#include <weft.h>\nint main(void)\n{\n'
    sed -n '/\*\//q; s/^ \*     //p' "$source/include/weft.h"
    printf '    return 0;\n}\n'
} >example.c

export PKG_CONFIG_PATH=$place/weft/lib/pkgconfig
compile_and_run() { # FLAG... for the library, found by pkg-config and nothing else
    cc -std=c17 -Wall -Werror example.c "$@" -Wl,-rpath,"$place/weft/lib" -o example
    output=$(./example)
    [[ $output =~ ^[0-9.]+\ s\ an\ iteration,\ fits$ ]] || fail "the example says: $output"
}
read -ra shared <<<"$(pkg-config --cflags --libs weft)"
read -ra needs <<<"$(pkg-config --print-requires-private weft | xargs)"
own=$(sed -n 's/^Libs.private: //p' "$place/weft/lib/pkgconfig/weft.pc")
read -ra static <<<"$(pkg-config --cflags --libs weft "${needs[@]}") $own"
compile_and_run "${shared[@]}"
compile_and_run "${static[@]/-lweft/-l:libweft.a}"

# Python finds the library beside it, without being told.
iteration=$(env -i PYTHONPATH="$place/weft/lib/python3/dist-packages" PYTHONDONTWRITEBYTECODE=1 python3 -c '
import weft
plan = weft.Plan.read({"model": "gpt3-13b", "cluster": "dgx-a100:4", "degrees": {"tp": 8}})
print(plan.simulate().iteration_s)')
[[ $iteration =~ ^[0-9.]+$ ]] || fail "Python says: $iteration"

# Only the names of weft.h may meet the names of the program that links the library.
for library in "--extern-only weft/lib/libweft.a" "--dynamic weft/lib/libweft.so"; do
    read -ra arguments <<<"$library"
    others=$(nm --defined-only --format=just-symbols "${arguments[@]}" |
        grep -vE '^(weft_.*|.*:)?$' || true)
    [ -z "$others" ] || fail "$library exports more than weft.h: $(head -5 <<<"$others" | xargs)"
done

[ "$(weft/bin/weft --version)" = "weft $(pkg-config --modversion weft)" ] || fail "versions differ"
# The installed program finds its data without the source tree.
answer=$(env -i weft/bin/weft inspect gpt3-13b --on dgx-v100 --json)
grep -q '"measured": ' <<<"$answer" ||
    fail "no time of gpt3-13b on dgx-v100 is measured: the profiles are not found"
