#!/usr/bin/env bash
# Why is this plan slow? Where the time goes, and what another degree would change.
set -euo pipefail
weft simulate gpt3-13b dgx-a100:4 --tp 2 --pp 8 --global-batch 64 --recompute full
weft compare gpt3-13b dgx-a100:4 --global-batch 64 --recompute full --zero 1 --over tp=2,8 --over pp=1,2,4
