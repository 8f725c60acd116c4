"""torchtitan's configuration for deepseek-v3 on dgx-h100:32, written by weft for its main branch.

Predicted by: weft simulate deepseek-v3 dgx-h100:32 --dp 8 --tp 2 --sp --pp 16 --ep 8 --etp 1 --micro-batch 1 --global-batch 512 --zero 1 --recompute full --policy fsdp --software torchtitan-2025 --overlap pipeline,gradients,parameters

On each node, in a checkout of torchtitan where this file is weft_plan.py:

    torchrun --nnodes 32 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint FIRST_NODE:29500 -m torchtitan.train \\
        --module weft_plan --config train
"""
from torchtitan.components.data import ConcatThenSplitPackingConfig
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.hf_datasets.text_datasets import DATASETS
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.deepseek_v3 import model_registry
from torchtitan.models.deepseek_v3.config_registry import deepseek_v3_16b


def train():
    config = deepseek_v3_16b()
    config.model_spec = model_registry("671B")
    vocabulary = decoder_vocab_size(config.model_spec)
    config.loss = CrossEntropyLoss.Config(global_vocab_size=vocabulary)
    # A trial's tokenizer and data: name your own.
    config.hf_assets_path = "./tests/assets/tokenizer"
    dataset = ConcatThenSplitPackingConfig(dataset=DATASETS["c4_test"])
    config.dataloader.dataset = dataset
    config.profiler.enable_profiling = False
    config.validator.enable = False
    config.lr_scheduler.warmup_steps = 200
    config.metrics.log_freq = 1
    config.training.num_tokens_per_microbatch_per_dp_rank = 4096
    config.training.num_tokens_per_train_step = 2097152
    config.training.max_context_length = 4096
    config.training.disable_cuda_graphs = True
    config.training.steps = 1000
    config.training.mixed_precision_param = "bfloat16"
    config.training.mixed_precision_reduce = "float32"
    config.parallelism.data_parallel_replicate_degree = 1
    config.parallelism.data_parallel_shard_degree = 8
    config.parallelism.fsdp_reshard_after_forward = "never"
    config.parallelism.tensor_parallel_degree = 2
    config.parallelism.enable_sequence_parallel = True
    config.parallelism.context_parallel_degree = 1
    config.parallelism.expert_parallel_degree = 8
    config.parallelism.pipeline_parallel_degree = 16
    config.parallelism.pipeline_parallel_schedule = "1F1B"
    config.parallelism.num_pp_microbatches = 64
    config.parallelism.module_fqns_per_model_part = [
        ["tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3"],
        ["layers.4", "layers.5", "layers.6", "layers.7"],
        ["layers.8", "layers.9", "layers.10", "layers.11"],
        ["layers.12", "layers.13", "layers.14", "layers.15"],
        ["layers.16", "layers.17", "layers.18", "layers.19"],
        ["layers.20", "layers.21", "layers.22", "layers.23"],
        ["layers.24", "layers.25", "layers.26", "layers.27"],
        ["layers.28", "layers.29", "layers.30", "layers.31"],
        ["layers.32", "layers.33", "layers.34", "layers.35"],
        ["layers.36", "layers.37", "layers.38", "layers.39"],
        ["layers.40", "layers.41", "layers.42", "layers.43"],
        ["layers.44", "layers.45", "layers.46"],
        ["layers.47", "layers.48", "layers.49", "layers.50"],
        ["layers.51", "layers.52", "layers.53"],
        ["layers.54", "layers.55", "layers.56", "layers.57"],
        ["layers.58", "layers.59", "layers.60", "norm", "lm_head"],
    ]
    config.compile.enable = False
    config.compile.enable_async_tensor_parallel = False
    config.activation_checkpoint = FullAC.Config()
    return config


# weft: software=torchtitan-2025
