#!/usr/bin/env bash
# Which of three offers is cheapest: A100 at 1.30, H100 at 3.00 or H200 at 4.00 a device-hour, for 100 billion tokens?
set -euo pipefail
for offer in "dgx-a100:4 1.30" "dgx-h100:4 3.00" "dgx-h200:4 4.00"; do
    read -r cluster price <<<"$offer"
    echo "== $cluster at $price"
    weft days llama3.1-8b "$cluster" --zero 1 --recompute full --seq 8192 --global-batch 128 --tokens 100e9 --price "$price" --trials 0 |
        grep -E "effective|money"
done
