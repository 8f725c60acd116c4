#!/usr/bin/env python3
"""Trains gpt2 on dgx-a100 with PyTorch, as planned by weft.

Predicted by: weft simulate gpt2 dgx-a100 --dp 8 --micro-batch 4 --global-batch 64 --zero 0 --policy fsdp

On each node:

    torchrun --nnodes 1 --nproc-per-node 8 THIS --steps 100
"""
import argparse
import os
import sys
import time

PLAN = {
    "layers": 12,
    "hidden": 768,
    "heads": 12,
    "kv_heads": 12,
    "head_dim": 64,
    "ffn": 3072,
    "seq": 1024,
    "vocab": 50257,
    "positions": 1024,
    "rotary": False,
    "gated": False,
    "bias": True,
    "qkv_bias": True,
    "tied": True,
    "dropout": True,
    "devices": 8,
    "micro_batch": 4,
    "global_batch": 64,
    "zero": 0,
    "recompute": False,
    "dtype": "bf16",
    "reduce_dtype": "fp32",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20, help="iterations to train")
    parser.add_argument("--lr", type=float, default=1e-4, help="learning rate of AdamW")
    parser.add_argument("--data", help="token ids as 32-bit integers; without it they are random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true",
                        help="fuse what lies between products (torch.compile): as predicted")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, train nothing")
    return parser.parse_args()


def accumulation_steps():
    step = PLAN["micro_batch"] * PLAN["devices"]
    if PLAN["global_batch"] % step:
        sys.exit(f"the global batch of {PLAN['global_batch']} is no multiple of {step}")
    return PLAN["global_batch"] // step


def make_model(torch):
    from torch import nn
    from torch.nn import functional as F

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads, self.kv_heads = PLAN["heads"], PLAN["kv_heads"]
            self.depth = PLAN["head_dim"]
            width = (self.heads + 2 * self.kv_heads) * self.depth
            self.qkv = nn.Linear(PLAN["hidden"], width, bias=PLAN["qkv_bias"])
            self.proj = nn.Linear(self.heads * self.depth, PLAN["hidden"], bias=PLAN["bias"])

        def forward(self, x, rotary):
            batch, seq, _ = x.shape
            sizes = [self.heads * self.depth, self.kv_heads * self.depth, self.kv_heads * self.depth]
            q, k, v = (t.view(batch, seq, -1, self.depth).transpose(1, 2)
                       for t in self.qkv(x).split(sizes, dim=-1))
            if rotary is not None:
                q, k = rotate(q, rotary), rotate(k, rotary)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                               enable_gqa=self.heads != self.kv_heads)
            return self.proj(y.transpose(1, 2).reshape(batch, seq, -1))

    def rotate(x, rotary):
        cos, sin = rotary
        a, b = x.chunk(2, dim=-1)
        return (x * cos + torch.cat((-b, a), dim=-1) * sin).to(x.dtype)

    def norm():
        return nn.RMSNorm(PLAN["hidden"]) if PLAN["gated"] else nn.LayerNorm(PLAN["hidden"])

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            up = PLAN["ffn"] * (2 if PLAN["gated"] else 1)
            self.norm1, self.attention, self.norm2 = norm(), Attention(), norm()
            self.up = nn.Linear(PLAN["hidden"], up, bias=PLAN["bias"])
            self.down = nn.Linear(PLAN["ffn"], PLAN["hidden"], bias=PLAN["bias"])
            self.dropout = nn.Dropout(0.1 if PLAN["dropout"] else 0.0)

        def forward(self, x, rotary=None):
            x = x + self.dropout(self.attention(self.norm1(x), rotary))
            h = self.up(self.norm2(x))
            if PLAN["gated"]:
                gate, h = h.chunk(2, dim=-1)
                h = F.silu(gate) * h
            else:
                h = F.gelu(h)
            return x + self.dropout(self.down(h))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(PLAN["vocab"], PLAN["hidden"])
            learned = PLAN["positions"]
            self.positions = nn.Embedding(learned, PLAN["hidden"]) if learned else None
            self.layers = nn.ModuleList(Layer() for _ in range(PLAN["layers"]))
            self.norm = norm()
            if not PLAN["tied"]:
                self.head = nn.Linear(PLAN["hidden"], PLAN["vocab"], bias=False)

        def angles(self, seq, device):
            depth = PLAN["head_dim"]
            rate = 1.0 / 10000 ** (torch.arange(0, depth, 2, device=device) / depth)
            turn = torch.outer(torch.arange(seq, device=device), rate)
            turn = torch.cat((turn, turn), dim=-1)
            return turn.cos(), turn.sin()

        def forward(self, ids):
            x = self.embedding(ids)
            if self.positions is not None:
                x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
            rotary = self.angles(ids.shape[1], ids.device) if PLAN["rotary"] else None
            for layer in self.layers:
                x = layer(x, rotary)
            x = self.norm(x)
            return F.linear(x, self.embedding.weight) if PLAN["tied"] else self.head(x)

    return Decoder()


