#!/usr/bin/env bash
# Builds Weft for the other of arm64 and x86-64, with warnings as errors, and runs quickstart and a
# smoke set of tests under qemu-user: what differs between the processors shows on either.
#
#   tools/cross.sh FOLDER [JOBS]     everything is built in FOLDER; its sysroot is made once
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
jobs=${2:-$(nproc)}

# Bytes, numbers and files of models, plans and tensors, an event simulation, kernels: what a processor
# may change, and quick enough to be emulated. Of random cases few, for emulation is slow.
SMOKE=(test_base test_doc test_import test_import_onnx test_plan_file test_schedule test_engine
    test_kernels test_blas test_safetensors test_vocabulary test_data test_inspect)
PACKAGES=(libc6-dev libjansson-dev libyaml-dev libsqlite3-dev libxxhash-dev libhwloc-dev libexpat1-dev
    libprotobuf-c-dev libcmocka-dev libopenblas-openmp-dev libopenmpi-dev)

case $(dpkg --print-architecture) in
arm64) architecture=amd64 processor=x86_64 ;;
amd64) architecture=arm64 processor=aarch64 ;;
*) echo "cross: this processor is neither arm64 nor x86-64 (amd64)" >&2 && exit 1 ;;
esac
triplet=$processor-linux-gnu
libraries=usr/lib/$triplet
sysroot=$folder/sysroot-$architecture

# The other processor's packages, unpacked but not configured: from this machine's own archives.
make_sysroot() {
    local new=$sysroot.new sources=()
    rm -rf "$new" "$sysroot"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
        [ ! -s "$file" ] || sources+=("$file")
    done
    apt-config dump | grep '^Acquire::' >"$folder/acquire.conf"
    mmdebstrap --quiet --variant=extract --architectures="$architecture" \
        --aptopt="$folder/acquire.conf" --include="${PACKAGES[*]}" \
        "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$new" "${sources[@]}"
    # No package has chosen among alternatives, and links to / lead out of the sysroot.
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
ninja -C "$folder" -j "$jobs" weft profiles "${SMOKE[@]}"
WEFT_TEST_PERCENT=2 ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$jobs" \
    -R "^($(IFS='|' && echo "${SMOKE[*]}")|quickstart)\$"
