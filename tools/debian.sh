# debian.sh - for scripts to source: another Debian from this machine's own archives.
# shellcheck shell=bash

# debian_into TARGET ARCHITECTURE OPTION...: mmdebstrap with the release, the sources and the ways to reach
# them that apt has here. TARGET is there whole or not at all.
debian_into() {
    local target=$1 architecture=$2 file sources=() acquire
    shift 2
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
        [ ! -s "$file" ] || sources+=("$file")
    done
    acquire=$(mktemp)
    apt-config dump | grep '^Acquire::' >"$acquire" || true
    rm -rf "$target.new"
    mmdebstrap --quiet --architectures="$architecture" --aptopt="$acquire" "$@" \
        "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$target.new" "${sources[@]}"
    rm "$acquire"
    mv "$target.new" "$target"
}

# The other of arm64 and x86-64, as Debian, Linux and qemu name it.
other_processor() {
    case $(dpkg --print-architecture) in
    arm64) echo "amd64 x86_64" ;;
    amd64) echo "arm64 aarch64" ;;
    *) echo "this processor is neither arm64 nor x86-64 (amd64)" >&2 && return 1 ;;
    esac
}

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

# inside ROOT COMMAND: in the Debian of that folder, with its own /proc and this machine's network. Mounts of a
# namespace end with it.
inside() {
    cp /etc/resolv.conf /etc/hosts "$1/etc/"
    # shellcheck disable=SC2016  # the inner shell expands
    unshare --mount --fork --pid --kill-child bash -c '
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev" && mount --make-rslave "$1/dev"
        mount --bind /sys "$1/sys"
        chroot "$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
            DEBIAN_FRONTEND=noninteractive bash -euc "$2"
    ' inside "$1" "$2"
}