def fill(torch, model):
    """Weights of products are drawn, those of norms 1, biases 0."""
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.02)
        else:
            torch.nn.init.constant_(weight, 0.0 if name.endswith("bias") else 1.0)


def type_of(torch, key):
    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[PLAN[key]]


def cross_entropy(logits, ids):
    from torch.nn import functional as F

    return F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())


def distribute(torch, args, device):
    """Recomputation first, then sharding layer by layer: ZeRO-3 frees weights after the forward
    pass, ZeRO-2 keeps them. Without sharding each device has a share of one: it keeps everything,
    and gradients are all-reduced. The model gets memory when each device knows its share."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    with torch.device("meta"):
        model = make_model(torch)
    if PLAN["recompute"]:
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        for i, layer in enumerate(model.layers):
            model.layers[i] = checkpoint_wrapper(layer)
    if args.compile:
        for layer in model.layers:
            layer.compile()
    shares = PLAN["devices"] if PLAN["zero"] else 1
    how = {
        "mesh": init_device_mesh("cuda", (PLAN["devices"] // shares, shares),
                                 mesh_dim_names=("copies", "shares")),
        "mp_policy": MixedPrecisionPolicy(param_dtype=type_of(torch, "dtype"),
                                          reduce_dtype=type_of(torch, "reduce_dtype")),
        "reshard_after_forward": PLAN["zero"] == 3,
    }
    for layer in model.layers:
        fully_shard(layer, **how)
    fully_shard(model, **how)
    model.to_empty(device=device)
    torch.manual_seed(0)
    fill(torch, model)
    return model


def batches(torch, args, device, rank):
    size = (PLAN["micro_batch"], PLAN["seq"] + 1)
    if args.data:
        import numpy

        ids = numpy.memmap(args.data, dtype=numpy.uint32, mode="r")
        places = numpy.random.default_rng(args.seed + rank)
        while True:
            first = places.integers(0, len(ids) - size[1], size[0])
            rows = numpy.stack([ids[i:i + size[1]].astype(numpy.int64) for i in first])
            yield torch.from_numpy(rows).to(device)
    torch.manual_seed(args.seed + rank)
    while True:
        yield torch.randint(PLAN["vocab"], size, device=device)


def train(args):
    import torch
    import torch.distributed as dist

    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    if dist.get_world_size() != PLAN["devices"]:
        sys.exit(f"the plan is for {PLAN['devices']} devices, not {dist.get_world_size()}")
    device = torch.device("cuda", local)
    model = distribute(torch, args, device)
    loss_of = torch.compile(cross_entropy) if args.compile else cross_entropy
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    data, passes = batches(torch, args, device, dist.get_rank()), accumulation_steps()
    for step in range(args.steps):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for k in range(passes):
            model.set_requires_gradient_sync(k == passes - 1 or PLAN["zero"] == 3)
            ids = next(data)
            loss = loss_of(model(ids[:, :-1]), ids[:, 1:])
            (loss / passes).backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if dist.get_rank() == 0:
            taken = time.perf_counter() - began
            peak = torch.cuda.max_memory_allocated() / 2**30
            print(f"step {step}: loss {loss.item():.4f}, {taken:.3f} s, {peak:.1f} GiB")
    dist.destroy_process_group()


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
