"""Megatron-LM's pretrain_vlm.py: its own arguments, and its model, built on no device.

    megatron_images.py SOURCE_TREE < list       says how many parameters each model has

Transformer Engine is not needed: Megatron-LM's own layers stand in for it, with the norm that a LayerNormLinear has before
its product.
"""
import importlib
import os
import pathlib
import sys
import typing

LIST = pathlib.Path(__file__).resolve().parents[2] / "src/target/releases/megatron-vlm.txt"
PROGRAM = "pretrain_vlm.py"


def is_for(path):
    with open(path, encoding="utf-8") as file:
        return PROGRAM in file.read()


def extra_arguments(tree):
    """Those of the program; a package without it has the list of them."""
    if os.path.exists(os.path.join(tree, PROGRAM)):
        return importlib.import_module("pretrain_vlm").add_vlm_extra_args

    def add(parser):
        for row in LIST.read_text().splitlines():
            name, kind = row.split()
            parser.add_argument(name, **({"action": "store_true"} if kind == "switch" else {"type": int}))
        return parser
    return add


def pretend_transformer_engine():
    import torch
    from megatron.core.extensions import transformer_engine as te
    from megatron.core.models.backends import LocalSpecProvider
    from megatron.core.models.gpt import gpt_layer_specs
    from megatron.core.models.multimodal import llava_model, llava_spec
    from megatron.core.models.vision import clip_vit_model, vit_layer_specs
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
    from megatron.core.transformer.dot_product_attention import DotProductAttention
    from megatron.core.transformer.torch_norm import WrappedTorchNorm

    class NormedProduct(ColumnParallelLinear):
        def __init__(self, inputs, outputs, *, config, **words):
            words.pop("tp_comm_buffer_name", None)
            super().__init__(inputs, outputs, config=config, **words)
            self.layer_norm_weight = torch.nn.Parameter(torch.empty(inputs))
            if config.normalization == "LayerNorm":
                self.layer_norm_bias = torch.nn.Parameter(torch.empty(inputs))

    class Product(RowParallelLinear):
        def __init__(self, *sizes, **words):
            words.pop("tp_comm_buffer_name", None)
            super().__init__(*sizes, **words)

    class Provider(LocalSpecProvider):
        def fuse_layernorm_and_linear(self):
            return True

        def column_parallel_layer_norm_linear(self):
            return NormedProduct

        def row_parallel_linear(self):
            return Product

    names = {"TELayerNormColumnParallelLinear": NormedProduct, "TERowParallelLinear": Product,
             "TEDotProductAttention": DotProductAttention, "TENorm": WrappedTorchNorm}
    for module in (te, llava_model, llava_spec, vit_layer_specs):
        vars(module).update(names, HAVE_TE=True)
    gpt_layer_specs.TESpecProvider = Provider
    init = clip_vit_model.CLIPViTModel.__init__
    init.__defaults__ = tuple(WrappedTorchNorm if value in (torch.nn.LayerNorm, clip_vit_model.NORM_IMPL) else value
                              for value in init.__defaults__)
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor


def parameters(args):
    """Of the model that pretrain_vlm.py builds on the first of its ranks."""
    import torch
    import pretrain_vlm

    pretend_transformer_engine()
    args.use_cpu_initialization = True
    args.no_persist_layer_norm = True
    args.perform_initialization = args.gradient_accumulation_fusion = args.sequence_parallel = False
    with torch.device("meta"):
        model = pretrain_vlm.model_provider()
    return sum(parameter.numel() for parameter in model.parameters())


def count(path, devices):
    import accept_megatron

    args = accept_megatron.check(path, devices)
    raise RuntimeError(f"{parameters(args):,} parameters")


if __name__ == "__main__":
    from each import each

    sys.path.insert(0, sys.argv[1])
    if not hasattr(typing, "override"):
        typing.override = lambda method: method  # a mark of Python 3.12 that does nothing
    each(count, "megatron.training.training", "torch.testing._internal.distributed.fake_pg")
