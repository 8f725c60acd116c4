# The same for every plan: a decoder, its sharding by FSDP2, checkpoints, and a loop over micro-batches. torch is
# imported when training starts, so that --help and --dry-run work without it.


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20, help="iterations to train")
    parser.add_argument("--lr", type=float, default=1e-4, help="learning rate")
    parser.add_argument("--warmup", type=int, default=100, help="iterations to reach it; then a cosine")
    parser.add_argument("--clip", type=float, default=1.0, help="norm of gradients at most, 0: any")
    parser.add_argument("--save", help="folder of checkpoints; the newest one there is gone on from")
    parser.add_argument("--save-every", type=int, default=500, help="iterations between checkpoints")
    parser.add_argument("--data", help="token ids as 32-bit integers; without it they are random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true",
                        help="fuse what lies between products (torch.compile): as predicted")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, train nothing")
    return parser.parse_args()


def make_model(torch):
    from torch import nn
    from torch.nn import functional as F

    def linear(inner, outer, bias):
        return nn.Linear(inner, outer, bias=PLAN[bias])

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads, self.kv_heads = PLAN["heads"], PLAN["kv_heads"]
            self.depth = PLAN["head_dim"]
            self.sizes = [self.heads * self.depth, self.kv_heads * self.depth, self.kv_heads * self.depth]
            if PLAN["qkv_apart"]:
                self.parts = nn.ModuleList(linear(PLAN["hidden"], n, "qkv_bias") for n in self.sizes)
            else:
                self.qkv = linear(PLAN["hidden"], sum(self.sizes), "qkv_bias")
            if PLAN["qk_norm"]:
                self.q_norm, self.k_norm = norm(self.depth), norm(self.depth)
            self.proj = linear(self.heads * self.depth, PLAN["hidden"], "bias")

        def forward(self, x, rotary):
            batch, seq, _ = x.shape
            parts = ([part(x) for part in self.parts] if PLAN["qkv_apart"]
                     else self.qkv(x).split(self.sizes, dim=-1))
            q, k, v = (t.view(batch, seq, -1, self.depth).transpose(1, 2) for t in parts)
            if PLAN["qk_norm"]:
                q, k = self.q_norm(q), self.k_norm(k)
            if rotary is not None:
                q, k = rotate(q, rotary), rotate(k, rotary)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                               enable_gqa=self.heads != self.kv_heads)
            return self.proj(y.transpose(1, 2).reshape(batch, seq, -1))

    def rotate(x, rotary):
        cos, sin = rotary
        a, b = x.chunk(2, dim=-1)
        return (x * cos + torch.cat((-b, a), dim=-1) * sin).to(x.dtype)

    def norm(width):
        return (nn.RMSNorm if PLAN["rms_norm"] else nn.LayerNorm)(width, eps=PLAN["norm_epsilon"])

    def activation(h):
        if not PLAN["gate"]:
            return F.gelu(h)
        gate, h = h.chunk(2, dim=-1)
        return (F.silu(gate) if PLAN["gate"] == "silu" else F.gelu(gate, approximate="tanh")) * h

    class MLP(nn.Module):
        def __init__(self, ffn):
            super().__init__()
            up = ffn * (2 if PLAN["gate"] and not PLAN["gate_apart"] else 1)
            self.up = linear(PLAN["hidden"], up, "bias")
            if PLAN["gate"] and PLAN["gate_apart"]:
                self.gate = linear(PLAN["hidden"], ffn, "bias")
            self.down = linear(ffn, PLAN["hidden"], "bias")

        def forward(self, x):
            h = self.up(x)
            if PLAN["gate"] and PLAN["gate_apart"]:
                h = torch.cat((self.gate(x), h), dim=-1)
            return self.down(activation(h))

    class Experts(nn.Module):
        """Each token goes to its best experts; those of one expert are multiplied together."""

        def __init__(self):
            super().__init__()
            count, ffn = PLAN["experts"], PLAN["expert_ffn"]
            width = ffn * (2 if PLAN["gate"] else 1)
            self.router = nn.Linear(PLAN["hidden"], count, bias=False)
            self.up = nn.Parameter(torch.empty(count, PLAN["hidden"], width))
            self.down = nn.Parameter(torch.empty(count, ffn, PLAN["hidden"]))
            self.shared = MLP(PLAN["shared_ffn"]) if PLAN["shared_ffn"] else None

        def choose(self, x):
            """Weights and numbers of each token's experts, and each expert's share of all scores."""
            scores = self.router(x).float()
            shares = scores.sigmoid() if PLAN["router"] == "sigmoid" else scores.softmax(dim=-1)
            best, chosen = shares.topk(PLAN["top_k"], dim=-1)
            if PLAN["router"] != "softmax-of-all":
                best = best / best.sum(dim=-1, keepdim=True)
            return best * PLAN["router_scale"], chosen, shares

        def balance(self, chosen, shares, batch):
            """Experts times the product of their share of tokens and of scores (Switch Transformer)."""
            rows = batch if PLAN["balance"] == "sequence" else 1
            taken = F.one_hot(chosen, PLAN["experts"]).sum(dim=1).float()
            taken = taken.view(rows, -1, PLAN["experts"]).mean(dim=1) / PLAN["top_k"]
            shares = shares.view(rows, -1, PLAN["experts"]).mean(dim=1)
            return PLAN["experts"] * (taken * shares).sum(dim=-1).mean() * PLAN["balance_weight"]

        def product(self, x, weight, ends):
            if x.dtype == torch.bfloat16 and torch.cuda.get_device_capability() >= (9, 0):
                return torch._grouped_mm(x, weight, offs=ends)
            first, parts = 0, []
            for expert, end in enumerate(ends.tolist()):
                parts.append(x[first:end] @ weight[expert])
                first = end
            return torch.cat(parts)

        def forward(self, x):
            tokens = x.reshape(-1, x.shape[-1])
            best, chosen, shares = self.choose(tokens)
            order = chosen.flatten().argsort(stable=True)
            ends = torch.bincount(chosen.flatten(), minlength=PLAN["experts"]).cumsum(0).to(torch.int32)
            h = activation(self.product(tokens[order // PLAN["top_k"]], self.up, ends))
            y = self.product(h, self.down, ends) * best.flatten()[order].unsqueeze(-1).to(x.dtype)
            y = torch.zeros_like(tokens).index_add(0, order // PLAN["top_k"], y).view_as(x)
            extra = self.balance(chosen, shares, x.shape[0]) if PLAN["balance"] != "none" else None
            return (y if self.shared is None else y + self.shared(x)), extra

    def is_mixture(layer):
        past = layer - PLAN.get("first_dense", 0)
        return PLAN["experts"] > 0 and past >= 0 and (past + 1) % PLAN["moe_every"] == 0

    class Layer(nn.Module):
        def __init__(self, number):
            super().__init__()
            self.norm1, self.attention, self.norm2 = norm(PLAN["hidden"]), Attention(), norm(PLAN["hidden"])
            self.mixture = is_mixture(number)
            self.mlp = Experts() if self.mixture else MLP(PLAN["ffn"])
            if PLAN["end_norm"]:
                self.end1, self.end2 = norm(PLAN["hidden"]), norm(PLAN["hidden"])
            self.dropout = nn.Dropout(0.1 if PLAN["dropout"] else 0.0)

        def forward(self, x, rotary=None):
            y = self.attention(self.norm1(x), rotary)
            x = x + self.dropout(self.end1(y) if PLAN["end_norm"] else y)
            y, extra = self.mlp(self.norm2(x)) if self.mixture else (self.mlp(self.norm2(x)), None)
            return x + self.dropout(self.end2(y) if PLAN["end_norm"] else y), extra

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(PLAN["vocab"], PLAN["hidden"])
            learned = PLAN["positions"]
            self.positions = nn.Embedding(learned, PLAN["hidden"]) if learned else None
            self.layers = nn.ModuleList(Layer(i) for i in range(PLAN["layers"]))
            self.norm = norm(PLAN["hidden"])
            if not PLAN["tied"]:
                self.head = nn.Linear(PLAN["hidden"], PLAN["vocab"], bias=False)

        def forward(self, ids):
            x = self.embedding(ids)
            if self.positions is not None:
                x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
            rotary = angles(torch, ids.shape[1], ids.device) if PLAN["rotary"] else None
            extras = []
            for layer in self.layers:
                x, extra = layer(x, rotary)
                extras += [] if extra is None else [extra]
            x = self.norm(x)
            logits = F.linear(x, self.embedding.weight) if PLAN["tied"] else self.head(x)
            return logits, sum(extras) / len(extras) if extras else None

    return Decoder()


def fill(torch, model):
    """Weights of products are drawn, those of norms 1, biases 0."""
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.02)
        else:
            torch.nn.init.constant_(weight, 0.0 if name.endswith("bias") else 1.0)


def cross_entropy(logits, ids):
    from torch.nn import functional as F

    return F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())


def distribute(torch, args, device):
    """Recomputation first, then sharding layer by layer: ZeRO-3 frees weights after the forward
    pass, ZeRO-2 keeps them. Without sharding each device has a share of one: it keeps everything,
    and gradients are all-reduced; of so many copies (HSDP) neighbours have the shares of one, and what they added up is
    all-reduced across copies with the last micro-batch. The model gets memory when each device knows its share."""
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
    shares = PLAN["devices"] // PLAN["copies"] if PLAN["zero"] else 1
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


def share_of_rate(args, step):
    """A straight line up, then half a cosine down to a tenth."""
    if step < args.warmup:
        return (step + 1) / args.warmup
    past = (step - args.warmup) / max(1, args.steps - args.warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, past)))


