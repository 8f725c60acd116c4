#!/usr/bin/env python3
"""Training on one GPU: tokens per second of `weft train --device cuda` beside PyTorch's, in one run.

  bench/gpu.py --weft build/weft                 the models that fit into the GPU
  bench/gpu.py --only gpt2 --compile             one of them, with torch.compile beside eager PyTorch
  bench/gpu.py --kernels                         and where the time of a step goes, by `weft profile measure`
  bench/gpu.py --chosen                          and how fast it is with the algorithms of products that this finds

Both train the same architecture with the same batch, in bf16 with fp32 masters and AdamW (PyTorch: autocast, fused
AdamW, scaled_dot_product_attention), and clip the gradients' norm. The median of the last steps counts. Needs PyTorch.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

# name: family, layers, hidden, heads, key/value heads, feed-forward, vocabulary, sequence, samples, Weft's model and flags; with
# --recompute full, PyTorch recomputes every layer, too
MODELS = {
    "gpt2": ("gpt", 12, 768, 12, 12, 3072, 50257, 1024, 16, ["gpt2"]),
    "gpt2-xl": ("gpt", 48, 1600, 25, 25, 6400, 50257, 1024, 8, ["gpt2-xl"]),
    "llama-1b": ("llama", 16, 2048, 32, 8, 8192, 128256, 2048, 4, ["llama3.2-1b"]),
    "llama-1b-8k": ("llama", 16, 2048, 32, 8, 8192, 128256, 8192, 1, ["llama3.2-1b"]),
    "llama-8b-4": ("llama", 4, 4096, 32, 8, 14336, 128256, 4096, 1, ["llama3-8b", "--set", "layers=4"]),
    "llama-8b-24": ("llama", 24, 4096, 32, 8, 14336, 128256, 2048, 2,
                    ["llama3-8b", "--set", "layers=24", "--recompute", "full"]),
}


class Block(nn.Module):
    def __init__(self, family, hidden, heads, kv_heads, feed):
        super().__init__()
        self.gpt, self.heads, self.kv_heads, self.depth = family == "gpt", heads, kv_heads, hidden // heads
        norm = nn.LayerNorm if self.gpt else nn.RMSNorm
        self.first, self.second = norm(hidden), norm(hidden)
        self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * self.depth, bias=self.gpt)
        self.out = nn.Linear(hidden, hidden, bias=self.gpt)
        self.up = nn.Linear(hidden, feed if self.gpt else 2 * feed, bias=self.gpt)
        self.down = nn.Linear(feed, hidden, bias=self.gpt)

    def forward(self, x, turns):
        batch, seq, hidden = x.shape
        sizes = [heads * self.depth for heads in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = self.qkv(self.first(x)).split(sizes, dim=-1)
        q, k, v = (t.view(batch, seq, -1, self.depth).transpose(1, 2) for t in (q, k, v))
        if turns is not None:
            q, k = turned(q, turns), turned(k, turns)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.out(y.transpose(1, 2).reshape(batch, seq, hidden))
        y = self.up(self.second(x))
        if self.gpt:
            return x + self.down(F.gelu(y, approximate="tanh"))
        gate, up = y.chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def turned(x, turns):
    cos, sin = turns
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Model(nn.Module):
    def __init__(self, family, layers, hidden, heads, kv_heads, feed, vocabulary, seq, recomputed):
        super().__init__()
        self.recomputed = recomputed
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Embedding(seq, hidden) if family == "gpt" else None
        self.blocks = nn.ModuleList(Block(family, hidden, heads, kv_heads, feed) for _ in range(layers))
        self.norm = (nn.LayerNorm if family == "gpt" else nn.RMSNorm)(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        if family == "gpt":
            self.head.weight = self.tokens.weight
        depth = hidden // heads
        angle = torch.outer(torch.arange(seq), 500000.0 ** (-torch.arange(0, depth, 2) / depth)).repeat(1, 2)
        self.register_buffer("cos", angle.cos().to(torch.bfloat16), persistent=False)
        self.register_buffer("sin", angle.sin().to(torch.bfloat16), persistent=False)

    def forward(self, ids, labels):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        turns = None if self.positions is not None else (self.cos, self.sin)
        for block in self.blocks:
            x = checkpoint(block, x, turns, use_reentrant=False) if self.recomputed else block(x, turns)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


def torch_rate(row, steps, compiled):
    family, layers, hidden, heads, kv_heads, feed, vocabulary, seq, samples, weft_model = row
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = Model(family, layers, hidden, heads, kv_heads, feed, vocabulary, seq, "--recompute" in weft_model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if compiled else model
    ids = torch.randint(vocabulary, (samples, seq), device="cuda")
    seconds = []
    for _ in range(steps + 5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = run(ids, ids)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    rate = samples * seq / statistics.median(seconds[5:])
    del model, optimizer, run
    torch.cuda.empty_cache()
    return rate


def plan_words(row):
    _, _, _, _, _, _, _, seq, samples, model = row
    return [*model, "h200:1", "--set", f"seq={seq}", "--set", "loss=fused", "--dtype", "bf16", "--micro-batch", samples,
            "--global-batch", samples]


def measured(weft, row, db):
    """What `weft profile measure` answers, into a database."""
    words = [weft, "profile", "measure", *plan_words(row), "--device", "cuda", "--software", "weft-cuda", "--policy",
             "mixed-fp32-gradients", "--db", db, "--json"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def kernel_times(answer, step_s):
    """Where a step's time goes: what its kernels take together, each measured by itself, and what is left."""
    ms = {}
    for ask in answer["measured"]:
        ms[ask["kernel"]] = ms.get(ask["kernel"], 0) + 1e-6 * ask["ns"] * ask["uses"]
    ms["beside these"] = 1e3 * step_s - sum(ms.values())
    parts = sorted(ms.items(), key=lambda part: -part[1])
    return f"  {1e3 * step_s:.1f} ms: " + ", ".join(f"{name} {took:.1f}" for name, took in parts if abs(took) >= 0.05)


