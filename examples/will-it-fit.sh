#!/usr/bin/env bash
# Will full fine-tuning of Llama 3.1 8B fit on eight H100? Memory by what it is for, ZeRO stage by stage.
set -euo pipefail
weft compare llama3.1-8b dgx-h100:1 --global-batch 16 --seq 4096 --recompute full --over zero=1,2,3 || [ $? -eq 1 ]
