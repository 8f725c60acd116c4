#!/usr/bin/env bash
# Debian packages of what is in this tree: FOLDER/ARCHITECTURE gets weft, weft-data, libweft0, libweft-dev and
# python3-weft.
#
#   tools/deb.sh FOLDER                  for this machine's processor, on this machine
#   tools/deb.sh FOLDER arm64|amd64      the other processor: cross-compiled in a Debian of its own; needs root
#
# The version is that of CMakeLists.txt, and the date that of the last commit; debian/changelog is written here.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
own=$(dpkg --print-architecture)
architecture=${2:-$own}
mkdir -p "$1/$architecture"
folder=$(cd "$1" && pwd)
out=$folder/$architecture
. "$source/tools/debian.sh"

version=$(sed -n 's/^project(weft VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
seconds=$(git -C "$source" log -1 --format=%ct 2>/dev/null || date +%s)

# What git knows or would, if it is there; without git, all but what was built.
list_files() {
    cd "$source"
    if git rev-parse 2>/dev/null; then
        git ls-files -co --exclude-standard
    else
        find . -path ./build -prune -o -type f -print
    fi | while read -r file; do [ ! -e "$file" ] || echo "$file"; done
}

# write_tree FOLDER: these files, and a changelog.
write_tree() {
    mkdir -p "$1"
    (list_files) | tar -C "$source" -cf - -T - | tar -C "$1" -xf -
    cat >"$1/debian/changelog" <<TEXT
weft ($version) unstable; urgency=medium

  * Release $version; /usr/share/doc/weft/CHANGELOG.md.gz says what changed.

 -- $(sed -n 's/^Maintainer: //p' "$source/debian/control")  $(date -R -u -d "@$seconds")
TEXT
}

build_here() {
    local work=$folder/work
    rm -rf "$work"
    write_tree "$work/weft-$version"
    (cd "$work/weft-$version" && DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage --build=binary --no-sign)
    mv "$work"/*.deb "$out"
    rm -rf "$work"
}

# Multiarch: compilers run on this processor, libraries are the other's, and the program that imports the databases
# is emulated.
build_across() {
    local root=$folder/cross-$architecture processor
    read -r _ processor < <(other_processor)
    emulate "$processor"
    [ -d "$root" ] || debian_into "$root" "$own,$architecture" --variant=minbase --include="build-essential \
        crossbuild-essential-$architecture"
    rm -rf "$root/build"
    write_tree "$root/build/weft-$version"
    inside "$root" "cd /build/weft-$version
        apt-get -qq update
        apt-get -qq -y --no-install-recommends build-dep -a $architecture ./ >/dev/null
        DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage --build=binary --no-sign --host-arch=$architecture"
    mv "$root"/build/*.deb "$out"
}

rm -f "$out"/*.deb
if [ "$architecture" = "$own" ]; then build_here; else build_across; fi
ls "$out"/*.deb
