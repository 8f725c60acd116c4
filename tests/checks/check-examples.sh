#!/usr/bin/env bash
# Every script of examples/ runs, says something, and is in the list of its page.
#
#   check-examples.sh WEFT
set -euo pipefail
folder=$(cd "$(dirname "$0")/../../examples" && pwd)
PATH=$(cd "$(dirname "$1")" && pwd):$PATH

for script in "$folder"/*.sh; do
    name=$(basename "$script")
    answer=$("$script" 2>&1) || { echo "$name fails: $answer" >&2; exit 1; }
    [ -n "$answer" ] || { echo "$name says nothing" >&2; exit 1; }
    grep -q "($name)" "$folder/README.md" || { echo "$name is not in examples/README.md" >&2; exit 1; }
    echo "$name: $(wc -l <<<"$answer") lines"
done
