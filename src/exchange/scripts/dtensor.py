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
