#!/usr/bin/env bash
# Installs the packages that tools/deb.sh built into a clean Debian of their processor, which has seen neither this
# tree nor a compiler, and uses each of them: the program plans and finds its databases, Python plans, and the example
# that opens weft.h is compiled and run. Needs root.
#
#   tools/deb-check.sh FOLDER arm64|amd64
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
folder=$(cd "$1" && pwd)
architecture=$2
root=$folder/clean-$architecture
. "$source/tools/debian.sh"

if [ "$architecture" != "$(dpkg --print-architecture)" ]; then
    read -r _ processor < <(other_processor)
    emulate "$processor"
fi
[ -d "$root" ] || debian_into "$root" "$architecture" --variant=minbase
rm -rf "$root/packages" && mkdir "$root/packages"
cp "$folder/$architecture"/*.deb "$root/packages"
{
    printf '#include <stdio.h>\n#include <weft.h>\nint main(void)\n{\n'
    sed -n '/\*\//q; s/^ \*     //p' "$source/include/weft.h"
    printf '    return 0;\n}\n'
} >"$root/packages/example.c"
cat >"$root/packages/example.py" <<'TEXT'
import weft

plan = weft.find(model="gpt3-1.3b", cluster="dgx-v100:1", global_batch=16, planner="megatron")
prediction = plan.simulate()
print(f"{prediction.iteration_s:.2f} s an iteration,", "fits" if prediction.fits else "does not fit")
TEXT

install="apt-get -qq -y --no-install-recommends install"
inside "$root" "
    apt-get -qq update
    echo '== the program alone'
    $install /packages/weft_*.deb /packages/weft-data_*.deb >/dev/null
    cd /tmp
    weft plan gpt3-1.3b dgx-v100:1 --global-batch 16 --quick | sed -n '1p; /^iteration/p'
    weft inspect gpt3-13b --on dgx-v100 --json | grep -q '\"measured\": ' # the databases are found
    echo '== Python'
    $install /packages/*weft*.deb python3 >/dev/null
    python3 /packages/example.py
    echo '== C'
    $install gcc libc6-dev pkg-config >/dev/null
    cc -std=c17 /packages/example.c \$(pkg-config --cflags --libs weft) -o example
    ./example
    echo '== gone again'
    apt-get -qq -y purge weft weft-data libweft0 libweft-dev python3-weft >/dev/null
    [ ! -e /usr/bin/weft ] && [ ! -e /usr/share/weft ]
"
