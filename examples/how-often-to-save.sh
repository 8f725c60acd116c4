#!/usr/bin/env bash
# How often should a run on 1,024 H100 save, and what does saving in the background gain?
set -euo pipefail
for saving in sync async memory; do
    echo "== $saving"
    weft days llama3.1-70b dgx-h100:128 --tp 8 --pp 4 --sp --zero 1 --recompute full --seq 8192 --global-batch 1024 \
        --tokens 15e12 --storage 50GB/s --saving $saving --trials 0 | grep -E "effective|every|stands"
done
