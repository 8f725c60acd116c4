#!/usr/bin/env bash
# The Containerfile's steps without a container's engine: each FROM is a Debian in a folder of its own, each RUN a
# command in it. The image's program then plans and serves, as its user. Needs root; knows the words that the file
# uses, and stops at others.
#
#   tools/container-check.sh FOLDER
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
. "$source/tools/debian.sh"

root=          # of the stage that is built
directory=/    # WORKDIR
user=root      # USER
entrypoint=    # ENTRYPOINT
stages=0

# from IMAGE [AS NAME]: the slim image is Debian's base without documents and manual pages.
from() {
    local options=()
    root=$folder/${3:-stage$stages}
    stages=$((stages + 1)) directory=/ user=root entrypoint=
    case $1 in
    debian:12) ;;
    debian:12-slim) options=(--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*') ;;
    *) echo "container-check: no way to make the image '$1'" >&2 && return 1 ;;
    esac
    rm -rf "$root"
    debian_into "$root" "$(dpkg --print-architecture)" --variant=minbase "${options[@]}"
}

# copy . TARGET: the tree, but for what .containerignore names.
copy() {
    local ignored=()
    while read -r line; do ignored+=("--exclude=./$line"); done <"$source/.containerignore"
    mkdir -p "$root$2"
    tar -C "$source" --anchored "${ignored[@]}" --owner=0 --group=0 -cf - "$1" | tar -C "$root$2" -xf -
}

as_user() { inside "$root" "cd $directory && runuser -u $user -- bash -euc $(printf %q "$1")"; }

mount_option() { tr , '\n' <<<"$mount" | sed -n "s/^$1=//p"; }

# run [--mount=type=bind,from=STAGE,source=FOLDER,target=FOLDER] COMMAND
run() {
    local command=$1 mount target=
    if [[ $command == --mount=* ]]; then
        mount=${command%% *} command=${command#* }
        target=$root$(mount_option target)
        cp -a "$folder/$(mount_option from)$(mount_option source)" "$target"
    fi
    as_user "$command"
    [ -z "$target" ] || rm -rf "$target"
}

step() {
    local word=$1 rest=$2
    echo "== $word $rest"
    # shellcheck disable=SC2086  # FROM and COPY take words
    case $word in
    FROM) from $rest ;;
    COPY) copy $rest ;;
    RUN) run "$rest" ;;
    WORKDIR) directory=$rest ;;
    USER) user=$rest ;;
    ENTRYPOINT) entrypoint=$(tr -d '[]",' <<<"$rest") ;;
    *) echo "container-check: '$word' is unknown here" >&2 && return 1 ;;
    esac
}

# Lines that end in a backslash go on; stages must not read the file that is read here.
while read -r word rest <&3; do step "$word" "$rest"; done \
    3< <(sed -e '/^#/d; /^$/d' -e ':more; /\\$/{N; s/ *\\\n */ /; b more}' "$source/Containerfile")

du -sh --exclude=./proc "$root" | cut -f 1 | sed 's/$/ in all/'
as_user "$entrypoint plan gpt3-13b dgx-a100:4 --global-batch 64 | sed -n '1p; /^iteration/p'"
as_user "(timeout 5 $entrypoint serve --port 0 || true) | head -n 1"
