#!/usr/bin/env python3
"""Times the kernels Weft knows on this machine's accelerator through PyTorch, as Weft CSV.

    python3 tools/measure_torch.py --device-name H200-SXM-141GB --out h200_ops.csv
    weft profile import h200_ops.csv --db my.sqlite

Every time is the median of repeated calls between device events, on random data, with inputs
rotated through more memory than the cache holds; what takes under a millisecond is captured in a
graph, so that the host's launch gaps do not count. Those are told apart, as time per operator, at
the end.
Shapes follow model.h's kernels. Needs only torch.
"""
import argparse
import csv
import statistics
import sys
import time

import torch
import torch.nn.functional as F

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32,
          "tf32": torch.float32}
CACHE_BYTES = 256 << 20


def elapsed_ms(launch):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    launch()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def graph_of(sets, launch, calls):
    """The calls as one graph, launched without the host's gaps; rotates through the input sets."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for i in range(calls):
            launch(*sets[i % len(sets)])
    return graph


def timed(make, launch, budget_ms=12.0):
    """Median ns of one call and how many were timed."""
    first = make()
    size = sum(t.numel() * t.element_size() for t in first if torch.is_tensor(t))
    sets = [first] + [make() for _ in range(min(8, CACHE_BYTES // max(size, 1 << 20)))]
    for inputs in sets:
        launch(*inputs)
    torch.cuda.synchronize()
    once = max(min(elapsed_ms(lambda: launch(*first)) for _ in range(3)), 1e-3)
    calls = max(1, min(20, int(1.0 / once)))
    run = graph_of(sets, launch, calls).replay if once < 1.0 else lambda: launch(*first)
    run()
    repeats = max(5, min(40, int(budget_ms / (once * calls))))
    samples = [elapsed_ms(run) / calls * 1e6 for _ in range(repeats)]
    return statistics.median(samples), repeats * calls


def launch_overhead():
    """Host ns per operator when kernels are too short to matter: forward, and backward."""
    x = torch.randn(64, device="cuda", requires_grad=True)
    def chain():
        y = x
        for _ in range(500):
            y = torch.sin(y)
        return y
    chain().backward(torch.ones_like(x))
    torch.cuda.synchronize()
    forward, backward = [], []
    for _ in range(7):
        start = time.perf_counter_ns()
        y = chain()
        torch.cuda.synchronize()
        middle = time.perf_counter_ns()
        y.backward(torch.ones_like(x))
        torch.cuda.synchronize()
        forward.append((middle - start) / 500)
        backward.append((time.perf_counter_ns() - middle) / 500)
    return statistics.median(forward), statistics.median(backward)


def rand(*size, dtype):
    return torch.randn(*size, device="cuda", dtype=dtype)


class Table:
    def __init__(self, path, device, source):
        self.file = open(path, "w", newline="")
        self.out = csv.writer(self.file)
        self.out.writerow("device kernel phase dtype shape ns samples source".split())
        self.device, self.source, self.rows = device, source, 0

    def add(self, kernel, phase, dtype, shape, make, launch):
        text = " ".join(f"{k}={v}" for k, v in shape.items())
        try:
            ns, samples = timed(make, launch)
        except torch.cuda.OutOfMemoryError:
            print(f"{kernel} {phase} {text}: out of memory, skipped", file=sys.stderr)
            torch.cuda.empty_cache()
            return
        row = [self.device, kernel, phase, dtype, text, f"{ns:.0f}", samples, self.source]
        self.out.writerow(row)
        self.rows += 1


def matmuls(table, dtype):
    t = DTYPES[dtype]
    rows = [128, 512, 1024, 2048, 4096, 8192, 16384] if dtype == "bf16" else [1024, 4096]
    layers = [(3072, 1024), (1024, 1024), (4096, 1024), (1024, 4096), (6144, 2048), (2048, 2048),
              (8192, 2048), (2048, 8192), (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336),
              (10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672), (1280, 8192),
              (8192, 1024), (7168, 8192), (8192, 3584), (32000, 4096), (128256, 4096),
              (1536, 5120), (5120, 640), (3456, 5120)]
    for m in rows:
        for n, k in layers:
            if 2.0 * m * n * k > 4e13:
                continue
            shapes = {"forward": (m, n, k, "TN"), "backward_input": (m, k, n, "NN"),
                      "backward_weight": (n, k, m, "NT")}
            for phase, (a, b, c, layout) in shapes.items():
                if layout == "TN":
                    make = lambda: (rand(a, c, dtype=t), rand(b, c, dtype=t))
                    launch = lambda x, w: torch.mm(x, w.t())
                elif layout == "NN":
                    make = lambda: (rand(a, c, dtype=t), rand(c, b, dtype=t))
                    launch = torch.mm
                else:
                    make = lambda: (rand(c, a, dtype=t), rand(c, b, dtype=t))
                    launch = lambda g, x: torch.mm(g.t(), x)
                shape = {"batch": 1, "m": a, "n": b, "k": c}
                table.add("matmul", phase, dtype, shape, make, launch)


def batched(table, dtype):
    t = DTYPES[dtype]
    for b in (16, 32, 64):
        for s in (512, 1024, 2048):
            for d in (64, 128):
                table.add("matmul", "forward", dtype, {"batch": b, "m": s, "n": s, "k": d},
                          lambda: (rand(b, s, d, dtype=t), rand(b, d, s, dtype=t)), torch.bmm)
                table.add("matmul", "forward", dtype, {"batch": b, "m": s, "n": d, "k": s},
                          lambda: (rand(b, s, s, dtype=t), rand(b, s, d, dtype=t)), torch.bmm)


def attention(table, dtype):
    t = DTYPES[dtype]
    cases = [(b, h, kv, s, d) for b, s in ((1, 1024), (1, 2048), (1, 4096), (1, 8192), (1, 16384),
                                           (4, 1024), (4, 2048), (2, 4096))
             for h, kv, d in ((8, 8, 128), (32, 32, 128), (32, 8, 128), (16, 16, 64), (12, 12, 64),
                              (64, 8, 128))]
    for b, h, kv, s, d in cases:
        attend(table, dtype, (1, 0), b, h, kv, s, d)


def long_batches(table, dtype):
    """Attention of more heads and samples, down to where time grows with their number."""
    for h, kv, d in ((32, 32, 64), (32, 8, 64), (24, 8, 128), (32, 32, 80), (64, 64, 128),
                     (32, 8, 128), (64, 8, 128)):
        for b, s in ((1, 1024), (16, 1024), (1, 2048), (8, 2048), (1, 4096), (4, 4096), (1, 8192),
                     (4, 8192)):
            if (h, kv, d) in ((32, 8, 128), (64, 8, 128)) and b == 1:
                continue
            attend(table, dtype, (1,), b, h, kv, s, d)


def attend(table, dtype, masks, b, h, kv, s, d):
    t = DTYPES[dtype]
    for causal in masks:
        shape = {"batch": b, "heads": h, "kv_heads": kv, "q": s, "kv": s, "depth": d,
                 "value_depth": d, "causal": causal}
        def make():
            q = rand(b, h, s, d, dtype=t).requires_grad_()
            k = rand(b, kv, s, d, dtype=t).requires_grad_()
            v = rand(b, kv, s, d, dtype=t).requires_grad_()
            return q, k, v
        def run(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal),
                                                  enable_gqa=h != kv)
        table.add("attention", "forward", dtype, shape, make, run)
        def make_backward():
            q, k, v = make()
            out = run(q, k, v)
            return q, k, v, out, torch.randn_like(out)
        def back(q, k, v, out, grad):
            torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)
        table.add("attention", "backward_input", dtype, shape, make_backward, back)


def backward_of(function, *shapes, dtype):
    def make():
        inputs = [rand(*s, dtype=dtype).requires_grad_() for s in shapes]
        out = function(*inputs)
        return (*inputs, out, torch.randn_like(out))
    def launch(*all_of_it):
        *inputs, out, grad = all_of_it
        torch.autograd.grad(out, inputs, grad, retain_graph=True)
    return make, launch


def bytes_bound(table, dtype):
    t = DTYPES[dtype]
    for rows in (512, 2048, 8192, 32768):
        for cols in (1024, 2048, 4096, 8192):
            w, bias = rand(cols, dtype=t), rand(cols, dtype=t)
            norm = lambda x: F.layer_norm(x, (cols,), w, bias)
            shape = {"rows": rows, "cols": cols}
            table.add("norm", "forward", dtype, shape, lambda: (rand(rows, cols, dtype=t),), norm)
            back = backward_of(norm, (rows, cols), dtype=t)
            table.add("norm", "backward_input", dtype, shape, *back)
    for heads_rows, cols in ((16384, 1024), (65536, 2048), (131072, 2048)):
        soft = lambda x: F.softmax(x, -1)
        shape = {"rows": heads_rows, "cols": cols, "causal": 0}
        make = lambda: (rand(heads_rows, cols, dtype=t),)
        table.add("softmax", "forward", dtype, shape, make, soft)
        back = backward_of(soft, (heads_rows, cols), dtype=t)
        table.add("softmax", "backward_input", dtype, shape, *back)
    for elements in (1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28):
        shape = {"elements": elements}
        make = lambda: (rand(elements, dtype=t),)
        table.add("elementwise", "forward", dtype, shape, make, F.gelu)
        back = backward_of(F.gelu, (elements,), dtype=t)
        table.add("elementwise", "backward_input", dtype, shape, *back)
        drop = lambda x: F.dropout(x, 0.1, True)
        table.add("dropout", "forward", dtype, shape, make, drop)
        back = backward_of(drop, (elements,), dtype=t)
        table.add("dropout", "backward_input", dtype, shape, *back)
        table.add("copy", "forward", dtype, {"bytes": elements * t.itemsize},
                  make, torch.clone)


def lookups_and_losses(table, dtype):
    t = DTYPES[dtype]
    for rows, width, vocab in ((2048, 2048, 50304), (4096, 4096, 32000), (8192, 8192, 128256)):
        shape = {"rows": rows, "width": width, "vocab": vocab}
        weight = rand(vocab, width, dtype=t)
        ids = lambda: (torch.randint(vocab, (rows,), device="cuda"),)
        table.add("embedding", "forward", dtype, shape, ids, lambda i: F.embedding(i, weight))
        def make():
            w = weight.detach().requires_grad_()
            out = F.embedding(*ids(), w)
            return w, out, torch.randn_like(out)
        table.add("embedding", "backward_weight", dtype, shape, make,
                  lambda w, out, g: torch.autograd.grad(out, w, g, retain_graph=True))
    for rows, classes in ((2048, 50304), (4096, 32000), (4096, 128256)):
        shape = {"rows": rows, "classes": classes}
        target = torch.randint(classes, (rows,), device="cuda")
        loss = lambda x: F.cross_entropy(x.float(), target)
        table.add("loss", "forward", dtype, shape, lambda: (rand(rows, classes, dtype=t),), loss)
        back = backward_of(loss, (rows, classes), dtype=t)
        table.add("loss", "backward_input", dtype, shape, *back)


def compiled_losses(table, dtype):
    t = DTYPES[dtype]
    for rows, classes in ((2048, 50304), (8192, 50304), (32768, 50304), (2048, 32000), (16384, 32000),
                          (2048, 128256), (8192, 128256), (32768, 128256)):
        loss = torch.compile(lambda x, ids: F.cross_entropy(x.float(), ids), dynamic=False)
        target = torch.randint(classes, (rows,), device="cuda")
        shape = {"rows": rows, "classes": classes}
        table.add("loss_compiled", "forward", dtype, shape, lambda: (rand(rows, classes, dtype=t),),
                  lambda x: loss(x, target))
        back = backward_of(lambda x: loss(x, target), (rows, classes), dtype=t)
        table.add("loss_compiled", "backward_input", dtype, shape, *back)
        torch._dynamo.reset()


def optimizer(table):
    for parameters in (1 << 20, 1 << 24, 1 << 27, 1 << 29):
        p = torch.nn.Parameter(torch.randn(parameters, device="cuda"))
        p.grad = torch.randn_like(p)
        adam = torch.optim.AdamW([p], fused=True, capturable=True)
        table.add("optimizer", "forward", "fp32", {"parameters": parameters}, lambda: (p,),
                  lambda _: adam.step())
        del p, adam
        torch.cuda.empty_cache()


def grouped(table, dtype):
    if not hasattr(torch, "_grouped_mm") or dtype != "bf16":
        return
    t = DTYPES[dtype]
    for groups, m, n, k in ((8, 1024, 14336, 4096), (8, 1024, 4096, 14336), (8, 256, 28672, 4096),
                            (64, 384, 1408, 2048), (64, 384, 2048, 1408), (32, 1024, 2048, 7168),
                            (16, 2048, 4096, 7168), (64, 64, 1408, 2048), (4, 4096, 14336, 4096)):
        ends = torch.arange(1, groups + 1, device="cuda", dtype=torch.int32) * m
        make = lambda: (rand(groups * m, k, dtype=t), rand(groups, n, k, dtype=t))
        table.add("grouped_matmul", "forward", dtype, {"groups": groups, "m": m, "n": n, "k": k},
                  make, lambda x, w: torch._grouped_mm(x, w.transpose(1, 2), offs=ends))


def convolutions(table, dtype):
    t = DTYPES[dtype]
    for n, cin, size, cout, k, stride in ((32, 64, 56, 64, 3, 1), (32, 64, 56, 256, 1, 1),
                                          (32, 256, 56, 128, 1, 1), (32, 128, 28, 128, 3, 1),
                                          (32, 256, 14, 256, 3, 1), (32, 512, 7, 512, 3, 1),
                                          (32, 3, 224, 64, 7, 2), (32, 256, 28, 256, 3, 2)):
        out = (size + 2 * (k // 2) - k) // stride + 1
        shape = {"images": n, "out_channels": cout, "height": out, "width": out, "in_channels": cin,
                 "kernel_h": k, "kernel_w": k, "stride": stride}
        run = lambda x, w: F.conv2d(x, w, stride=stride, padding=k // 2)
        table.add("conv", "forward", dtype, shape,
                  lambda: (rand(n, cin, size, size, dtype=t), rand(cout, cin, k, k, dtype=t)), run)


PARTS = (matmuls, batched, attention, long_batches, bytes_bound, lookups_and_losses, compiled_losses,
         grouped, convolutions)


def measure_all(table, dtypes, parts):
    for dtype in dtypes:
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        torch.backends.cudnn.allow_tf32 = dtype == "tf32"
        for part in PARTS:
            if part.__name__ not in parts:
                continue
            if part in (attention, long_batches, compiled_losses) and dtype not in ("bf16", "fp16"):
                continue
            part(table, dtype)
            torch.cuda.empty_cache()
            print(f"{dtype} {part.__name__}: {table.rows} rows", file=sys.stderr, flush=True)
    if "optimizer" in parts:
        optimizer(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device-name", default=None, help="as in Weft's device table")
    parser.add_argument("--out", default="measured_ops.csv")
    parser.add_argument("--dtypes", default="bf16,fp16,tf32")
    names = [part.__name__ for part in PARTS] + ["optimizer"]
    parser.add_argument("--parts", default=",".join(names), help="of: " + ", ".join(names))
    options = parser.parse_args()
    name = options.device_name or torch.cuda.get_device_name()
    source = f"tools/measure_torch.py, torch {torch.__version__}, {torch.cuda.get_device_name()}"
    table = Table(options.out, name, source)
    torch.backends.cudnn.benchmark = True
    # A stream of our own: a backward pass runs on its forward's, and graphs refuse stream 0.
    with torch.cuda.stream(torch.cuda.Stream()):
        measure_all(table, options.dtypes.split(","), options.parts.split(","))
    table.file.close()
    forward, backward = launch_overhead()
    print(f"host overhead per operator: forward {forward:.0f} ns, backward {backward:.0f} ns")
    print(f"{table.rows} measurements in {options.out}")


if __name__ == "__main__":
    main()
