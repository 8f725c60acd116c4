#!/usr/bin/env bash
# How do I plan a model that Weft does not know? A file says what it is, here a mixture of 24 experts; a config.json of the
# Hugging Face hub does the same.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cat >"$folder/mine.yaml" <<'END'
name: mine
family: moe
options: {layers: 20, hidden: 2048, heads: 16, kv_heads: 4, experts: 24, top_k: 4, expert_ffn: 1408, vocab: 64000}
END
cd "$folder"
weft inspect mine.yaml | sed -n '1,12p'
weft plan mine.yaml dgx-a100:1 --global-batch 32 --quick --top 1 | sed -n '1,8p'
