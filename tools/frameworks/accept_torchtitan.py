"""torchtitan's configuration: read by its ConfigManager, its model found and parallelised without memory.

    accept_torchtitan.py FOLDER_WITH_TORCHTITAN < list
"""
import contextlib
import shutil
import sys
import tempfile
from unittest import mock

from each import each, pretend_devices


def check_toml(path, devices):
    """Up to 0.2."""
    import torch
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims
    from torchtitan.protocols.train_spec import get_train_spec

    config = ConfigManager().parse_args([f"--job.config_file={path}"])
    spec = get_train_spec(config.model.name)
    model_args = spec.model_args[config.model.flavor]
    model_args.update_from_config(config)
    how = config.parallelism
    pretend_devices(devices)
    dims = ParallelDims(dp_shard=how.data_parallel_shard_degree, dp_replicate=how.data_parallel_replicate_degree,
                        cp=how.context_parallel_degree, tp=how.tensor_parallel_degree,
                        pp=how.pipeline_parallel_degree, ep=how.expert_parallel_degree,
                        etp=how.expert_tensor_parallel_degree, world_size=devices)
    dims.build_mesh()
    replicas = dims.dp_replicate * dims.dp_shard
    samples = config.training.local_batch_size * replicas
    assert config.training.global_batch_size % samples == 0, f"global batch is no multiple of {samples}"
    with torch.device("meta"):
        model = spec.model_cls(model_args)
    if dims.pp > 1:
        if not spec.pipelining_fn:
            raise RuntimeError(f"{config.model.name} does not support pipelining")
        spec.pipelining_fn(model, dims, config, torch.device("cpu"), model_args, spec.parallelize_fn, None)
    else:
        spec.parallelize_fn(model, dims, config)


@contextlib.contextmanager
def on_an_h100():
    """8 bits are refused where no device has them."""
    import torch

    with mock.patch.object(torch.cuda, "is_available", lambda: True), \
            mock.patch.object(torch.cuda, "get_device_capability", lambda *_: (9, 0)):
        yield


def check_function(path, devices):
    """The main branch: a function in Python, named as on its command line."""
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims

    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, f"{folder}/weft_plan.py")
        sys.path.insert(0, folder)
        with on_an_h100():
            config = ConfigManager().parse_args(["--module", "weft_plan", "--config", "train"])
    pretend_devices(devices)
    ParallelDims.from_config(config.parallelism, devices).build_mesh()
    config.model_spec.model.update_from_config(config=config)


def check(path, devices):
    from torchtitan.distributed import parallel_dims

    parallel_dims.device_type = "cpu"
    (check_toml if path.endswith(".toml") else check_function)(path, devices)


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    each(check, "torchtitan.config", "torchtitan.train", "torch.testing._internal.distributed.fake_pg")
