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


def rank(index, path):
    import torch

    torch.cuda.set_device = torch.cuda.synchronize = lambda *_: None
    torch.cuda.max_memory_allocated = lambda *_: 0
    said = run(path, "--steps", str(STEPS))
    if index == 0 and f"step {STEPS - 1}:" not in said:
        raise RuntimeError(f"no step {STEPS - 1}: {said}")


def check(path, devices):
    if devices > MOST_RANKS:
        run(path, "--dry-run")
    else:
        on_ranks(devices, rank, path)


if __name__ == "__main__":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    each(check, "torch.distributed.fsdp", "torch.multiprocessing")
