#!/usr/bin/env python3
"""Trains the decoder of an exported script with stages and with context parallelism, by what PyTorch has for them.

    weft export gpt2 hgx-h200:1x2 --global-batch 8 --to dtensor -o train.py
    torchrun --nproc-per-node 2 tools/torch_ranks.py train.py --pp 2 --schedule 1f1b

The script of `weft export --to dtensor` has tp and replicas only; its model, sizes and FSDP2 are taken as they are, and some of
its replicas become stages (torch.distributed.pipelining), parts of sequences (context_parallel) or copies of shared state
(HSDP). As torchtitan does: weights are shared by the devices of cp, too; outputs of the last stage are not collected.
"""
import argparse
import contextlib
import importlib.util
import os
import sys

SCHEDULES = {"gpipe": "ScheduleGPipe", "1f1b": "Schedule1F1B", "interleaved": "ScheduleInterleaved1F1B",
             "zb-h1": "ScheduleInterleavedZeroBubble", "zb-v": "ScheduleZBVZeroBubble"}


HERE = {}  # places: which positions of a sequence this device has


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", help="made by `weft export --to dtensor`, with replicas in place of the degrees below")
    parser.add_argument("--pp", type=int, default=1)
    parser.add_argument("--virtual", type=int, default=1)
    parser.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    parser.add_argument("--cp", type=int, default=1)
    parser.add_argument("--cp-kind", choices=("ring", "gather"), default="ring")
    parser.add_argument("--replicate", type=int, default=1, help="copies of state that is shared inside of each")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    return parser.parse_args()


