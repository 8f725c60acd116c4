#!/usr/bin/env python3
"""Trains llama3.2-1b on dgx-h100 with PyTorch, as planned by weft.

Predicted by: weft simulate llama3.2-1b dgx-h100 --dp 4 --tp 2 --sp --micro-batch 1 --global-batch 64 --zero 3 --recompute full --policy fsdp --software dtensor-script --overlap gradients,parameters

On each node:

    torchrun --nnodes 1 --nproc-per-node 8 THIS --steps 100
"""
import argparse
import math
import os
import sys
import time

PLAN = {
    "layers": 16,
    "hidden": 2048,
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 64,
    "ffn": 8192,
    "seq": 8192,
    "vocab": 128256,
    "positions": 0,
    "rotary": True,
    "rope_base": 500000,
    "rope_scaling": 32,
    "rope_type": "llama3",
    "rope_learned": 4096,
    "rms_norm": True,
    "norm_epsilon": 1e-05,
    "gate": "silu",
    "qk_norm": False,
    "end_norm": False,
    "qkv_apart": False,
    "gate_apart": False,
    "bias": False,
    "qkv_bias": False,
    "tied": True,
    "dropout": False,
    "experts": 0,
    "devices": 8,
    "dp": 4,
    "tp": 2,
    "sp": True,
    "optimizer": "AdamW",
    "momentum": 0,
    "micro_batch": 1,
    "global_batch": 64,
    "zero": 3,
    "recompute": True,
    "dtype": "bf16",
    "reduce_dtype": "fp32",
}

