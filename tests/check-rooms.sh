#!/usr/bin/env bash
# A room includes only rooms above it, and of another room only its one public header. src/weft.c, the
# public face, stands over all of them.
set -euo pipefail
cd "$(dirname "$0")/.."

ROOMS=(base model cluster cost schedule plan compile sim search run report cli)

rank() {
    local i
    for i in "${!ROOMS[@]}"; do
        [ "${ROOMS[i]}" != "$1" ] || { echo "$i" && return; }
    done
    echo -1
}

failed=0
complain() {
    echo "$1" >&2
    failed=1
}

for folder in src/*/; do
    room=$(basename "$folder")
    [ "$(rank "$room")" -ge 0 ] || complain "$folder: not a room of the list in $0"
    [ -f "src/$room/$room.h" ] || complain "$folder: has no $room.h"
done

# Lines such as src/cost/cost.h:12:#include "cluster/cluster.h"
while IFS= read -r found; do
    place=${found%%:#*}
    room=${place#src/} && room=${room%%/*}
    header=${found#*\"} && header=${header%%\"*}
    other=${header%%/*}
    if [ "$header" = weft.h ] || [ "$header" = onnx.pb-c.h ]; then
        continue
    elif [ "$header" = "$other" ]; then
        complain "$place: write \"$room/$header\", from the root of src"
    elif [ "$(rank "$other")" -lt 0 ]; then
        complain "$place: \"$header\" is in no room"
    elif [ "$other" != "$room" ] && [ "$header" != "$other/$other.h" ]; then
        complain "$place: \"$header\" is private to $other; include \"$other/$other.h\""
    elif [ "$(rank "$other")" -gt "$(rank "$room")" ]; then
        complain "$place: $room stands above $other and may not include it"
    fi
done < <(grep -nE '^#include "' src/*/*.[ch])
exit $failed