def chosen_rate(weft, row, steps, answer, db, own):
    """Beside the rate by the libraries' first algorithms, which is measured again after it: a GPU's clock drifts."""
    others = [one for one in answer["algorithms"] if one["place"] > 0]
    chosen = weft_rate(weft, row, steps, db)
    own = statistics.fmean((own, weft_rate(weft, row, steps)))
    chosen = statistics.fmean((chosen, weft_rate(weft, row, steps, db)))
    print(f"  of {len(answer['algorithms'])} products {len(others)} by another algorithm than the first: {own:.0f} -> {chosen:.0f} "
          f"tokens/s, {100 * (chosen / own - 1):+.1f} %", flush=True)
    return chosen / own


def weft_rate(weft, row, steps, profile=None):
    _, _, _, _, _, _, vocabulary, seq, samples, _ = row
    with tempfile.TemporaryDirectory() as folder:
        data, log = pathlib.Path(folder, "tokens.bin"), pathlib.Path(folder, "log.tsv")
        count = (steps + 8) * samples * (seq + 1)
        data.write_bytes(torch.randint(min(vocabulary, 65536), (count,)).to(torch.uint32).numpy().tobytes())
        command = [weft, "train", *plan_words(row), "--device", "cuda", "--data", data, "--data-format", "uint32", "--steps", steps + 5, "--rate", "1e-4", "--log", log,
                   *(["--profile", profile] if profile else [])]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        lines = [line.split("\t") for line in log.read_text().splitlines()]
        at = lines[0].index("tokens_per_s")
        return statistics.median(float(line[at]) for line in lines[6:])


def main():
    about = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    about.add_argument("--weft", default="build/weft")
    about.add_argument("--only", default="")
    about.add_argument("--steps", type=int, default=20)
    about.add_argument("--compile", action="store_true")
    about.add_argument("--kernels", action="store_true", help="where the time goes")
    about.add_argument("--chosen", action="store_true", help="with measured algorithms of products, too")
    given = about.parse_args()
    gains = []
    kinds = ["eager", "compiled"] if given.compile else ["eager"]
    print(f"{'model':12}{'weft':>12}" + "".join(f"{kind:>12}{'ratio':>8}" for kind in kinds) + "   tokens/s")
    ratios = {kind: [] for kind in kinds}
    for name, row in MODELS.items():
        if given.only and name not in given.only.split(","):
            continue
        own = weft_rate(given.weft, row, given.steps)
        line = f"{name:12}{own:12.0f}"
        for kind in kinds:
            other = torch_rate(row, given.steps, kind == "compiled")
            ratios[kind].append(own / other)
            line += f"{other:12.0f}{own / other:8.2f}"
        print(line, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            db = pathlib.Path(folder, "gpu.sqlite")
            answer = measured(given.weft, row, db) if given.kernels or given.chosen else None
            if given.kernels:
                print(kernel_times(answer, row[7] * row[8] / own), flush=True)
            if given.chosen:
                gains.append(chosen_rate(given.weft, row, given.steps, answer, db, own))
    for kind in kinds:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios[kind]))
        print(f"geometric mean against {kind} PyTorch {torch.__version__}: {mean:.2f}")
    if gains:
        print(f"with measured algorithms of products: {statistics.geometric_mean(gains):.3f} times as fast")


if __name__ == "__main__":
    sys.exit(main())