# The same for every plan: weights, micro-batches, and the loop over them. torch is imported when training starts, so that
# --help and --dry-run work without it.
MESH = {}  # by name, once the devices are known


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20, help="iterations to train")
    parser.add_argument("--lr", type=float, default=1e-4, help="learning rate")
    parser.add_argument("--clip", type=float, default=1.0, help="norm of gradients at most, 0: any")
    parser.add_argument("--data", help="token ids as 32-bit integers; without it they are random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="cpu: processes of this machine, connected by gloo")
    parser.add_argument("--placements", action="store_true", help="print how each weight lies")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, train nothing")
    return parser.parse_args()


def fill(torch, model):
    """Weights of products are drawn, those of norms 1, biases 0: the same on any number of devices."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    torch.manual_seed(0)
    for name, weight in model.named_parameters():
        usual = 0.0 if name.endswith("bias") else 1.0
        whole = torch.empty(weight.shape).normal_(std=0.02) if weight.dim() > 1 else torch.full(weight.shape, usual)
        whole = whole.to(weight.device)
        with torch.no_grad():
            if isinstance(weight, DTensor):
                whole = distribute_tensor(whole, weight.device_mesh, weight.placements)
            weight.copy_(whole)


def batches(torch, args, device, replica):
    """All replicas draw the same micro-batches and take turns: any number of them trains on the same ones."""
    size = (PLAN["micro_batch"], PLAN["seq"] + 1)
    numbers = torch.Generator().manual_seed(args.seed)
    ids = torch.from_file(args.data, size=os.path.getsize(args.data) // 4, dtype=torch.int32) if args.data else None
    turn = 0
    while True:
        if ids is None:
            rows = torch.randint(PLAN["vocab"], size, generator=numbers)
        else:
            first = torch.randint(len(ids) - size[1], (size[0], 1), generator=numbers)
            rows = ids[first + torch.arange(size[1])].long()
        if turn % PLAN["dp"] == replica:
            yield rows.to(device)
        turn += 1


def clip(model, limit):
    """Weights lie on meshes of their own, so that torch's function does not add up their norms."""
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    norms = [gradient.norm().full_tensor().item() for gradient in gradients]
    norm = math.sqrt(sum(n * n for n in norms))
    for gradient in gradients if norm > limit else []:
        gradient.mul_(limit / norm)


def train(args):
    import torch
    import torch.distributed as dist

    local = int(os.environ["LOCAL_RANK"])
    if args.device == "cuda":
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    if dist.get_world_size() != PLAN["devices"]:
        sys.exit(f"the plan is for {PLAN['devices']} devices, not {dist.get_world_size()}")
    device = torch.device(args.device, local) if args.device == "cuda" else torch.device("cpu")
    model = distribute(torch, args, device)
    if args.placements and dist.get_rank() == 0:
        for name, weight in model.named_parameters():
            print(f"{name}: {tuple(weight.shape)} {weight.placements} over {weight.device_mesh.mesh_dim_names}")
    optimizer = make_optimizer(torch, model, args, foreach=False)
    data, passes = batches(torch, args, device, replica(dist.get_rank())), accumulation_steps()
    for step in range(args.steps):
        began = time.perf_counter()
        loss = torch.tensor(one_step(torch, model, data, passes), device=device)
        finish_gradients(torch, model)
        if args.clip:
            clip(model, args.clip)
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(loss)
        if dist.get_rank() == 0:
            taken = time.perf_counter() - began
            print(f"step {step}: loss {loss.item() / dist.get_world_size():.4f}, {taken:.3f} s", flush=True)
    dist.destroy_process_group()


# Weights are cut by torch.distributed.tensor.parallel, replicas are FSDP2's.


def make_model(torch):
    from torch import nn
    from torch.nn import functional as F

    def linear(inner, outer, bias):
        return nn.Linear(inner, outer, bias=PLAN[bias])

    def norm(width):
        return (nn.RMSNorm if PLAN["rms_norm"] else nn.LayerNorm)(width, eps=PLAN["norm_epsilon"])

    def rotate(x, rotary):
        cos, sin = rotary
        a, b = x.chunk(2, dim=-1)
        return (x * cos + torch.cat((-b, a), dim=-1) * sin).to(x.dtype)

    class Attention(nn.Module):
        """Every device has as many heads as its parts of q, k and v are wide."""

        def __init__(self):
            super().__init__()
            hidden, depth = PLAN["hidden"], PLAN["head_dim"]
            self.q = linear(hidden, PLAN["heads"] * depth, "qkv_bias")
            self.k = linear(hidden, PLAN["kv_heads"] * depth, "qkv_bias")
            self.v = linear(hidden, PLAN["kv_heads"] * depth, "qkv_bias")
            self.proj = linear(PLAN["heads"] * depth, hidden, "bias")
            if PLAN["qk_norm"]:
                self.q_norm, self.k_norm = norm(depth), norm(depth)

        def forward(self, x, rotary):
            q, k, v = (t.unflatten(-1, (-1, PLAN["head_dim"])).transpose(1, 2)
                       for t in (self.q(x), self.k(x), self.v(x)))
            if PLAN["qk_norm"]:
                q, k = self.q_norm(q), self.k_norm(k)
            if rotary is not None:
                q, k = rotate(q, rotary), rotate(k, rotary)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                               enable_gqa=PLAN["heads"] != PLAN["kv_heads"])
            return self.proj(y.transpose(1, 2).flatten(2))

    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = linear(PLAN["hidden"], PLAN["ffn"], "bias")
            self.gate = linear(PLAN["hidden"], PLAN["ffn"], "bias") if PLAN["gate"] else None
            self.down = linear(PLAN["ffn"], PLAN["hidden"], "bias")

        def forward(self, x):
            if self.gate is None:
                return self.down(F.gelu(self.up(x)))
            gate = self.gate(x)
            gate = F.silu(gate) if PLAN["gate"] == "silu" else F.gelu(gate, approximate="tanh")
            return self.down(gate * self.up(x))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.attention = norm(PLAN["hidden"]), Attention()
            self.norm2, self.mlp = norm(PLAN["hidden"]), MLP()
            self.dropout = nn.Dropout(0.1 if PLAN["dropout"] else 0.0)

        def forward(self, x, rotary=None):
            x = x + self.dropout(self.attention(self.norm1(x), rotary))
            return x + self.dropout(self.mlp(self.norm2(x)))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(PLAN["vocab"], PLAN["hidden"])
            if PLAN["positions"]:
                self.positions = nn.Embedding(PLAN["positions"], PLAN["hidden"])
            self.layers = nn.ModuleList(Layer() for _ in range(PLAN["layers"]))
            self.norm = norm(PLAN["hidden"])
            self.head = nn.Linear(PLAN["hidden"], PLAN["vocab"], bias=False)

        def forward(self, ids):
            """With sequence parallelism the embedding leaves each device its part of the positions."""
            x = self.embedding(ids)
            if PLAN["positions"]:
                first = tensor_rank() * x.shape[1] if PLAN["sp"] else 0
                x = x + self.positions(torch.arange(first, first + x.shape[1], device=ids.device))
            rotary = angles(torch, ids.shape[1], ids.device) if PLAN["rotary"] else None
            for layer in self.layers:
                x = layer(x, rotary)
            return self.head(self.norm(x))

    return Decoder()


def tensor_rank():
    return MESH["tp"].get_local_rank()


def replica(rank):
    return rank // PLAN["tp"]


