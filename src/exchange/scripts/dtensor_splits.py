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
