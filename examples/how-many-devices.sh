#!/usr/bin/env bash
# How many devices finish 300 billion tokens of GPT-3 13B within 40 days?
set -euo pipefail
weft plan gpt3-13b dgx-a100 --global-batch 512 --max-devices 256 --deadline 40d --tokens 300e9 --quick --top 1
