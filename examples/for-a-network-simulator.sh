#!/usr/bin/env bash
# The traffic of a plan, for a network simulator: traces of MLCommons Chakra.
set -euo pipefail
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
weft export gpt3-350m dgx-a100:1 --tp 2 --pp 2 --zero 1 --global-batch 16 --to chakra -o "$out/traces" --json
ls "$out/traces"
