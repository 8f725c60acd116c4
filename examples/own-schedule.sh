#!/usr/bin/env bash
# How do I write a schedule of my own, and is it right? An order of work per stage: proved, drawn and held against others.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/mine.yaml" <<'END'
order: # weight gradients (W) wait until the pipeline drains
  - F0 F1 F2 F3 I0 I1 W0 I2 W1 I3 W2 W3
  - F0 I0 F1 I1 F2 I2 F3 I3 W0 W1 W2 W3
END
cd "$folder"
plan=(gpt3-1.3b dgx-a100:1 --tp 4 --pp 2 --global-batch 4)
weft check "${plan[@]}" --schedule mine.yaml
weft compare "${plan[@]}" --over schedule=1f1b,zb-h1,mine.yaml
sed -i 's/F3 I3 W0/I3 F3 W0/' mine.yaml # a backward pass before its forward pass
! weft check "${plan[@]}" --schedule mine.yaml || exit 1
