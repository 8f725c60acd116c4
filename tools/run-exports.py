#!/usr/bin/env python3
"""Starts exported files with all their ranks on one GPU, and records what each rank held.

  run-exports.py export WEFT FOLDER                 writes the files of CASES and their predictions
  run-exports.py run FOLDER [--megatron TREE]       on the machine with the GPU; prints a row for each case

Several ranks share one GPU under the real NCCL when each has a host id of its own and shared memory and peer copies
are off: they then talk by way of sockets. Times mean nothing there; memory per rank and the loss do. Cases of
Megatron-LM need its source tree, and run its own modules (no Transformer Engine, no Apex).
"""
import argparse
import json
import os
import pathlib
import re
import runpy
import shlex
import subprocess
import sys
import sysconfig

HERE = pathlib.Path(__file__).resolve()
STEPS = 6
SECONDS = 90  # that a case may take
SMALL = "--set attention=eager --dtype bf16 --policy mixed-fp32-gradients"
# Name, ranks, format, and what is exported.
CASES = [
    ("fsdp-2-zero3", 2, "fsdp", "gpt3-1.3b hgx-h200:1x2 --zero 3 --microbatch 2 --global-batch 8 --policy fsdp"),
    ("fsdp-2-zero2", 2, "fsdp", "gpt3-1.3b hgx-h200:1x2 --zero 2 --microbatch 1 --global-batch 4 --policy fsdp"),
    ("fsdp-4-zero3", 4, "fsdp", "gpt3-1.3b hgx-h200:1x4 --zero 3 --recompute full --microbatch 4 --global-batch 16 "
                                "--policy fsdp"),
    ("fsdp-4-llama", 4, "fsdp", "llama3-8b hgx-h200:1x4 --set layers=8 --seq 4096 --zero 3 --microbatch 1 "
                                "--global-batch 8 --policy fsdp"),
    ("megatron-tp2", 2, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x2 --tp 2 --global-batch 8 {SMALL}"),
    ("megatron-pp2", 2, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x2 --pp 2 --global-batch 8 {SMALL}"),
    ("megatron-dp2", 2, "megatron@0.16", "gpt3-1.3b hgx-h200:1x2 --zero 1 --global-batch 8 --set attention=eager "
                                         "--dtype bf16 --policy distributed"),
    ("megatron-full", 2, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x2 --recompute full --microbatch 2 --global-batch 8 "
                                          f"{SMALL}"),
    ("megatron-tp2-pp2", 4, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x4 --tp 2 --pp 2 --global-batch 8 {SMALL}"),
    ("megatron-pieces", 2, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x2 --pp 2 --virtual 2 --global-batch 8 {SMALL}"),
    ("megatron-tp2-dp2", 4, "megatron@0.16", "gpt3-1.3b hgx-h200:1x4 --tp 2 --zero 1 --global-batch 8 "
                                             "--set attention=eager --dtype bf16 --policy distributed"),
    ("megatron-pp4", 4, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x4 --pp 4 --recompute full --global-batch 16 {SMALL}"),
]
# What a machine without Transformer Engine and Apex needs beside the exported arguments.
LOCAL = ("--transformer-impl local --no-persist-layer-norm --no-gradient-accumulation-fusion --no-rope-fusion "
         "--mock-data --tokenizer-type NullTokenizer --eval-iters 0 --num-workers 0 --split 99,1,0 "
         "--no-save-optim --no-save-rng --distributed-timeout-minutes 5").split()
LOSS = re.compile(r"loss:? +([0-9]+\.[0-9]+(?:[Ee][-+]?[0-9]+)?)")


def export(weft, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, _, form, arguments in CASES:
        words = shlex.split(arguments)
        subprocess.run([weft, "export", *words, "--to", form, "-o", folder / name], check=True)
        done = subprocess.run([weft, "simulate", *words, "--json"], check=False, capture_output=True, text=True)
        (folder / f"{name}.json").write_text(done.stdout)


def megatron_words(path):
    body = path.read_text().split("MEGATRON_ARGS=(")[1].rsplit(")", 1)[0]
    words = [word for line in body.splitlines() for word in shlex.split(line, comments=True)]
    at = words.index("--vocab-size")
    words[at + 1] = str(int(words[at + 1]) - 1)  # NullTokenizer adds one
    return [*words, *LOCAL, "--train-iters", str(STEPS)]


def build_helpers(tree):
    """Megatron-LM's C++ functions for data sets, with the headers that PyTorch brings along."""
    import torch.utils.cpp_extension as extension
    folder = tree / "megatron/core/datasets"
    out = folder / f"helpers_cpp{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not out.exists():
        includes = [f"-I{path}" for path in [*extension.include_paths(), sysconfig.get_paths()["include"]]]
        subprocess.run(["c++", "-O3", "-shared", "-std=c++17", "-fPIC", *includes, str(folder / "helpers.cpp"), "-o",
                        str(out)], check=True)


def one_rank(script, stats, words):
    """In a rank's own process: the script as it is, and at its end what the device's memory held."""
    import torch
    tree = pathlib.Path(script).parent
    sys.argv = [script, *words]
    sys.path.insert(0, str(tree))
    if (tree / "megatron").is_dir():
        import megatron.core.datasets.utils as utils
        utils.compile_helpers = lambda: None
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        pathlib.Path(stats).write_text(json.dumps({"allocated": torch.cuda.max_memory_allocated(),
                                                   "reserved": torch.cuda.max_memory_reserved()}))


def start(name, ranks, script, words, folder, port):
    processes = []
    for rank in range(ranks):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NCCL_HOSTID": f"{name}-{rank}",
               "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo",
               "CUDA_DEVICE_MAX_CONNECTIONS": "1", "OMP_NUM_THREADS": "2"}
        log = open(folder / f"{name}.{rank}.log", "w")
        command = [sys.executable, str(HERE), "rank", str(script), str(folder / f"{name}.{rank}.stats"), *words]
        processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT))
    return processes


def finish(processes, seconds):
    codes = []
    for process in processes:
        try:
            codes.append(process.wait(timeout=seconds))
        except subprocess.TimeoutExpired:
            codes.append(None)
    for process in processes:
        process.kill()
    return codes


def row(folder, name, ranks, codes):
    logs = [(folder / f"{name}.{rank}.log").read_text() for rank in range(ranks)]
    losses = [float(x) for log in logs for x in LOSS.findall(log)]
    stats = [folder / f"{name}.{rank}.stats" for rank in range(ranks)]
    held = [json.loads(path.read_text())["allocated"] if path.exists() else 0 for path in stats]
    predicted = json.loads((folder / f"{name}.json").read_text() or "{}")
    stages = predicted.get("memory", [])
    expected = [stages[rank * len(stages) // ranks]["peak"] if stages else 0 for rank in range(ranks)]
    return {"case": name, "ranks": ranks, "codes": codes, "first_loss": losses[0] if losses else None,
            "last_loss": losses[-1] if losses else None, "allocated": held, "predicted": expected,
            "error": [round(100 * (e / h - 1), 2) if h else None for e, h in zip(expected, held)],
            "tail": "" if losses else next((log for log in logs if "Error" in log), logs[0])[-1500:]}


def run(folder, tree, only):
    rows = []
    if tree:
        build_helpers(tree)
    for number, (name, ranks, form, _) in enumerate(CASES):
        if only and only not in name or form.startswith("megatron") and not tree:
            continue
        path = folder / name
        if form.startswith("megatron"):
            script, words = tree / "pretrain_gpt.py", megatron_words(path)
        else:
            script, words = folder / f"{name}.py", ["--steps", str(STEPS)]
            script.write_text(path.read_text())
        rows.append(row(folder, name, ranks, finish(start(name, ranks, script, words, folder, 29500 + number), SECONDS)))
        print(json.dumps(rows[-1]), flush=True)
    (folder / "rows.json").write_text(json.dumps(rows, indent=1))


def main():
    if sys.argv[1:2] == ["rank"]:
        return one_rank(sys.argv[2], sys.argv[3], sys.argv[4:])
    about = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    about.add_argument("what", choices=["export", "run"])
    about.add_argument("paths", nargs="+", type=pathlib.Path)
    about.add_argument("--megatron", type=pathlib.Path)
    about.add_argument("--only", default="")
    given = about.parse_args()
    if given.what == "export":
        return export(given.paths[0].resolve(), given.paths[1])
    return run(given.paths[0].resolve(), given.megatron.resolve() if given.megatron else None, given.only)


if __name__ == "__main__":
    sys.exit(main())