def load(path):
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_part(torch, script, part, parts):
    """One of the consecutive parts of a decoder: the first has the embedding, the last the norm and the head."""
    plan = script.PLAN

    class Part(torch.nn.Module):
        def __init__(self):
            super().__init__()
            whole = script.make_model(torch)
            first, last = (plan["layers"] * i // parts for i in (part, part + 1))
            self.layers, self.angles = whole.layers[first:last], whole.angles
            if part == 0:
                self.embedding = whole.embedding
                if plan["positions"]:
                    self.positions = whole.positions
            if part == parts - 1:
                self.norm, self.head = whole.norm, whole.head

        def forward(self, x):
            places = HERE["places"]
            if part == 0:
                x = self.embedding(x)
                if plan["positions"]:
                    shares = plan["tp"] if plan["sp"] else 1
                    x = x + self.positions(places.chunk(shares)[script.tensor_rank() if shares > 1 else 0])
            rotary = None
            if plan["rotary"]:
                rotary = tuple(turn[places] for turn in self.angles(plan["seq"], places.device))
            for layer in self.layers:
                x = layer(x, rotary)
            return self.head(self.norm(x)) if part == parts - 1 else x

    made = Part()
    made.angles = made.angles.__func__.__get__(made)  # holds no whole model
    return made


def parts_of(rank, args):
    """Parts lie in turn on all stages, with zb-v forth and back."""
    if args.schedule == "zb-v":
        return [rank, 2 * args.pp - 1 - rank]
    return [rank + args.pp * i for i in range(args.virtual)]


def shard(torch, script, model, meshes):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    plan = script.PLAN
    if plan["recompute"]:
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        for i, layer in enumerate(model.layers):
            model.layers[i] = checkpoint_wrapper(layer)
    how = {"mesh": meshes["state"],
           "mp_policy": MixedPrecisionPolicy(param_dtype=script.type_of(torch, "dtype"),
                                             reduce_dtype=script.type_of(torch, "reduce_dtype")),
           "reshard_after_forward": plan["zero"] == 3}
    for layer in model.layers:
        fully_shard(layer, **how)
    return fully_shard(model, **how)


def make_meshes(script, args):
    """From the outermost: stages, copies of state, shares of it, and among these parts of sequences; tp."""
    from torch.distributed.device_mesh import init_device_mesh

    plan = script.PLAN
    plan["dp"] //= args.pp * args.cp
    copies = args.replicate if plan["zero"] else plan["dp"] * args.cp
    state = (copies, plan["dp"] * args.cp // copies)
    by_state = init_device_mesh(args.device, (args.pp, *state, plan["tp"]), mesh_dim_names=("pp", "copies", "shares", "tp"))
    by_data = init_device_mesh(args.device, (args.pp, plan["dp"], args.cp, plan["tp"]), mesh_dim_names=("pp", "dp", "cp", "tp"))
    script.MESH["tp"] = by_state["tp"]
    return {"state": by_state["copies", "shares"], "pp": by_data["pp"], "dp": by_data["dp"], "cp": by_data["cp"],
            "tp": by_data["tp"]}


def make_model(torch, script, part, args, meshes, device):
    model = make_part(torch, script, part, args.pp * args.virtual).to(device)
    if script.PLAN["tp"] > 1:
        script.split_weights(model, meshes["tp"])
    script.fill(torch, model)
    return shard(torch, script, model, meshes)


def loss_of(torch, script):
    from torch.nn import functional as F

    def loss(logits, labels):
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
    return loss


def make_schedule(torch, script, args, meshes, parts, models, passes, device):
    from torch.distributed import pipelining

    plan, kind = script.PLAN, script.type_of(torch, "dtype")
    seq = plan["seq"] // args.cp
    here = seq // plan["tp"] if plan["sp"] else seq
    between = torch.empty(plan["micro_batch"], here, plan["hidden"], dtype=kind, device="meta")
    ids = torch.empty(plan["micro_batch"], seq, dtype=torch.long, device="meta")
    logits = torch.empty(plan["micro_batch"], seq, plan["vocab"], dtype=kind, device="meta")
    last = args.pp * args.virtual - 1
    stages = [pipelining.PipelineStage(model, part, last + 1, device, input_args=ids if part == 0 else between,
                                       output_args=logits if part == last else between, group=meshes["pp"].get_group())
              for part, model in zip(parts, models)]
    single = args.schedule in ("gpipe", "1f1b")
    return getattr(pipelining.schedules, SCHEDULES[args.schedule])(stages[0] if single else stages, passes,
                                                                   loss_fn=loss_of(torch, script))


def in_parts(args, meshes, tensors, dims):
    if args.cp == 1:
        return contextlib.nullcontext()
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import set_rotate_method

    set_rotate_method("alltoall" if args.cp_kind == "ring" else "allgather")
    return context_parallel(meshes["cp"], buffers=tensors, buffer_seq_dims=dims, no_restore_buffers=set(tensors))


def staged_step(schedule, args, rank, ids, labels):
    losses = []
    first, last = rank == 0, rank == args.pp - 1 if args.schedule != "zb-v" else rank == 0
    schedule.step(*([ids] if first else []), target=labels if last else None,
                  losses=losses if last else None, return_outputs=False)
    return sum(loss.item() for loss in losses) / len(losses) if losses else 0.0


def plain_step(torch, script, model, ids, labels, passes):
    total, loss = 0.0, loss_of(torch, script)
    for k, (x, y) in enumerate(zip(ids.chunk(passes), labels.chunk(passes))):
        model.set_requires_gradient_sync(k == passes - 1 or script.PLAN["zero"] == 3)
        this = loss(model(x), y) / passes
        this.backward()
        total += (this.full_tensor() if hasattr(this, "full_tensor") else this).item()
    return total


def samples(torch, script, seed, replica, passes, device):
    numbers = torch.Generator().manual_seed(seed)
    plan = script.PLAN
    rows = torch.randint(plan["vocab"], (plan["global_batch"], plan["seq"] + 1), generator=numbers)
    each = plan["micro_batch"] * passes
    mine = rows[replica * each:(replica + 1) * each].to(device)
    return mine[:, :-1].contiguous(), mine[:, 1:].contiguous(), torch.arange(plan["seq"], device=device)


def train(args):
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor.parallel import loss_parallel

    script = load(args.script)
    if script.PLAN["tied"]:
        sys.exit("stages have no weights in common: export with --set tied=false")
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if args.device == "cuda" else torch.device("cpu")
    if args.device == "cuda":
        torch.cuda.set_device(device)
    meshes = make_meshes(script, args)
    passes, rank = script.accumulation_steps(), meshes["pp"].get_local_rank()
    parts = parts_of(rank, args)
    models = [make_model(torch, script, part, args, meshes, device) for part in parts]
    optimizer = torch.optim.AdamW([w for model in models for w in model.parameters()], lr=args.lr, foreach=False)
    schedule = make_schedule(torch, script, args, meshes, parts, models, passes, device) if args.pp > 1 else None
    for step in range(args.steps):
        ids, labels, places = samples(torch, script, args.seed, meshes["dp"].get_local_rank(), passes, device)
        split = loss_parallel() if script.PLAN["tp"] > 1 else contextlib.nullcontext()
        with in_parts(args, meshes, [ids, labels, places], [1, 1, 0]), split:
            HERE["places"] = places
            loss = (staged_step(schedule, args, rank, ids, labels) if schedule else
                    plain_step(torch, script, models[0], ids, labels, passes))
        optimizer.step()
        optimizer.zero_grad()
        total = torch.tensor([loss, float(loss > 0)], device=device)
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"step {step}: loss {total[0].item() / total[1].item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(train(arguments()))
