#!/usr/bin/env bash
# What a newcomer sees first; `make quickstart` and the tests run it.
#
#   tools/quickstart.sh WEFT
set -euo pipefail
weft=$1

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

show "$weft" inspect gpt3-13b --depth 2
show "$weft" clusters dgx-v100:4 --model gpt3-13b

cat <<TEXT

Next:
  $weft plan gpt3-13b dgx-a100:4 --global-batch 64    the fastest plan that fits, and why
  $weft models                      every model it knows by name
  $weft clusters                    every cluster
  $weft inspect YOUR/config.json    a Hugging Face config, an ONNX file, or a YAML file of yours
  $weft clusters --this             the machine you are on
  $weft show gpt3-13b dgx-v100:4 --tp 8 --pp 2    what a plan puts on each device
  $weft simulate gpt3-13b dgx-v100:4 --tp 8 --pp 2    how long an iteration takes, and why
  $weft COMMAND --help              with an example; --json for programs
\`make install\` puts it on the PATH; README.md tells the rest.
TEXT
