"""The scripts for FSDP2 and DTensor: run for some steps on CPUs, with gloo in place of NCCL; a larger plan is run dry.

    accept_fsdp.py < list
"""
import contextlib
import io
import os
import sys

from each import each, on_ranks

STEPS = 3
MOST_RANKS = 2
ON_CPUS = {'"cuda", local': '"cpu"', '"cuda"': '"cpu"', '"nccl"': '"gloo"'}  # the script asks for these by name


def run(path, *arguments):
    """The script as a program; what it prints."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for asked, given in ON_CPUS.items():
        text = text.replace(asked, given)
    sys.argv = [path, *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(text, path, "exec"), {"__name__": "__main__", "__doc__": ""})
    return said.getvalue()


def check_positions(path):
    """The script's angles against those of transformers, where positions are stretched."""
    import torch
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    torch.set_num_threads(1)  # before ranks are forked, which would wait for its threads
    with open(path, encoding="utf-8") as file:
        script = {"__name__": "script", "__doc__": ""}
        exec(compile(file.read(), path, "exec"), script)
    plan = script["PLAN"]
    if not plan["rope_scaling"]:
        return
    learned = 8192 if plan["rope_type"] == "llama3" else plan["rope_learned"]
    scaling = {"rope_type": plan["rope_type"].removesuffix("-unrounded"), "factor": plan["rope_scaling"],
               "original_max_position_embeddings": learned, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "truncate": not plan["rope_type"].endswith("-unrounded")}
    config = LlamaConfig(head_dim=plan["head_dim"], rope_theta=plan["rope_base"], rope_scaling=scaling)
    rate, size = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu")
    cosines, _ = script["angles"](torch, 100, "cpu")
    expected = size * torch.outer(torch.arange(100), torch.cat((rate, rate))).cos()
    if not torch.allclose(cosines, expected, atol=1e-4):
        raise ArithmeticError(f"positions differ from those of transformers by {(cosines - expected).abs().max():.2g}")


def rank(index, path):
    import torch

    torch.cuda.set_device = torch.cuda.synchronize = lambda *_: None
    torch.cuda.max_memory_allocated = lambda *_: 0
    said = run(path, "--steps", str(STEPS))
    if index == 0 and f"step {STEPS - 1}:" not in said:
        raise RuntimeError(f"no step {STEPS - 1}: {said}")


def check(path, devices):
    check_positions(path)
    if devices > MOST_RANKS:
        run(path, "--dry-run")
    else:
        on_ranks(devices, rank, path)


if __name__ == "__main__":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    each(check, "torch.distributed.fsdp", "torch.multiprocessing")
