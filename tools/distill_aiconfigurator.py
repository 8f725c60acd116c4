#!/usr/bin/env python3
"""Thins out AIConfigurator's tables of measured operators into data/profiles/aiconfigurator.

  distill_aiconfigurator.py FOLDER [OUT]

FOLDER holds the tables as CSV, with the columns of ai-dynamo/aiconfigurator's parquet files (Apache-2.0,
commit 095f58a5): gemm, context_attention, moe, nccl, wideep_deepep_normal. Of each shape, device and
precision the median over frameworks and versions is kept, `samples` says over how many; `half` says
whether a row may be fitted on ("fit") or only judges ("held-out"): a bit of a hash of the shape, so that
a shape that judges one device is fitted on for none.

What is kept: every product of sizes in PRODUCT_SIZES; causal attention of at least LEAST_ATTENTION
operations, three of eight shapes; mixtures with balanced routing, three of sixteen shapes; NCCL from
64 KiB on; DeepEP from 512 tokens on with the number of units that its authors use. What is left out
because it times something else: products by block of vLLM where TensorRT-LLM's are there (none takes
less than 0.1 to 0.3 ms, the host's time), vLLM's attention (the kernel alone, while TensorRT-LLM times
the layer), kernels for least latency.
"""
import collections
import csv
import hashlib
import pathlib
import statistics
import sys

PRODUCT_SIZES = {512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 51200}
LEAST_ATTENTION = 2e10  # FLOPs under the mask: shorter kernels are launches
HEADS = {8, 16, 32, 40, 64, 96}
LEAST_MESSAGE = 64 << 10  # bytes
LEAST_TOKENS = 512
UNITS = {"20", "24"}  # DeepEP's own tests use 24 of a Hopper's units, its models 20


BY_BLOCK_ELSEWHERE = {"l40s"}  # systems whose products by block only vLLM has


def digest(shape):
    return hashlib.sha256(" ".join(str(number) for number in shape).encode()).digest()


def half(*shape):
    return "held-out" if digest(shape)[0] & 1 else "fit"


def among(shape, sixteenths):
    return digest(shape)[1] % 16 < sixteenths


def product(row):
    m, n, k = (int(row[name]) for name in "mnk")
    if row["gemm_dtype"] == "fp8_block" and row["framework"] == "vllm" and row["system"] not in BY_BLOCK_ELSEWHERE:
        return None
    if n in PRODUCT_SIZES and k in PRODUCT_SIZES:
        return (row["system"], row["gemm_dtype"], m, n, k), half(m, n, k)
    return None


def attention(row):
    names = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size")
    shape = tuple(int(row[name]) for name in names)
    batch, length, heads, _, depth, window = shape
    operations = 4 * batch * heads * depth * length * min(length / 2, window or length)
    if operations < LEAST_ATTENTION or heads not in HEADS or row["framework"] == "vllm" or not among(shape, 6):
        return None
    return (row["system"], row["attn_dtype"], *shape), half(*shape)


def experts(row):
    names = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
    shape = tuple(int(row[name]) for name in names)
    if row["distribution"] != "balanced" or "min_latency" in row["kernel_source"] or not among(shape, 3):
        return None
    kind = "nongated" if "nongated" in row["kernel_source"] else "gated"
    return (row["system"], row["moe_dtype"], kind, *shape), half(*shape)


def nccl(row):
    elements, devices = int(row["message_size"]), int(row["num_gpus"])
    if 2 * elements < LEAST_MESSAGE:
        return None
    return (row["system"], row["op_name"], row["nccl_dtype"], devices, elements), half(row["op_name"], devices, elements)


def deepep(row):
    nodes, tokens = int(row["node_num"]), int(row["num_token"])
    if tokens < LEAST_TOKENS or row["dispatch_sms"] not in UNITS:
        return None
    if row["system"] == "h200_sxm" and nodes > 1:
        return None  # copies of h100_sxm's
    names = ("hidden_size", "num_token", "num_topk", "num_experts", "dispatch_sms")
    shape = tuple(int(row[name]) for name in names)
    return (row["system"], nodes, *shape), half(nodes, *shape)


TABLES = {
    "gemm": (product, ("system", "gemm_dtype", "m", "n", "k"), ("latency",)),
    "context_attention": (
        attention,
        ("system", "attn_dtype", "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size"),
        ("latency",),
    ),
    "moe": (
        experts,
        ("system", "moe_dtype", "kernel_source", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts",
         "moe_tp_size", "moe_ep_size"),
        ("latency",),
    ),
    "nccl": (nccl, ("system", "op_name", "nccl_dtype", "num_gpus", "message_size"), ("latency",)),
    "wideep_deepep_normal": (
        deepep,
        ("system", "node_num", "hidden_size", "num_token", "num_topk", "num_experts", "dispatch_sms"),
        ("dispatch_transmit_us", "combine_transmit_us"),
    ),
}


def thin(source, target, select, names, times):
    found, halves = collections.defaultdict(list), {}
    with open(source, newline="") as file:
        for row in csv.DictReader(file):
            selected = select(row)
            if selected:
                found[selected[0]].append([float(row[time]) for time in times])
                halves[selected[0]] = selected[1]
    with open(target, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([*names, *times, "samples", "half"])
        for key, values in sorted(found.items()):
            medians = [f"{statistics.median(column):.5g}" for column in zip(*values)]
            out.writerow([*key, *medians, len(values), halves[key]])
    print(f"{target}: {len(found)} rows")


def main():
    source = pathlib.Path(sys.argv[1])
    here = pathlib.Path(__file__).resolve().parent.parent / "data/profiles/aiconfigurator"
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else here
    target.mkdir(parents=True, exist_ok=True)
    for name, (select, names, times) in TABLES.items():
        thin(source / f"{name}.csv", target / f"{name}.csv", select, names, times)


if __name__ == "__main__":
    main()
