#!/usr/bin/env python3
"""Measures by how much kernels and collectives slow each other down on this machine, as a table of Weft.

    torchrun --nproc-per-node 8 tools/measure_overlap.py --device-name H100-SXM5-80GB --out overlap.csv
    weft profile import overlap.csv --db my.sqlite

For every kind of kernel two factors are written (docs/reference/profile.md, Interference):

    work_slowdown      time of the kernels beside all-reduces / their time alone
    transfer_slowdown  time of the all-reduces beside such kernels / their time alone

Each is the median of several rounds and the mean of all ranks, and at least 1. What is timed is always covered by twice as
much of the other. On GPUs both run on streams of their own, timed by events, with NCCL; on CPUs the collectives run in a
second thread, with gloo. Needs only torch.
"""
import argparse
import csv
import math
import statistics
import threading
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F


class Gpu:
    """Two streams of one GPU."""
    backend, dtype, scale = "nccl", torch.bfloat16, 1

    def __init__(self, rank):
        torch.cuda.set_device(rank % torch.cuda.device_count())
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]

    def run(self, lanes):
        """Seconds of each lane, a function and how often it is called, when both begin together."""
        marks = []
        torch.cuda.synchronize()
        dist.barrier()
        for stream, (launch, calls) in zip(self.streams, lanes):
            with torch.cuda.stream(stream):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                for _ in range(calls):
                    launch()
                end.record()
                marks.append((begin, end))
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in marks]


class Cpu:
    """Two threads of one process."""
    backend, dtype, scale = "gloo", torch.float32, 16

    def __init__(self, _):
        self.device = torch.device("cpu")
        torch.set_num_threads(1)

    def run(self, lanes):
        seconds = [0.0, 0.0]

        def work(lane):
            launch, calls = lanes[lane]
            begin = time.perf_counter()
            for _ in range(calls):
                launch()
            seconds[lane] = time.perf_counter() - begin

        dist.barrier()
        other = threading.Thread(target=work, args=(1,))
        other.start()
        work(0)
        other.join()
        return seconds


def kernels(machine):
    """A typical call of every kind, by Weft's name."""
    def rand(*size):
        return torch.randn(*size, device=machine.device, dtype=machine.dtype)

    n = 4096 // machine.scale
    a, b, x = rand(n, n), rand(n, n), rand(n, 4 * n)
    q = rand(2, 16, n // 2, 64)
    experts, tokens = rand(8, n // 4, n), rand(8, n, n // 4)
    image, taps = rand(8, 64, n // 64, n // 64), rand(64, 64, 3, 3)
    ids = torch.randint(0, n, (n,), device=machine.device)
    weight = torch.nn.Parameter(rand(4 * n, n))
    weight.grad = rand(4 * n, n)
    adam = torch.optim.AdamW([weight], fused=machine.backend == "nccl")
    out = torch.empty_like(x)
    return {
        "matmul": lambda: a @ b,
        "grouped_matmul": lambda: torch.bmm(tokens, experts),
        "attention": lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        "conv": lambda: F.conv2d(image, taps, padding=1),
        "norm": lambda: F.layer_norm(x, x.shape[-1:]),
        "softmax": lambda: F.softmax(x, -1),
        "elementwise": lambda: F.gelu(x),
        "dropout": lambda: F.dropout(x, 0.1, True),
        "embedding": lambda: F.embedding(ids, x),
        "loss": lambda: F.cross_entropy(x, ids),
        "copy": lambda: out.copy_(x),
        "optimizer": adam.step,
    }


def agreed(machine, number):
    """The same whole number on all ranks: the largest."""
    value = torch.tensor([math.ceil(number)], device=machine.device)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return max(1, int(value))


def mean(machine, number):
    value = torch.tensor([number], device=machine.device)
    dist.all_reduce(value)
    return float(value) / dist.get_world_size()


def factors(machine, launch, reduce, seconds, rounds):
    """Both factors of one kind of kernel."""
    nothing = (lambda: None, 0)
    machine.run([(launch, 2), (reduce, 2)])
    work = agreed(machine, seconds / (machine.run([(launch, 3), nothing])[0] / 3 + 1e-9))
    sends = agreed(machine, seconds / (machine.run([nothing, (reduce, 3)])[1] / 3 + 1e-9))

    def median(lanes, lane):
        return statistics.median(machine.run(lanes)[lane] for _ in range(rounds))

    alone = median([(launch, work), nothing], 0), median([nothing, (reduce, sends)], 1)
    beside = (median([(launch, work), (reduce, 2 * sends)], 0),
              median([(launch, 2 * work), (reduce, sends)], 1))
    return [max(1.0, mean(machine, b / a)) for a, b in zip(alone, beside)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device-name", required=True, help="as in Weft's device table")
    parser.add_argument("--out", default="overlap.csv")
    parser.add_argument("--mib", type=float, default=64, help="size of an all-reduce (64)")
    parser.add_argument("--seconds", type=float, default=0.02, help="length of what is timed (0.02)")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    kind = Gpu if torch.cuda.is_available() else Cpu
    dist.init_process_group(kind.backend)
    machine = kind(dist.get_rank())
    size = int(arguments.mib * 2**20) // torch.tensor([], dtype=machine.dtype).element_size()
    buffer = torch.zeros(size, device=machine.device, dtype=machine.dtype)
    rows = [[arguments.device_name, name] + [f"{f:.4f}" for f in factors(
        machine, launch, lambda: dist.all_reduce(buffer), arguments.seconds, arguments.rounds)]
            for name, launch in kernels(machine).items()]
    if dist.get_rank() == 0:
        with open(arguments.out, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow("device kernel work_slowdown transfer_slowdown".split())
            out.writerows(rows)
        print(f"{len(rows)} kinds of kernels on {dist.get_world_size()} ranks: {arguments.out}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
