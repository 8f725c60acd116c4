#!/usr/bin/env bash
# The README's two commands as a newcomer types them: a fresh clone of what is committed here, in a bare
# Debian (base system, make and git) of one processor. Needs root.
#
#   tools/bare.sh FOLDER arm64|amd64 [TARGET...]
#
# On this machine's own processor the targets are quickstart and test. The other one is emulated by
# qemu-user, where sanitizers and browsers do not run: quickstart and smoke.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
root=$(cd "$1" && pwd)/$2
architecture=$2
targets=("${@:3}")
. "$source/tools/debian.sh"
BINFMT=/proc/sys/fs/binfmt_misc

# The kernel hands programs of the other processor to qemu for as long as this script runs. These are the
# first 20 bytes of a 64-bit little-endian ELF file with its machine's number, and which bits of them
# count (the type, program or library, does not).
emulate() {
    local processor=$1 machine magic mask
    [ ! -e "$BINFMT/qemu-$processor" ] && [ ! -e "$BINFMT/weft-$processor" ] || return 0
    [ -e "$BINFMT/register" ] || mount -t binfmt_misc binfmt_misc "$BINFMT"
    case $processor in
    x86_64) machine='\x3e\x00' ;;
    aarch64) machine='\xb7\x00' ;;
    esac
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00'$machine
    mask='\xff\xff\xff\xff\xff\xfe\xfe\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    echo ":weft-$processor:M::$magic:$mask:/usr/bin/qemu-$processor-static:F" >"$BINFMT/register"
    trap 'echo -1 >"$BINFMT/weft-'"$processor"'"' EXIT
}

if [ "$architecture" != "$(dpkg --print-architecture)" ]; then
    read -r _ processor < <(other_processor)
    emulate "$processor"
    [ ${#targets[@]} -gt 0 ] || targets=(quickstart smoke)
fi
[ ${#targets[@]} -gt 0 ] || targets=(quickstart test)

[ -d "$root" ] || debian_into "$root" "$architecture" --variant=minbase --include="make git"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
rm -rf "$root/weft"
git clone -q "$source" "$root/weft"

# Mounts of a namespace end with it.
# shellcheck disable=SC2016  # the inner shell expands
unshare --mount --fork --pid --kill-child bash -c '
    root=$1 && shift
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"
    mount --bind /sys "$root/sys"
    chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
        bash -euc "cd /weft && for target in $*; do make \$target; done"
' bare "$root" "${targets[@]}"
