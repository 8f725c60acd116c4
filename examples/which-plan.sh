#!/usr/bin/env bash
# Which plan for Llama 3.1 70B on 64 H100 under Megatron-LM? The answer, and the arguments that start it.
set -euo pipefail
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
weft plan llama3.1-70b dgx-h100:8 --global-batch 128 --seq 8192 --for megatron --quick --to megatron -o "$out/args.sh" --top 3
grep parallel "$out/args.sh"
