#!/usr/bin/env bash
# How do I calibrate Weft to my cluster? Six runs that were measured there give a cluster file, which every command takes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/runs.csv" <<'END'
model,cluster,gpus,tp,pp,micro batch,global batch,time (s)
gpt3-13b,dgx-a100,32,8,1,1,64,3.01
gpt3-13b,dgx-a100,32,4,2,1,64,2.47
gpt3-13b,dgx-a100,32,2,4,1,64,2.50
gpt3-13b,dgx-a100,64,8,1,1,64,1.69
gpt3-6.7b,dgx-a100,16,4,1,1,64,2.75
gpt3-6.7b,dgx-a100,16,2,2,1,64,2.54
END
weft fit --runs "$folder/runs.csv" -o "$folder/mine.yaml"
cd "$folder"
weft compare gpt3-13b dgx-a100:4 --global-batch 64 --tp 4 --pp 2 --over cluster=dgx-a100:4,mine.yaml:4
