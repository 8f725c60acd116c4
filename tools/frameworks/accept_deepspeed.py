"""DeepSpeed's JSON: read by DeepSpeedConfig as on all the plan's ranks; on two ranks, trained for some steps.

    accept_deepspeed.py < list
"""
import json
import os

from each import each, on_ranks, pretend_devices

STEPS = 3
WIDTH = 64  # of the model that is trained


def ranks_it_counts(tree, devices):
    """DeepSpeedConfig counts all ranks; with stages, those of the replicas, which PipelineModule tells it."""
    return devices // tree.get("pipeline", {}).get("stages", 1)


def check(path, devices):
    with open(path, encoding="utf-8") as file:
        tree = json.load(file)
    if devices == 2:
        on_ranks(devices, train, tree)
        return
    pretend_devices(ranks_it_counts(tree, devices))
    import deepspeed.comm
    from deepspeed.runtime.config import DeepSpeedConfig

    deepspeed.comm.init_distributed(dist_backend="fake", dist_init_required=False)
    DeepSpeedConfig(path)


def a_step(engine, torch):
    x = torch.randn(engine.train_micro_batch_size_per_gpu(), WIDTH, dtype=next(engine.module.parameters()).dtype)
    loss = engine(x).float().square().mean()
    engine.backward(loss)
    engine.step()
    return loss.item()


def train(_, tree):
    import deepspeed
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))
    optimizer = None if "optimizer" in tree else torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), optimizer=optimizer,
                                      config=tree)
    for _ in range(STEPS * engine.gradient_accumulation_steps()):
        loss = a_step(engine, torch)
    if loss != loss:
        raise ArithmeticError("the loss is no number")


if __name__ == "__main__":
    os.environ["DS_ACCELERATOR"] = "cpu"
    each(check, "deepspeed", "torch.testing._internal.distributed.fake_pg")
