#!/usr/bin/env bash
# Are exported files taken by the frameworks they are for? Installs pinned releases from the Python package index,
# exports the plans of tests/data/export/cases.txt and tests/data/frameworks/plans.txt, and has each framework's own
# parser and configuration classes read them; scripts and small plans are run for some steps on CPUs. Weights go from
# transformers to `weft train` and back (weights.py).
#
#   tools/test-frameworks.sh WEFT FOLDER [--against RELEASE=SOURCE_TREE]...
#
# What the index lacks is read from a source tree: megatron-0.16.1, torchtitan-main, galvatron-2.4.0, galvatron-3.0,
# aceso-2024 (microsoft/SuperScaler, branch Aceso).
# FOLDER is kept, so that a second run installs nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")/frameworks" && pwd)
weft=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 2
trees=()
while [ $# -gt 0 ]; do
    if [ "$1" != --against ] || [ $# -lt 2 ]; then
        echo "expected --against RELEASE=SOURCE_TREE, not $1" >&2
        exit 2
    fi
    trees+=("$2")
    shift 2
done

# A release in a folder of its own: several of one framework do not go into one environment. Its compiled helpers
# may be for another Python; they are not used.
apart() {
    [ -d "$folder/$1" ] || "$folder/venv/bin/pip" install --quiet --no-deps --only-binary=:all: \
        --ignore-requires-python --python-version "$3" --target "$folder/$1" "$2"
}

# An environment with that PyTorch and, but for DeepSpeed where it says so, everything that the frameworks import.
environment() {
    [ ! -e "$folder/$1/installed" ] || return 0
    python3 -m venv "$folder/$1"
    sed "s/^torch==.*/torch==$2/; /^$3==/d" "$here/requirements.txt" >"$folder/$1/requirements.txt"
    "$folder/$1/bin/pip" install --quiet --requirement "$folder/$1/requirements.txt"
    touch "$folder/$1/installed"
}

environment venv 2.10.0 none
case " ${trees[*]} " in
*" torchtitan-main="*) environment newer 2.14.1 deepspeed ;; # several GB: it brings CUDA's libraries along
esac
apart torchtitan-0.2.2 torchtitan==0.2.2 3.11
apart megatron-0.19.2 megatron-core==0.19.2 3.12

"$folder/venv/bin/python" -B "$here/weights.py" "$weft" "$folder/weights"
exec python3 -B "$here/accept.py" "$weft" "$folder" "${trees[@]}"
