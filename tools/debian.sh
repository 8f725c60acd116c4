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
