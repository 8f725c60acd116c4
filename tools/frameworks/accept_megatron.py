"""Megatron-LM's arguments: parsed, validated, made a configuration, groups, layers of parts and numbers of samples.

    accept_megatron.py SOURCE_TREE < list
"""
import os
import re
import subprocess
import sys
import typing

import megatron_images
from each import each, pretend_devices, pretended_architecture

# What a user adds who has no data at hand.
TRAINING = ["--mock-data", "--tokenizer-type", "NullTokenizer", "--train-iters", "20", "--lr", "1e-4"]
TRANSFORMER_ENGINE = "2.10.0"
CAPABILITY = {"turing": 7, "volta": 7, "ampere": 8, "hopper": 9, "blackwell": 10, "blackwell-rtx": 12}
SHOW = 'printf "%s\\0" "$@"'


def words_of(path):
    """The words that Megatron's script is started with; a batch script is run with srun in our place, and with words of
    its user where it has no data of its own."""
    words = []
    if path.endswith(".sbatch"):
        with open(path, encoding="utf-8") as file:
            words = TRAINING if "name data" in file.read() else []
        shell = ('srun() { while [ "${1%.py}" = "$1" ]; do shift; done; shift; ' + SHOW + '; }; '
                 'scontrol() { echo here; }; SLURM_JOB_ID=1 SLURM_CPUS_PER_TASK=1 SLURM_JOB_NODELIST=here MEGATRON_DIR=.; . "$0"')
    else:
        shell = '. "$0"; set -- "${MEGATRON_ARGS[@]}"; ' + SHOW
    out = subprocess.run(["bash", "-c", shell, path, *words], capture_output=True, text=True, check=True).stdout
    return out.split("\0")[:-1]


def pretend_a_device():
    """With Transformer Engine, which asks for a compiler of CUDA to be installed, and the kernels for chosen keys."""
    import megatron.core.utils
    import torch
    from megatron.core.models.common.embeddings import rope_utils
    from packaging.version import Version

    megatron.core.utils.get_te_version = lambda: Version(TRANSFORMER_ENGINE)
    megatron.core.utils._missing_cudnn_dsa_kernel_dependencies = list
    rope_utils.fused_apply_rotary_pos_emb = rope_utils.fused_apply_rotary_pos_emb_thd = print
    major = CAPABILITY.get(pretended_architecture(), 9)
    torch.cuda.get_device_capability = lambda *_: (major, 0)
    torch.cuda.get_device_properties = lambda *_: type("Device", (), {"major": major, "minor": 0})()
    torch.cuda.current_device = lambda: 0
    torch.cuda.is_available = lambda: True


def environment(path, devices):
    with open(path, encoding="utf-8") as file:
        asked = re.findall(r"\b([A-Z][A-Z0-9_]+)=(\d+)", file.read())
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(devices))
    os.environ.update(asked)


def parsed(path, words):
    from megatron.training import arguments, global_vars

    tree, sys.argv = sys.path[0], ["pretrain_gpt.py", *words]
    args = arguments.parse_args(megatron_images.extra_arguments(tree) if megatron_images.is_for(path) else None)
    arguments.validate_args(args)
    global_vars.set_args(args)
    return args


def groups(args):
    from megatron.core import parallel_state

    parallel_state.initialize_model_parallel(
        args.tensor_model_parallel_size, args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size,
        context_parallel_size=args.context_parallel_size, expert_model_parallel_size=args.expert_model_parallel_size,
        expert_tensor_parallel_size=args.expert_tensor_parallel_size, create_gloo_process_groups=False)


def layers_by_pattern(args):
    """Every part of a pattern with bars has layers that HybridModel builds."""
    from megatron.core.models.hybrid.hybrid_layer_allocation import parse_hybrid_pattern, validate_segment_layers

    parts = parse_hybrid_pattern(args.hybrid_layer_pattern).main_pattern.split("|")
    dealt = sum(len(validate_segment_layers(part)) for part in parts)
    pieces = args.virtual_pipeline_model_parallel_size or 1
    assert len(parts) == args.pipeline_model_parallel_size * pieces, f"{len(parts)} parts"
    assert dealt == args.num_layers, f"{dealt} of {args.num_layers} layers are in some part"


def layers_of_parts(args, config):
    """Every piece of every stage has its layers, and all have all; a layout was checked with the configuration."""
    from megatron.core.transformer.transformer_block import get_num_layers_to_build

    if args.pipeline_model_parallel_layout:
        return
    if getattr(args, "hybrid_layer_pattern", None):
        layers_by_pattern(args)
        return
    pieces = args.virtual_pipeline_model_parallel_size
    layers = config.num_layers = args.decoder_num_layers or args.num_layers
    dealt = sum(get_num_layers_to_build(config, vp_stage=piece, pp_rank=stage)
                for piece in (range(pieces) if pieces else [None])
                for stage in range(args.pipeline_model_parallel_size))
    assert dealt == layers, f"{dealt} of {layers} layers are in some part"


def check(path, devices):
    environment(path, devices)
    pretend_a_device()
    words = words_of(path)
    args = parsed(path, words if path.endswith(".sbatch") else words + TRAINING)

    from megatron.core.num_microbatches_calculator import init_num_microbatches_calculator
    from megatron.training.arguments import core_transformer_config_from_args
    from megatron.training.training import get_train_valid_test_num_samples

    config = core_transformer_config_from_args(args)
    init_num_microbatches_calculator(0, None, args.global_batch_size, args.micro_batch_size,
                                     args.data_parallel_size, False)
    get_train_valid_test_num_samples()
    pretend_devices(devices)
    groups(args)
    layers_of_parts(args, config)
    return args


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    if not hasattr(typing, "override"):
        typing.override = lambda method: method  # a mark of Python 3.12 that does nothing
    each(check, "megatron.training.training", "torch.testing._internal.distributed.fake_pg")
