#!/usr/bin/env bash
# Why is my run slow? Its log beside the prediction, what would explain the difference, and where the predicted time goes.
set -euo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cat >"$log" <<'END'
 [2026-10-01 12:00:10] iteration  1/ 100 | consumed samples:  64 | elapsed time per iteration (ms): 9120.4 |
 [2026-10-01 12:00:13] iteration  2/ 100 | consumed samples: 128 | elapsed time per iteration (ms): 4131.0 |
 [2026-10-01 12:00:16] iteration  3/ 100 | consumed samples: 192 | elapsed time per iteration (ms): 4102.6 |
 [2026-10-01 12:00:19] iteration  4/ 100 | consumed samples: 256 | elapsed time per iteration (ms): 4105.1 |
END
plan=(gpt3-13b dgx-a100:4 --tp 2 --pp 8 --global-batch 64 --recompute full)
weft compare "${plan[@]}" --measured "$log"
weft simulate "${plan[@]}"
