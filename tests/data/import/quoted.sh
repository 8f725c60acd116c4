#!/bin/bash
# Words in quotes, variables that split and that do not, continued lines and comments.
SIZES="--num-layers 4 --hidden-size 1024"
HEADS='--num-attention-heads 16'
LENGTH=1024
# shellcheck disable=SC2086  # variables that split
torchrun --nproc_per_node 8 pretrain_gpt.py $SIZES ${HEADS} \
  --seq-length "$LENGTH" --max-position-embeddings '1024' \
  --micro-batch-size 2 --global-batch-size "64" --tensor-model-parallel-size 2 \
  --pipeline-model-parallel-size "2" --bf16 --vocab-size 50304 --data-path "my data # not a comment" # a comment
