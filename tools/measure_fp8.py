"""Times layers of Llama in bf16 and in fp8 on this GPU, forward and backward, compiled layer by layer.

fp8 is torchao's dynamic recipe: tensors are kept in 16 bits and cast before each of a weight's three
products, with one scale per tensor (e4m3, the gradient of the output in e5m2) or one per row of both
operands. Products of the backward pass accumulate slowly (use_fast_accum off), as torchao's do.

Prints CSV, microseconds of one layer: model, samples of how many positions, scaling, products, attention,
all other kernels, and the wall clock. data/profiles/weft/h200_fp8.csv is what it printed on an H200.
"""
import collections
import time
import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2
LARGEST = {E4: 448.0, E5: 57344.0}
# hidden, width of the MLP, heads, heads of keys; samples and positions; layers (enough to hide the host)
CASES = [("llama3-8b", 4096, 14336, 32, 8, 1, 8192, 4), ("llama3-8b", 4096, 14336, 32, 8, 2, 8192, 4),
         ("llama3-8b", 4096, 14336, 32, 8, 4, 4096, 4), ("llama3-8b", 4096, 14336, 32, 8, 2, 2048, 8),
         ("llama3-70b", 8192, 28672, 64, 8, 1, 8192, 2), ("llama3-70b", 8192, 28672, 64, 8, 2, 4096, 2)]


def cast(x, to, dim=None):
    largest = x.abs().max() if dim is None else x.abs().amax(dim, keepdim=True)
    scale = LARGEST[to] / largest.float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-LARGEST[to], LARGEST[to]).to(to), 1 / scale


def times(a, b, scale_a, scale_b, fast):
    return torch._scaled_mm(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast)


def by_columns(x):
    return x.t().contiguous().t()


class ByTensor(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        x8, sx = cast(x, E4)
        w8, sw = cast(w, E4)
        return times(x8, w8.t(), sx, sw, True)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g8, sg = cast(g, E5)
        x8, sx = cast(x, E4)
        w8, sw = cast(w, E4)
        return (times(g8, by_columns(w8), sg, sw, False),
                times(g8.t().contiguous(), by_columns(x8), sg, sx, False))


class ByRow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        x8, sx = cast(x, E4, 1)
        w8, sw = cast(w, E4, 1)
        return times(x8, w8.t(), sx, sw.t(), True)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g8, sg = cast(g, E4, 1)
        w8, sw = cast(w, E4, 0)
        gt, sgt = cast(g, E4, 0)
        xt, sxt = cast(x, E4, 0)
        return (times(g8, by_columns(w8), sg, sw, False),
                times(gt.t().contiguous(), by_columns(xt), sgt.t(), sxt, False))


PRODUCTS = {"bf16": None, "tensor": ByTensor, "row": ByRow}


class Linear(nn.Module):
    def __init__(self, inputs, outputs, scaling):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, device="cuda", dtype=torch.bfloat16) * 0.02)
        self.product = PRODUCTS[scaling]

    def forward(self, x):
        if self.product is None:
            return functional.linear(x, self.weight)
        return self.product.apply(x.reshape(-1, x.shape[-1]), self.weight).reshape(*x.shape[:-1], -1)


class Layer(nn.Module):
    def __init__(self, hidden, width, heads, key_heads, scaling):
        super().__init__()
        self.heads, self.key_heads, self.depth = heads, key_heads, hidden // heads
        keys = key_heads * self.depth
        self.q, self.k, self.v = (Linear(hidden, n, scaling) for n in (hidden, keys, keys))
        self.proj = Linear(hidden, hidden, scaling)
        self.gate, self.up, self.down = (Linear(*n, scaling) for n in ((hidden, width), (hidden, width), (width, hidden)))
        self.norm1, self.norm2 = (nn.RMSNorm(hidden, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    @staticmethod
    def rotate(x, turns):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)

    def forward(self, x, turns):
        samples, positions, hidden = x.shape
        y = self.norm1(x)
        q = self.rotate(self.q(y).view(samples, positions, self.heads, self.depth), turns)
        k = self.rotate(self.k(y).view(samples, positions, self.key_heads, self.depth), turns)
        v = self.v(y).view(samples, positions, self.key_heads, self.depth)
        group = self.heads // self.key_heads
        k, v = (t.repeat_interleave(group, 2).transpose(1, 2) for t in (k, v))
        y = functional.scaled_dot_product_attention(q.transpose(1, 2), k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(samples, positions, hidden))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def kind(name):
    name = name.lower()
    if "triton" in name:
        return "rest"
    if any(word in name for word in ("flash", "fmha", "sdpa", "cudnn")):
        return "attention"
    return "products" if any(word in name for word in ("gemm", "nvjet", "cutlass", "xmma")) else "rest"


def measure(case, scaling):
    model, hidden, width, heads, key_heads, samples, positions, layers = case
    torch.manual_seed(0)
    torch._dynamo.reset()
    stack = [torch.compile(Layer(hidden, width, heads, key_heads, scaling)) for _ in range(layers)]
    angles = torch.rand(positions, 1, hidden // heads // 2, device="cuda")
    turns = torch.polar(torch.ones_like(angles), angles)
    x = torch.randn(samples, positions, hidden, device="cuda", dtype=torch.bfloat16)

    def step():
        y = x.detach().requires_grad_()
        for layer in stack:
            y = layer(y, turns)
        y.backward(torch.full_like(y, 1e-3))
        for layer in stack:
            for p in layer.parameters():
                p.grad = None

    for _ in range(4):
        step()
    torch.cuda.synchronize()
    begin, steps = time.perf_counter(), 12
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    wall = (time.perf_counter() - begin) / steps
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(3):
            step()
        torch.cuda.synchronize()
    us = collections.Counter()
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            us[kind(event.name)] += event.device_time / 3 / layers
    print(f"{model},{samples},{positions},{scaling},{us['products']:.0f},{us['attention']:.0f},{us['rest']:.0f},"
          f"{wall * 1e6 / layers:.0f}", flush=True)


def main():
    print("model,samples,positions,scaling,products_us,attention_us,rest_us,wall_us")
    for case in CASES:
        for scaling in PRODUCTS:
            measure(case, scaling)


main()