def split_weights(model, mesh):
    """Weights become DTensors: Shard(0) is Megatron's column, Shard(1) its row."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel,
                                                   SequenceParallel, parallelize_module)

    between = Shard(1) if PLAN["sp"] else Replicate()  # activations between products
    column, row = ColwiseParallel(), RowwiseParallel(output_layouts=between)
    whole = PrepareModuleInput(input_layouts=(between, None), desired_input_layouts=(Replicate(), None))
    alone = PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(Replicate(),))
    styles = {"attention": whole, "attention.q": column, "attention.k": column, "attention.v": column,
              "attention.proj": row, "mlp": alone, "mlp.up": column, "mlp.down": row}
    if PLAN["gate"]:
        styles["mlp.gate"] = column
    if PLAN["sp"]:
        styles.update({"norm1": SequenceParallel(use_local_output=True),
                       "norm2": SequenceParallel(use_local_output=True)})
    for layer in model.layers:
        parallelize_module(layer, mesh, styles)
    outer = {"embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
             "head": ColwiseParallel(input_layouts=between, output_layouts=Shard(-1),
                                     use_local_output=False)}
    if PLAN["sp"]:
        outer["norm"] = SequenceParallel(use_local_output=True)
    parallelize_module(model, mesh, outer)


def distribute(torch, args, device):
    """Tensor parallelism first, then replicas: ZeRO-3 frees weights after the forward pass, ZeRO-2
    keeps them; without sharding each device has a share of one, and gradients are all-reduced."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    shares = PLAN["dp"] if PLAN["zero"] else 1
    mesh = init_device_mesh(args.device, (PLAN["dp"] // shares, shares, PLAN["tp"]),
                            mesh_dim_names=("copies", "shares", "tp"))
    MESH["tp"] = mesh["tp"]
    model = make_model(torch).to(device)
    split_weights(model, mesh["tp"])
    if PLAN["tied"]:
        model.head.weight = model.embedding.weight
    fill(torch, model)
    if PLAN["recompute"]:
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        for i, layer in enumerate(model.layers):
            model.layers[i] = checkpoint_wrapper(layer)
    how = {"mesh": mesh["copies", "shares"],
           "mp_policy": MixedPrecisionPolicy(param_dtype=type_of(torch, "dtype"),
                                             reduce_dtype=type_of(torch, "reduce_dtype")),
           "reshard_after_forward": PLAN["zero"] == 3}
    for layer in model.layers:
        fully_shard(layer, **how)
    fully_shard(model, **how)
    return model


def finish_gradients(torch, model):
    """With sequence parallelism each device has the gradient of its positions alone."""
    import torch.distributed as dist

    if PLAN["positions"] and PLAN["sp"] and PLAN["tp"] > 1:
        gradient = model.positions.weight.grad
        gradient = gradient.to_local() if hasattr(gradient, "to_local") else gradient
        dist.all_reduce(gradient, group=MESH["tp"].get_group())


def one_step(torch, model, data, passes):
    from torch.distributed.tensor import Replicate, distribute_tensor
    from torch.distributed.tensor.parallel import loss_parallel
    from torch.nn import functional as F

    total = 0.0
    for k in range(passes):
        model.set_requires_gradient_sync(k == passes - 1 or PLAN["zero"] == 3)
        ids = next(data)
        with loss_parallel():
            logits = model(ids[:, :-1])
            labels = distribute_tensor(ids[:, 1:].contiguous(), MESH["tp"], [Replicate()])
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
            (loss / passes).backward()
        total += loss.full_tensor().item() / passes
    return total


# Rotary positions, the plan's numbers as the script takes them, and where it begins.


def angles(torch, seq, device):
    """Cosines and sines of every pair of a head at every position."""
    depth = PLAN["head_dim"]
    rate, size = stretched(torch, 1.0 / PLAN["rope_base"] ** (torch.arange(0, depth, 2, device=device) / depth))
    turn = torch.outer(torch.arange(seq, device=device), rate)
    turn = torch.cat((turn, turn), dim=-1)
    return size * turn.cos(), size * turn.sin()


def stretched(torch, rate):
    """Rates at which more positions are reached than were learned, and by how much what is turned grows."""
    factor, kind = PLAN["rope_scaling"], PLAN["rope_type"]
    if not factor:
        return rate, 1
    if kind == "linear":
        return rate / factor, 1
    if kind == "llama3":  # slow pairs turn slower, those in between by a share
        share = ((8192 * rate / (2 * math.pi) - 1) / 3).clamp(0, 1)
        return rate * (share + (1 - share) / factor), 1
    share = yarn_share(torch, len(rate)).to(rate.device)
    return rate * (share + (1 - share) / factor), 0.1 * math.log(factor) + 1


def yarn_share(torch, pairs):
    """From 1 where a pair turns 32 times in the positions that were learned, to 0 where it turns once."""
    low, high = (pairs * math.log(PLAN["rope_learned"] / (turns * 2 * math.pi)) / math.log(PLAN["rope_base"])
                 for turns in (32, 1))
    if PLAN["rope_type"] == "yarn":
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * pairs - 1)
    return 1 - ((torch.arange(pairs) - low) / max(high - low, 0.001)).clamp(0, 1)


def accumulation_steps():
    step = PLAN["micro_batch"] * PLAN["dp"]
    if PLAN["global_batch"] % step:
        sys.exit(f"the global batch of {PLAN['global_batch']} is no multiple of {step}")
    return PLAN["global_batch"] // step


def type_of(torch, key):
    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[PLAN[key]]


def make_optimizer(torch, model, args, **how):
    """SGD has momentum or none; of the others, AdamW alone makes weights smaller by themselves."""
    name = PLAN["optimizer"]
    numbers = ({"momentum": PLAN["momentum"]} if name == "SGD" else
               {"betas": (0.9, 0.95), "weight_decay": 0.1 if name == "AdamW" else 0.0})
    return getattr(torch.optim, name)(model.parameters(), lr=args.lr, **numbers, **how)


def main():
    args = arguments()
    steps = accumulation_steps()
    if args.dry_run:
        for key, value in PLAN.items():
            print(f"{key}: {value}")
        print(f"accumulation_steps: {steps}")
        return
    train(args)


if __name__ == "__main__":
    main()
