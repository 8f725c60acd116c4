#!/usr/bin/env bash
# Builds one x86-64 program with its libraries inside, checks what it needs at its start, and puts it beside its databases.
#
#   tools/portable.sh BUILD JOBS     into BUILD/portable; from another processor by a cross build in BUILD/cross
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
build=$1
jobs=$2
strip="strip"
readelf="readelf"
if [ "$(uname -m)" = x86_64 ]; then
    folder=$build
    make -C "$source" --no-print-directory "$build/build.ninja"
    ninja -C "$folder" -j "$jobs" weft-portable profiles
else
    folder=$build/cross
    strip=x86_64-linux-gnu-strip
    readelf=x86_64-linux-gnu-readelf
    "$source/tools/install-deps.sh" build cross
    "$source/tools/cross.sh" "$folder" "$jobs" --only weft-portable profiles
fi
mkdir -p "$build/portable/profiles"
"$strip" -o "$build/portable/weft" "$folder/weft-portable"
cp "$folder"/profiles/*.sqlite "$build/portable/profiles"
"$source/tests/checks/check-portable.py" "$readelf" "$build/portable/weft" libmpi.so.40 libopenblas.so.0
