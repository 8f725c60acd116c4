#!/usr/bin/env bash
# A model that Weft does not know: its options in a file, a preset of the family changed by --set.
set -euo pipefail
weft inspect gpt3-1.3b --set layers=32 --set hidden=2560 | sed -n '1,12p'
weft plan gpt3-1.3b dgx-a100:1 --set layers=32 --set hidden=2560 --global-batch 32 --quick --top 1 | sed -n '1,8p'
