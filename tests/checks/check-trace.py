#!/usr/bin/env python3
"""check-trace.py WEFT [PYTHON] - a dozen public architectures, built in PyTorch without weights, become model files of Weft
(tools/trace_torch.py) with the parameters of the module and the FLOPs that PyTorch counts in its forward pass, and can be planned. PYTHON
has torch (default: this one); without it nothing is checked, and the exit code is 77."""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 2


def architectures(torch):
    nn, functional = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        def __init__(self, width, heads, causal, kv_heads=None, apart=False):
            super().__init__()
            self.heads, self.kv_heads, self.causal, self.apart = heads, kv_heads or heads, causal, apart
            depth = width // heads
            sizes = [width, self.kv_heads * depth, self.kv_heads * depth]
            self.project = nn.ModuleList([nn.Linear(width, s) for s in sizes]) if apart else nn.Linear(width, sum(sizes))
            self.out = nn.Linear(width, width)

        def forward(self, x):
            batch, seq, width = x.shape
            depth = width // self.heads
            parts = [p(x) for p in self.project] if self.apart else self.project(x).split(
                [width, self.kv_heads * depth, self.kv_heads * depth], -1)
            q, k, v = (p.view(batch, seq, -1, depth).transpose(1, 2) for p in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.kv_heads != self.heads)
            return self.out(y.transpose(1, 2).reshape(batch, seq, width))

    class Eager(Attention):
        def forward(self, x):
            batch, seq, width = x.shape
            depth = width // self.heads
            q, k, v = (p.view(batch, seq, -1, depth).transpose(1, 2) for p in self.project(x).chunk(3, -1))
            scores = torch.softmax(q @ k.transpose(2, 3) / depth**0.5, -1)
            return self.out((scores @ v).transpose(1, 2).reshape(batch, seq, width))

    class Gated(nn.Module):
        def __init__(self, width, inner):
            super().__init__()
            self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
            self.down = nn.Linear(inner, width, bias=False)

        def forward(self, x):
            return self.down(functional.silu(self.gate(x)) * self.up(x))

    class Layer(nn.Module):
        """After a norm (GPT-2, ViT, Llama), or before one (BERT)."""

        def __init__(self, attention, mlp, width, norm=nn.LayerNorm, after=False):
            super().__init__()
            self.attention, self.mlp, self.after = attention, mlp, after
            self.norm1, self.norm2 = norm(width), norm(width)

        def forward(self, x):
            if self.after:
                x = self.norm1(x + self.attention(x))
                return self.norm2(x + self.mlp(x))
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    def mlp(width, inner, activation=nn.GELU):
        return nn.Sequential(nn.Linear(width, inner), activation(), nn.Linear(inner, width))

    class Decoder(nn.Module):
        def __init__(self, layers, width, vocab, seq, tied, norm=nn.LayerNorm, positions=True):
            super().__init__()
            self.embedding = nn.Embedding(vocab, width)
            self.positions = nn.Embedding(seq, width) if positions else None
            self.layers = nn.ModuleList(layers)
            self.norm = norm(width)
            self.head = nn.Linear(width, vocab, bias=False)
            if tied:
                self.head.weight = self.embedding.weight

        def forward(self, tokens):
            x = self.embedding(tokens)
            if self.positions is not None:
                x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))

    class ViT(nn.Module):
        def __init__(self, width, heads, layers):
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.layers = nn.Sequential(*[Layer(Attention(width, heads, False), mlp(width, 4 * width), width) for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, image):
            x = self.patches(image).flatten(2).transpose(1, 2)
            return self.head(self.norm(self.layers(x)))

    class Block(nn.Module):
        def __init__(self, inner, channels, stride, bottleneck):
            super().__init__()
            out = channels * (4 if bottleneck else 1)
            sizes = [(1, 1, 0), (3, stride, 1), (1, 1, 0)] if bottleneck else [(3, stride, 1), (3, 1, 1)]
            widths = [inner, channels, channels, out] if bottleneck else [inner, channels, out]
            self.convs = nn.ModuleList([nn.Conv2d(widths[i], widths[i + 1], k, s, p, bias=False) for i, (k, s, p) in enumerate(sizes)])
            self.norms = nn.ModuleList([nn.BatchNorm2d(w) for w in widths[1:]])
            self.short = nn.Sequential(nn.Conv2d(inner, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if inner != out or stride > 1 \
                else None

        def forward(self, x):
            y = x
            for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):
                y = norm(conv(y))
                y = functional.relu(y) if i + 1 < len(self.convs) else y
            return functional.relu(y + (self.short(x) if self.short else x))

    def resnet(blocks, bottleneck):
        layers, inner = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for stage, count in enumerate(blocks):
            for i in range(count):
                channels = 64 << stage
                layers.append(Block(inner, channels, 2 if stage and i == 0 else 1, bottleneck))
                inner = channels * (4 if bottleneck else 1)
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 1000))

    def vgg(cells):
        layers, inner = [], 3
        for cell in cells:
            layers += [nn.MaxPool2d(2, 2)] if cell == "M" else [nn.Conv2d(inner, cell, 3, padding=1), nn.ReLU()]
            inner = inner if cell == "M" else cell
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(),
                             nn.Dropout(), nn.Linear(4096, 1000))

    alexnet = nn.Sequential(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(),
                            nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
                            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(),
                            nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))

    def mobile(inner, out, stride):
        return nn.Sequential(nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
                             nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU6())

    mobilenet = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6(), mobile(32, 64, 1), mobile(64, 128, 2),
                              mobile(128, 128, 1), mobile(128, 256, 2), mobile(256, 256, 1), mobile(256, 512, 2),
                              *[mobile(512, 512, 1) for _ in range(5)], mobile(512, 1024, 2), mobile(1024, 1024, 1),
                              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))

    class Fire(nn.Module):
        def __init__(self, inner, squeeze, expand):
            super().__init__()
            self.squeeze, self.one = nn.Conv2d(inner, squeeze, 1), nn.Conv2d(squeeze, expand, 1)
            self.three = nn.Conv2d(squeeze, expand, 3, padding=1)

        def forward(self, x):
            x = functional.relu(self.squeeze(x))
            return torch.cat([functional.relu(self.one(x)), functional.relu(self.three(x))], 1)

    squeezenet = nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2), Fire(64, 16, 64), Fire(128, 16, 64), nn.MaxPool2d(3, 2),
                               Fire(128, 32, 128), Fire(256, 32, 128), nn.MaxPool2d(3, 2), Fire(256, 48, 192), Fire(384, 48, 192),
                               Fire(384, 64, 256), Fire(512, 64, 256), nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    image, small = torch.empty(BATCH, 3, 224, 224, device="meta"), torch.zeros(BATCH, 64, dtype=torch.int64, device="meta")
    width = 128
    gpt = [Layer(Attention(width, 4, True), mlp(width, 4 * width), width) for _ in range(4)]
    eager = [Layer(Eager(width, 4, False), mlp(width, 4 * width), width) for _ in range(3)]
    bert = [Layer(Attention(width, 4, False), mlp(width, 4 * width), width, after=True) for _ in range(3)]
    llama = [Layer(Attention(width, 4, True, 2, True), Gated(width, 344), width, nn.RMSNorm) for _ in range(4)]
    opt = [Layer(Attention(width, 8, True, None, True), mlp(width, 4 * width, nn.ReLU), width) for _ in range(2)]
    return {
        "alexnet": (alexnet, image), "vgg11": (vgg([64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"]), image),
        "resnet18": (resnet([2, 2, 2, 2], False), image), "resnet50": (resnet([3, 4, 6, 3], True), image),
        "mobilenet": (mobilenet, image), "squeezenet": (squeezenet, image), "vit": (ViT(192, 3, 4), image),
        "gpt2": (Decoder(gpt, width, 512, 64, True), small), "bert": (Decoder(bert, width, 512, 64, False), small),
        "eager": (Decoder(eager, width, 512, 64, False), small),
        "llama": (Decoder(llama, width, 512, 64, False, nn.RMSNorm, False), small), "opt": (Decoder(opt, width, 512, 64, True), small),
    }


def counted(torch, module, example):
    """FLOPs of a sample's forward pass as PyTorch counts them."""
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as counter:
        module(example)
    return counter.get_total_flops() / BATCH


def inside(weft):
    """Runs where there is torch: prints what differs."""
    import torch
    sys.path.insert(0, str(HERE.parents[1] / "tools"))
    import trace_torch
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        with torch.device("meta"):
            all_of_them = architectures(torch)
        for name, (module, example) in all_of_them.items():
            text, skipped = trace_torch.trace(module.eval(), [example], name, "fp32")
            file = pathlib.Path(folder) / f"{name}.yaml"
            file.write_text(text)
            asked = subprocess.run([weft, "inspect", str(file), "--json"], capture_output=True, text=True)
            if asked.returncode or skipped:
                wrong.append(f"{name}: {asked.stderr or 'opaque: ' + ', '.join(skipped)}")
                continue
            found = json.loads(asked.stdout)
            parameters = sum(p.numel() for p in module.parameters())
            flops = counted(torch, module, example)
            if found["parameters"] != parameters:
                wrong.append(f"{name}: {found['parameters']:.0f} parameters, expected {parameters}")
            if abs(found["flops_per_sample"] / flops - 1) > 1e-9:
                wrong.append(f"{name}: {found['flops_per_sample']:.0f} FLOPs of a sample, PyTorch counts {flops:.0f}")
            planned = subprocess.run([weft, "plan", str(file), "dgx-a100:1x4", "--global-batch", "32", "--quick"], capture_output=True, text=True)
            if planned.returncode:
                wrong.append(f"{name}: {planned.stderr}")
    print("\n".join(wrong) or f"{len(all_of_them)} architectures")
    return 1 if wrong else 0


def main():
    weft = sys.argv[1]
    python = sys.argv[2] if len(sys.argv) > 2 else sys.executable
    if len(sys.argv) > 3:
        return inside(weft)
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
        print("no torch")
        return 77
    return subprocess.run([python, __file__, weft, python, "inside"]).returncode


if __name__ == "__main__":
    sys.exit(main())
