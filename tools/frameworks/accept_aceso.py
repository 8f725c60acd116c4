"""Aceso's JSON: read by its runtime's arguments, which must use every key but the size's name.

    accept_aceso.py SOURCE_TREE < list

Its packages load kernels on import, so that only the file that reads the JSON is.
"""
import importlib.util
import json
import os
import pathlib
import sys

from each import each

# What its launch script gives beside the file (runtime/scripts): a run, and what no file says.
LAUNCH = ["--train-iters", "3", "--lr", "1e-4", "--fp16", "--DDP-impl", "local"]
ONLY_SEARCHED = {"model_size", "weft"}  # read by its search, and by Weft


class Read(dict):
    """Remembers which of its keys were asked for."""

    asked = set()

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)


def runtime(root):
    path = pathlib.Path(root) / "runtime/megatron/arguments.py"
    spec = importlib.util.spec_from_file_location("aceso_arguments", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(path, devices):
    arguments = runtime(sys.argv[1])
    with open(path, encoding="utf-8") as file:
        tree = Read(json.load(file))
    arguments.json.load = lambda _: tree
    os.environ.update(RANK="0", WORLD_SIZE=str(devices))
    sys.argv = ["pretrain_gpt.py", "--flexpipe-config", path, *LAUNCH]
    args = arguments.parse_args()
    for key in ("model_parallel_size_of_each_op", "data_parallel_size_of_each_op", "recompute_ops", "algo_of_each_op"):
        counted = [len(stage) for stage in getattr(args, key)]
        assert counted == args.num_ops_in_each_stage, f"{key} has {counted} operators, not {args.num_ops_in_each_stage}"
    unread = set(tree) - tree.asked - ONLY_SEARCHED
    if unread:
        raise KeyError(f"{', '.join(sorted(unread))}: it reads no such key")


if __name__ == "__main__":
    each(check)
