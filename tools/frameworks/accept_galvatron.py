"""Galvatron's JSON: read by its runtime, which must use every key.

    accept_galvatron.py SOURCE_TREE < list

Its packages load kernels on import, so that only the files that read the JSON are.
"""
import importlib
import json
import pathlib
import sys
import types

from each import each, pretend_devices


class Read(dict):
    """Remembers which of its keys were asked for."""

    def __init__(self, *args):
        super().__init__(*args)
        self.asked = set()

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)


def package(name, folder):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [str(folder)]


def load(root):
    for name in ("galvatron", "galvatron.utils", "galvatron.core", "galvatron.core.runtime"):
        package(name, root / name.replace(".", "/"))
    sys.modules["scipy"] = sys.modules["scipy.optimize"] = types.ModuleType("scipy.optimize")
    sys.modules["scipy"].curve_fit = None  # for profiles
    utils = importlib.import_module("galvatron.utils.config_utils")
    vars(sys.modules["galvatron.utils"]).update(vars(utils))
    return importlib.import_module("galvatron.core.runtime.hybrid_parallel_config")


def arguments(tree, layers):
    """What it asks of its command line, which the file decides: anything else would be an error here."""
    same = types.SimpleNamespace(local_rank=1, galvatron_config_path=tree, chunks=0, global_batch_size=0,
                                 global_train_batch_size=0, pipeline_type="", default_dp_type="", embed_sdp=0,
                                 vocab_sdp=0, distributed_checkpoint=False, num_layers=layers, is_moe_model=False)
    same.parallel = same.model = same.train = same.ckpt = same
    return same


def check(path, devices):
    with open(path, encoding="utf-8") as file:
        tree = Read(json.load(file))
    layers = tree["tp_sizes_enc"].count(",") + 1
    runtime, args = load(pathlib.Path(sys.argv[1])), arguments(tree, layers)
    pretend_devices(devices)
    counted = types.SimpleNamespace(layernums=lambda: [layers])
    needs = runtime.get_hybrid_parallel_configs_api.__code__.co_argcount
    configs = runtime.get_hybrid_parallel_configs_api(*([None, args, lambda *_: counted] if needs == 3 else [args]))
    runtime.check_hp_config(configs, [layers])
    unread = set(tree) - tree.asked - {"weft"}
    if unread:
        raise KeyError(f"{', '.join(sorted(unread))}: it reads no such key")


if __name__ == "__main__":
    each(check)
