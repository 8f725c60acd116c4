#!/usr/bin/env bash
# Builds Weft for the other of arm64 and x86-64, with warnings as errors, and runs quickstart and a
# smoke set of tests under qemu-user: what differs between the processors shows on either.
#
#   tools/cross.sh FOLDER JOBS TEST...     everything is built in FOLDER; its sysroot is made once
#   tools/cross.sh FOLDER JOBS --only TARGET...     builds these alone
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
jobs=$2
tests=("${@:3}")
. "$source/tools/debian.sh"

PACKAGES=(libc6-dev libjansson-dev libyaml-dev libsqlite3-dev libxxhash-dev libhwloc-dev libexpat1-dev
    libprotobuf-c-dev libmicrohttpd-dev libcmocka-dev libopenblas-openmp-dev libopenmpi-dev)

read -r architecture processor < <(other_processor)
triplet=$processor-linux-gnu
libraries=usr/lib/$triplet
sysroot=$folder/sysroot-$architecture

# The other processor's packages, unpacked but not configured: no package has chosen among alternatives,
# and links to / lead out of the sysroot.
make_sysroot() {
    local new=$sysroot.raw
    rm -rf "$new"
    debian_into "$new" "$architecture" --variant=extract --include="${PACKAGES[*]}"
    ln -s openblas-openmp/libopenblas.so.0 "$new/$libraries"
    find "$new" -path "$new/dev" -prune -o -type l -lname '/*' -printf '%p %l\n' |
        while read -r link target; do ln -sfrT "$new$target" "$link"; done
    mv "$new" "$sysroot"
}

write_toolchain() {
    cat <<TEXT
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $processor)
set(CMAKE_SYSROOT $sysroot)
set(CMAKE_C_COMPILER $triplet-gcc)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-$processor-static -L $sysroot)
set(ENV{PKG_CONFIG_SYSROOT_DIR} $sysroot)
set(ENV{PKG_CONFIG_LIBDIR}
  $sysroot/$libraries/pkgconfig:$sysroot/$libraries/openblas-openmp/pkgconfig)
set(MPI_SKIP_COMPILER_WRAPPER ON)
set(MPI_C_LIB_NAMES mpi)
set(MPI_mpi_LIBRARY $sysroot/$libraries/libmpi.so.40)
set(MPI_C_HEADER_DIR $sysroot/$libraries/openmpi/include)
TEXT
}

[ -d "$sysroot" ] || make_sysroot
if [ ! -f "$folder/build.ninja" ]; then
    write_toolchain >"$folder/toolchain.cmake"
    cmake -S "$source" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_TOOLCHAIN_FILE="$folder/toolchain.cmake"
fi
if [ "${tests[0]-}" = --only ]; then
    ninja -C "$folder" -j "$jobs" "${tests[@]:1}"
    exit
fi
ninja -C "$folder" -j "$jobs" weft profiles "${tests[@]}"
ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$jobs" \
    -R "^($(IFS='|' && echo "${tests[*]}")|quickstart)\$"
