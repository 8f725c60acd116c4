"""torchtitan's configuration for llama3-8b on dgx-h100, written by weft for its main branch.

Predicted by: weft simulate llama3-8b dgx-h100 --set lora=8 --set lora_modules=all --set loss=compiled --dp 4 --tp 2 --sp --micro-batch 1 --global-batch 64 --zero 3 --dtype fp8 --policy fsdp --software torchtitan-2025 --overlap pipeline,gradients,parameters

On each node, in a checkout of torchtitan where this file is weft_plan.py:

    torchrun --nnodes 1 --nproc-per-node 8 -m torchtitan.train \\
        --module weft_plan --config train
"""
from torchtitan.components.data import ConcatThenSplitPackingConfig
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.lora import LoRAConverter
from torchtitan.components.quantization import Float8LinearConverter
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.hf_datasets.text_datasets import DATASETS
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.config_registry import llama3_8b


def train():
    config = llama3_8b()
    converters = [
        Float8LinearConverter.Config(filter_fqns=["lm_head"], model_compile_enabled=True),
        LoRAConverter.Config(rank=8, alpha=16, target_modules=["wqkv", "wo", "w1", "w2", "w3"]),
    ]
    config.model_spec = model_registry("8B", converters=converters)
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
    config.training.num_tokens_per_microbatch_per_dp_rank = 8192
    config.training.num_tokens_per_train_step = 524288
    config.training.max_context_length = 8192
    config.training.disable_cuda_graphs = True
    config.training.steps = 1000
    config.training.mixed_precision_param = "bfloat16"
    config.training.mixed_precision_reduce = "float32"
    config.parallelism.data_parallel_replicate_degree = 1
    config.parallelism.data_parallel_shard_degree = 4
    config.parallelism.fsdp_reshard_after_forward = "always"
    config.parallelism.tensor_parallel_degree = 2
    config.parallelism.enable_sequence_parallel = True
    config.parallelism.context_parallel_degree = 1
    config.parallelism.expert_parallel_degree = 1
    config.parallelism.pipeline_parallel_degree = 1
    config.compile.enable = True
    config.compile.components = ["model", "loss"]
    config.compile.enable_async_tensor_parallel = False
    config.activation_checkpoint = None
    return config