def save(args, model, optimizer, schedule, step):
    """Each device writes its share."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state, "schedule": schedule.state_dict()},
             checkpoint_id=os.path.join(args.save, str(step)))


def resume(args, model, optimizer, schedule):
    """The iteration to begin with: that of the newest checkpoint, which is read, or 0."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    there = os.listdir(args.save) if args.save and os.path.isdir(args.save) else []
    whole = [int(name) for name in there
             if name.isdigit() and os.path.exists(os.path.join(args.save, name, ".metadata"))]
    if not whole:
        return 0
    weights, state = get_state_dict(model, optimizer)
    held = {"model": weights, "optimizer": state, "schedule": schedule.state_dict()}
    dcp.load(held, checkpoint_id=os.path.join(args.save, str(max(whole))))
    set_state_dict(model, optimizer, model_state_dict=held["model"],
                   optim_state_dict=held["optimizer"])
    schedule.load_state_dict(held["schedule"])
    return max(whole)


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
    optimizer = make_optimizer(torch, model, args, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: share_of_rate(args, step))
    start = resume(args, model, optimizer, schedule)
    data, passes = batches(torch, args, device, dist.get_rank()), accumulation_steps()
    for step in range(start, args.steps):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for k in range(passes):
            model.set_requires_gradient_sync(k == passes - 1 or PLAN["zero"] == 3)
            model.set_requires_all_reduce(k == passes - 1)
            ids = next(data)
            logits, extra = model(ids[:, :-1])
            loss = loss_of(logits, ids[:, 1:])
            del logits
            ((loss if extra is None else loss + extra) / passes).backward()
        if args.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if dist.get_rank() == 0:
            taken = time.perf_counter() - began
            peak = torch.cuda.max_memory_allocated() / 2**30
            print(f"step {step}: loss {loss.item():.4f}, {taken:.3f} s, {peak:.1f} GiB")
        if args.save and ((step + 1) % args.save_every == 0 or step + 1 == args.steps):
            save(args, model, optimizer, schedule, step + 1)
    dist.destroy_process_group()
