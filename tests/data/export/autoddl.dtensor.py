#!/usr/bin/env python3
"""Trains gpt3-6.7b on dgx-a100:4 with PyTorch, as planned by weft.

Predicted by: weft simulate PLAN, the plan that was exported

On each node:

    torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint FIRST_NODE:29500 THIS --steps 100
"""
import argparse
import math
import os
import sys
import time

PLAN = {
    "layers": 32,
    "hidden": 4096,
    "heads": 32,
    "kv_heads": 32,
    "head_dim": 128,
    "ffn": 16384,
    "seq": 2048,
    "vocab": 51200,
    "positions": 2048,
    "rotary": False,
    "rope_base": 0,
    "rope_scaling": 0,
    "rope_type": "",
    "rope_learned": 0,
    "rms_norm": False,
    "norm_epsilon": 1e-05,
    "gate": "",
    "qk_norm": False,
    "end_norm": False,
    "qkv_apart": False,
    "gate_apart": False,
    "bias": True,
    "qkv_bias": True,
    "tied": True,
    "dropout": True,
    "experts": 0,
    "devices": 32,
    "dp": 1,
    "mesh": [8, 2, 2],
    "splits": {
        "embedding": "batch vocab vocab",
        "layers.0-31.attn.norm": "batch batch seq",
        "layers.0-31.attn.qkv": "batch out out",
        "layers.0-31.attn.attention": "batch head head",
        "layers.0-31.attn.proj": "batch batch seq",
        "layers.0-31.attn.dropout_add": "batch batch seq",
        "layers.0-31.mlp.norm": "batch batch seq",
        "layers.0-31.mlp.up": "batch out out",
        "layers.0-31.mlp.gelu": "batch hidden hidden",
        "layers.0-31.mlp.down": "batch in in",
        "layers.0-31.mlp.dropout_add": "batch batch seq",
        "norm": "batch batch seq",
        "head": "batch out out",
        "loss": "batch vocab vocab",
    },
    "optimizer": "AdamW",
    "momentum": 0,
    "micro_batch": 16,
    "global_batch": 16,
    "recomputed": [],
    "dtype": "fp32",
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


# Every operator has a split of its own: the devices are a mesh, and SPLITS says which dim of the operator each axis of
# the mesh splits. Operands are brought into that layout as DTensors, and each device computes with its parts.


def splits_by_name():
    """What is said of "layers.0-3.mlp.up" holds for each of these layers."""
    named = {}
    for path, dims in PLAN["splits"].items():
        words = path.split(".")
        first, _, last = words[1].partition("-") if words[0] == "layers" else ("0", "", "")
        for layer in range(int(first), int(last or first) + 1):
            name = ".".join(["layers", str(layer), *words[2:]]) if words[0] == "layers" else path
            named[name] = dims.split()
    return named


SPLITS = splits_by_name()


def first_of(*names):
    """The one of these operators that the model has."""
    return next(name for name in names if name in SPLITS)


def placements(dims, axes, otherwise):
    """How a tensor lies whose axes are called so, where each axis of the mesh splits one of `dims`."""
    from torch.distributed.tensor import Replicate, Shard

    return [Shard(axes.index(dim)) if dim in axes else Replicate() if dim == "copy" else otherwise() for dim in dims]


def part_of(torch, tensor, dims, axes):
    """A device's part of an operand. Devices that split a dim which the operand lacks have all of it, and parts of its
    gradient's sum."""
    from torch.distributed.tensor import Partial, Replicate

    laid = tensor.redistribute(placements=placements(dims, axes, Replicate))
    part = laid.to_local(grad_placements=placements(dims, axes, Partial))
    return part.to(type_of(torch, "dtype")) if part.is_floating_point() else part


def run(torch, name, compute, operands, axes):
    """One operator. Devices that split a dim which its result lacks have parts of a sum."""
    from torch.distributed.tensor import DTensor, Partial

    dims = SPLITS[name]
    parts = [part_of(torch, tensor, dims, names) for tensor, names in operands]
    return DTensor.from_local(compute(*parts), MESH["all"], placements(dims, axes, Partial), run_check=False)


def position(name, dim):
    """Which part of a dim this device has."""
    place = 0
    for axis, split in enumerate(SPLITS[name]):
        if split == dim:
            place = place * MESH["all"].size(axis) + MESH["all"].get_local_rank(axis)
    return place


def everywhere(torch, tensor):
    from torch.distributed.tensor import DTensor, Replicate

    return DTensor.from_local(tensor, MESH["all"], [Replicate()] * MESH["all"].ndim, run_check=False)


# ---- weights ----


def make_model(torch):
    from torch import nn

    hidden, ffn, depth = PLAN["hidden"], PLAN["ffn"], PLAN["head_dim"]

    def linear(inner, outer, bias):
        return nn.Linear(inner, outer, bias=PLAN[bias])

    def norm(width):
        return (nn.RMSNorm if PLAN["rms_norm"] else nn.LayerNorm)(width, eps=PLAN["norm_epsilon"])

    def layer():
        wide, narrow = PLAN["heads"] * depth, PLAN["kv_heads"] * depth
        attention = {"q": linear(hidden, wide, "qkv_bias"), "k": linear(hidden, narrow, "qkv_bias"),
                     "v": linear(hidden, narrow, "qkv_bias"), "proj": linear(wide, hidden, "bias")}
        if PLAN["qk_norm"]:
            attention.update({"q_norm": norm(depth), "k_norm": norm(depth)})
        mlp = {"up": linear(hidden, ffn, "bias")}
        if PLAN["gate"]:
            mlp["gate"] = linear(hidden, ffn, "bias")
        mlp["down"] = linear(ffn, hidden, "bias")
        return nn.ModuleDict({"norm1": norm(hidden), "attention": nn.ModuleDict(attention),
                              "norm2": norm(hidden), "mlp": nn.ModuleDict(mlp)})

    parts = {"embedding": nn.Embedding(PLAN["vocab"], hidden)}
    if PLAN["positions"]:
        parts["positions"] = nn.Embedding(PLAN["positions"], hidden)
    parts["layers"] = nn.ModuleList(layer() for _ in range(PLAN["layers"]))
    parts["norm"], parts["head"] = norm(hidden), nn.Linear(hidden, PLAN["vocab"], bias=False)
    if PLAN["tied"]:
        parts["head"].weight = parts["embedding"].weight
    return nn.ModuleDict(parts)


def operator_of(weight):
    """The operator that reads a weight, by the weight's name."""
    words = weight.split(".")
    if words[0] != "layers":
        return "embedding" if words[0] == "positions" else words[0]
    layer = ".".join(words[:2])
    if words[2] in ("norm1", "norm2"):
        return f"{layer}.{'attn' if words[2] == 'norm1' else 'mlp'}.norm"
    room, part = ("attn" if words[2] == "attention" else "mlp"), words[3]
    fused = {"q": "qkv", "k": "qkv", "v": "qkv", "up": "gate_up", "gate": "gate_up"}.get(part, part)
    return first_of(f"{layer}.{room}.{part}", f"{layer}.{room}.{fused}")


def axes_of(weight, tensor):
    if weight.startswith(("embedding", "positions")):
        return ("vocab" if weight.startswith("embedding") else "row", "hidden")
    return ("out", "in") if tensor.dim() == 2 else ("hidden",) if "norm" in weight else ("out",)


def distribute(torch, args, device):
    """Weights become DTensors that lie as their operators read them."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, distribute_tensor

    MESH["all"] = init_device_mesh(args.device, tuple(PLAN["mesh"]))
    model = make_model(torch).to(device)
    for name, module in list(model.named_modules()):
        for leaf, weight in list(module.named_parameters(recurse=False)):
            path = f"{name}.{leaf}"
            laid = placements(SPLITS[operator_of(path)], axes_of(path, weight), Replicate)
            module.register_parameter(leaf, torch.nn.Parameter(distribute_tensor(weight.detach(), MESH["all"], laid)))
    if PLAN["tied"]:
        model["head"].weight = model["embedding"].weight
    fill(torch, model)
    return model


# ---- operators ----


def linear(torch, name, x, module):
    first = position(name, "in") == 0  # of the parts of a sum, the one that has the bias

    def compute(x, weight, bias=None):
        y = torch.nn.functional.linear(x, weight)
        return y if bias is None else y + bias * first

    weights = [(module.weight, ("out", "in"))] + ([(module.bias, ("out",))] if module.bias is not None else [])
    return run(torch, name, compute, [(x, ("batch", "seq", "in")), *weights], ("batch", "seq", "out"))


def normed(torch, name, x, module):
    def compute(x, weight, bias=None):
        if PLAN["rms_norm"]:
            return torch.nn.functional.rms_norm(x, weight.shape, weight, module.eps)
        return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, module.eps)

    weights = [(weight, ("hidden",)) for weight in module.parameters()]
    return run(torch, name, compute, [(x, ("batch", "seq", "hidden")), *weights], ("batch", "seq", "hidden"))


def embedded(torch, model, ids):
    def compute(ids, table, positions=None):
        mine = ids - position("embedding", "vocab") * len(table)
        here = (mine >= 0) & (mine < len(table))
        x = torch.nn.functional.embedding(mine.clamp(0, len(table) - 1), table) * here.unsqueeze(-1)
        return x if positions is None else x + positions * (position("embedding", "vocab") == 0)

    operands = [(ids, ("batch", "seq")), (model["embedding"].weight, ("vocab", "hidden"))]
    if PLAN["positions"]:
        operands.append((model["positions"].weight[:ids.shape[1]], ("seq", "hidden")))
    return run(torch, "embedding", compute, operands, ("batch", "seq", "hidden"))


def of_heads(compute):
    """A function of whole heads, as one of the features that they make up."""
    return lambda x, *rest: compute(x.unflatten(-1, (-1, PLAN["head_dim"])), *rest).flatten(-2)


def rotated(torch, name, x, rotary):
    def compute(x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return x * cos.unsqueeze(1) + torch.cat((-b, a), dim=-1) * sin.unsqueeze(1)

    operands = [(x, ("batch", "seq", "hidden")), *((angle, ("seq", "depth")) for angle in rotary)]
    return run(torch, name, of_heads(compute), operands, ("batch", "seq", "hidden"))


def attention(torch, name, x, weights, rotary):
    """Every device has whole heads, and computes them alone."""
    from torch.nn import functional as F

    parts = []
    for part in ("q", "k", "v"):
        y = linear(torch, first_of(f"{name}.{part}", f"{name}.qkv"), x, weights[part])
        if PLAN["qk_norm"] and part != "v":
            scale = weights[f"{part}_norm"]
            compute = of_heads(lambda y, weight: F.rms_norm(y, weight.shape, weight, scale.eps))
            y = run(torch, f"{name}.{part}_norm", compute, [(y, ("batch", "seq", "head")), (scale.weight, ("hidden",))],
                    ("batch", "seq", "head"))
        if rotary and part != "v":
            y = rotated(torch, first_of(f"{name}.{part}_rotary", f"{name}.rotary"), y, rotary)
        parts.append((y, ("batch", "seq", "head")))

    def compute(q, k, v):
        q, k, v = (t.unflatten(-1, (-1, PLAN["head_dim"])).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=PLAN["heads"] != PLAN["kv_heads"])
        return y.transpose(1, 2).flatten(2)

    y = run(torch, first_of(f"{name}.attention", f"{name}.score"), compute, parts, ("batch", "seq", "head"))
    return linear(torch, f"{name}.proj", y, weights["proj"])


def mlp(torch, name, x, weights):
    from torch.nn import functional as F

    parts = [linear(torch, first_of(f"{name}.{part}", f"{name}.gate_up"), x, weights[part])
             for part in ("gate", "up") if part in weights]

    def compute(x, up=None):
        if up is None:
            return F.gelu(x)
        return (F.silu(x) if PLAN["gate"] == "silu" else F.gelu(x, approximate="tanh")) * up

    features = ("batch", "seq", "hidden")
    y = run(torch, first_of(f"{name}.gelu", f"{name}.gated"), compute, [(part, features) for part in parts], features)
    return linear(torch, f"{name}.down", y, weights["down"])


def added(torch, name, x, y):
    def compute(x, y):
        return x + torch.nn.functional.dropout(y, 0.1 if PLAN["dropout"] else 0.0)

    features = ("batch", "seq", "hidden")
    return run(torch, first_of(f"{name}.dropout_add", f"{name}.add"), compute, [(x, features), (y, features)], features)


def decoded(torch, model, ids):
    from torch.utils.checkpoint import checkpoint

    rotary = tuple(everywhere(torch, angle) for angle in angles(torch, ids.shape[1], ids.device)) if PLAN["rotary"] else None

    def layer(x, weights, name):
        y = attention(torch, f"{name}.attn", normed(torch, f"{name}.attn.norm", x, weights["norm1"]),
                      weights["attention"], rotary)
        x = added(torch, f"{name}.attn", x, y)
        y = mlp(torch, f"{name}.mlp", normed(torch, f"{name}.mlp.norm", x, weights["norm2"]), weights["mlp"])
        return added(torch, f"{name}.mlp", x, y)

    x = embedded(torch, model, ids)
    for i, weights in enumerate(model["layers"]):
        again = i in PLAN["recomputed"]
        x = checkpoint(layer, x, weights, f"layers.{i}", use_reentrant=False) if again else \
            layer(x, weights, f"layers.{i}")
    return linear(torch, "head", normed(torch, "norm", x, model["norm"]), model["head"])


def loss_of(torch, logits, labels):
    """Cross entropy whose classes may lie on several devices: the largest logit first, then the sums."""
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Partial, Replicate

    dims, mesh, rows, most = SPLITS["loss"], MESH["all"], ("batch", "seq"), None

    def compute(z, labels):
        nonlocal most
        z = z.float()
        most = z.detach().amax(-1)
        for axis, dim in enumerate(dims):
            if dim == "vocab":
                dist.all_reduce(most, dist.ReduceOp.MAX, mesh.get_group(axis))
        mine = labels - position("loss", "vocab") * z.shape[-1]
        here = (mine >= 0) & (mine < z.shape[-1])
        own = z.gather(-1, mine.clamp(0, z.shape[-1] - 1).unsqueeze(-1)).squeeze(-1) * here
        return torch.stack(((z - most.unsqueeze(-1)).exp().sum(-1), own), dim=-1)

    sums = run(torch, "loss", compute, [(logits, (*rows, "vocab")), (labels, rows)], (*rows, "sum"))
    whole = [Replicate() if dim in ("vocab", "copy") else laid for dim, laid in zip(dims, sums.placements)]
    total, own = sums.redistribute(placements=whole).to_local(grad_placements=whole).unbind(-1)
    loss = (total.log() + most - own).sum() / labels.numel()
    laid = [Partial() if dim in rows else Replicate() for dim in dims]
    return DTensor.from_local(loss, mesh, laid, run_check=False).redistribute(placements=[Replicate()] * mesh.ndim)


def one_step(torch, model, data, passes):
    total = 0.0
    for _ in range(passes):
        ids = next(data)
        logits = decoded(torch, model, everywhere(torch, ids[:, :-1].contiguous()))
        loss = loss_of(torch, logits, everywhere(torch, ids[:, 1:].contiguous())).to_local()
        (loss / passes).backward()
        total += loss.item() / passes
    return total


def finish_gradients(torch, model):
    """What devices have parts of is added up."""
    for weight in model.parameters():
        weight.grad = weight.grad.redistribute(placements=weight.placements)


def replica(rank):
    """All devices have the same micro-batches, and take their parts of them."""
    return 0


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
