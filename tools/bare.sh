#!/usr/bin/env bash
# The README's two commands as a newcomer types them: a fresh clone of what is committed here, in a bare
# Debian (base system, make and git) of one processor. Needs root.
#
#   tools/bare.sh FOLDER arm64|amd64 [TARGET...]
#
# On this machine's own processor the targets are quickstart, test and sanitize. The other one is emulated by
# qemu-user, where sanitizers and browsers do not run: quickstart and smoke.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
root=$(cd "$1" && pwd)/$2
architecture=$2
targets=("${@:3}")
. "$source/tools/debian.sh"

if [ "$architecture" != "$(dpkg --print-architecture)" ]; then
    read -r _ processor < <(other_processor)
    emulate "$processor"
    [ ${#targets[@]} -gt 0 ] || targets=(quickstart smoke)
fi
[ ${#targets[@]} -gt 0 ] || targets=(quickstart test sanitize)

[ -d "$root" ] || debian_into "$root" "$architecture" --variant=minbase --include="make git"
rm -rf "$root/weft"
git clone -q "$source" "$root/weft"

inside "$root" "cd /weft && for target in ${targets[*]}; do make \$target; done"
