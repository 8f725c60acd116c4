#!/usr/bin/env bash
# What the shells offer: every command, every option, preset names. fish and zsh where they are.
#
#   check-completions.sh WEFT
set -euo pipefail
folder=$(cd "$(dirname "$0")/../../completions" && pwd)
PATH=$(cd "$(dirname "$1")" && pwd):$PATH

# Each shell gets the words of a command line, the last one unfinished, and prints what it offers.
offers_bash() {
    # shellcheck source=/dev/null
    source "$folder/weft.bash"
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _weft
    printf '%s\n' "${COMPREPLY[@]}"
}
offers_fish() {
    fish --no-config -c "source $folder/weft.fish; complete -C '$*'" | cut -f1
}

expect() {
    local shell=$1 word=$2
    shift 2
    local offers
    offers=$("offers_$shell" "$@")
    grep -qxe "$word" <<<"$offers" && return
    echo "$shell: no $word for: $*" >&2
    exit 1
}

shells=(bash)
! command -v fish >/dev/null || shells+=(fish)
! command -v zsh >/dev/null || zsh -n "$folder/_weft"

for shell in "${shells[@]}"; do
    for command in $(weft --help | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
        expect "$shell" "$command" weft "${command:0:1}"
        for option in $(weft "$command" --help | sed -nE 's/^ +(-[a-z], +)?(--[a-z-]+).*/\2/p'); do
            expect "$shell" "$option" weft "$command" "${option:0:3}"
        done
    done
    expect "$shell" gpt3-13b weft inspect gpt3-1
    expect "$shell" dgx-v100 weft clusters dgx-v
    expect "$shell" gpt3-13b weft clusters dgx-v100:4 --model gpt3-1
    expect "$shell" gpt3-13b weft simulate gpt3-1
    expect "$shell" dgx-v100 weft simulate gpt3-13b dgx-v
    expect "$shell" vtrain_multi weft validate vtrain_
    expect "$shell" held-out weft validate --half h
    expect "$shell" gradients weft check gpt3-13b dgx-v100 --overlap g
    for planner in $(weft plan --names); do
        expect "$shell" "$planner" weft plan gpt3-13b dgx-v100 --planner "${planner:0:1}"
    done
    for target in $(weft export --names); do
        expect "$shell" "$target" weft export gpt3-13b dgx-v100 --to "${target:0:1}"
    done
    for source in $(weft import --names); do
        expect "$shell" "$source" weft import args.sh dgx-v100 --from "${source:0:1}"
    done
    expect "$shell" bmw weft plan gpt3-13b dgx-v100 --space b
    expect "$shell" optimizer weft train --allow-change o
    expect "$shell" bf16 weft inspect gpt3-13b --dtype b
done
