#!/usr/bin/env python3
"""Starts exported files with all their ranks on one GPU, and records what each rank held.

  run-exports.py export WEFT FOLDER                 writes the files of CASES and their predictions
  run-exports.py run FOLDER [--megatron TREE]       on the machine with the GPU; a row for each case is printed and
                                                    written into rows.json and rows.csv
  run-exports.py table WEFT FOLDER                  measured and predicted memory, predicted anew
  run-exports.py rows FOLDER                        rows of data/validation/weft_h200_ranks.csv

Several ranks share one GPU under the real NCCL when each has a host id of its own and shared memory and peer copies
are off: they then talk by way of sockets. Times mean nothing there; memory per rank and the loss do. Cases of the form `torch`
have degrees that no exported script has; tools/torch_ranks.py makes them of the script's replicas. Cases run side
by side as long as their predicted memory is within the GPU's. Every step trains on the same batch, so that the loss
falls. Cases of Megatron-LM need its source tree, and run its own modules (no Transformer Engine, no Apex).
"""
import argparse
import array
import csv
import json
import os
import pathlib
import random
import re
import runpy
import shlex
import subprocess
import sys
import sysconfig
import time

HERE = pathlib.Path(__file__).resolve()
STEPS = int(os.environ.get("STEPS", "8"))
GPU_BYTES = 132 << 30     # that ranks may be predicted to take together, of an H200's 140 GiB
OUTSIDE_BYTES = 3 << 29   # of a rank: context, libraries, communicators
CAUTION = 1.05            # Megatron-LM reserved up to 6 % more than predicted, FSDP 17 %: GPU_BYTES leaves room for that
RANKS_AT_ONCE = 16
LOCAL_MODULES = "--set attention=local --dtype bf16 --software megatron-local"
GRADIENTS = f"{LOCAL_MODULES} --policy mixed-fp32-gradients"
FSDP = "--dtype bf16 --policy fsdp --software fsdp-script"
EAGER = f"--set loss=eager {FSDP}"
PARTS = "--set loss=eager --dtype bf16 --policy fsdp --software dtensor-script"
STAGED = "--set loss=eager --dtype bf16 --policy fsdp --software torch-stages"
IN_TORCH = ("--pp", "--virtual", "--schedule", "--cp", "--cp-kind", "--replicate")  # which tools/torch_ranks.py makes
# Name, ranks, format, and what is exported; in an order in which neighbours fill the GPU.
CASES = [
    ("megatron-full", 2, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x2 --recompute full --microbatch 2 --global-batch 8 "
                                          f"{GRADIENTS}"),
    ("fsdp-2-zero2", 2, "fsdp", f"gpt3-1.3b hgx-h200:1x2 --set loss=eager --zero 2 --microbatch 1 --global-batch 4 {FSDP}"),
    ("fsdp-4-zero3", 4, "fsdp", f"gpt3-1.3b hgx-h200:1x4 --set loss=eager --zero 3 --recompute full --microbatch 4 "
                                f"--global-batch 16 {FSDP}"),
    ("megatron-16-bit", 2, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x2 --set layers=8 --recompute full --global-batch 8 "
                                            f"{LOCAL_MODULES} --policy mixed"),
    ("megatron-16-bit-zero1", 2, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x2 --set layers=8 --zero 1 --recompute full "
                                                  f"--global-batch 8 {LOCAL_MODULES} --policy mixed"),
    ("fsdp-2-one-pass", 2, "fsdp", f"gpt3-1.3b hgx-h200:1x2 --set layers=8 --set loss=eager --zero 2 --microbatch 4 "
                                   f"--global-batch 8 {FSDP}"),
    ("megatron-pp4", 4, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x4 --pp 4 --recompute full --global-batch 16 {GRADIENTS}"),
    ("megatron-tp2-dp2", 4, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x4 --tp 2 --zero 1 --global-batch 8 {LOCAL_MODULES} "
                                             f"--policy distributed"),
    ("fsdp-2-zero3", 2, "fsdp", f"gpt3-1.3b hgx-h200:1x2 --set loss=eager --zero 3 --microbatch 2 --global-batch 8 {FSDP}"),
    ("megatron-dp2", 2, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x2 --zero 1 --global-batch 8 {LOCAL_MODULES} "
                                         f"--policy distributed"),
    ("megatron-tp2", 2, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x2 --tp 2 --global-batch 8 {GRADIENTS}"),
    ("megatron-pieces", 2, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x2 --pp 2 --virtual 2 --global-batch 8 {GRADIENTS}"),
    ("fsdp-2-llama", 2, "fsdp", f"llama3-8b hgx-h200:1x2 --set layers=4 --set loss=eager --seq 4096 --zero 3 --microbatch 1 "
                                f"--global-batch 4 {FSDP}"),
    ("megatron-pp2", 2, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x2 --pp 2 --global-batch 8 {GRADIENTS}"),
    ("megatron-tp2-pp2", 4, "megatron@0.16", f"gpt3-1.3b hgx-h200:1x4 --tp 2 --pp 2 --global-batch 8 {GRADIENTS}"),
    ("dtensor-2-sp", 2, "dtensor", f"llama3-8b hgx-h200:1x2 --set layers=4 --seq 4096 --tp 2 --sp --global-batch 2 {PARTS}"),
    ("torch-pp2-gpipe", 2, "torch", f"llama2-7b hgx-h200:1x2 --set layers=4 --seq 2048 --pp 2 --schedule gpipe "
                                    f"--global-batch 6 {STAGED}"),
    ("torch-cp2", 2, "torch", f"llama2-7b hgx-h200:1x2 --set layers=4 --seq 8192 --cp 2 --zero 3 --global-batch 2 {STAGED}"),
    ("torch-hsdp", 4, "torch", f"llama3.2-1b hgx-h200:1x4 --set layers=8 --set tied=false --seq 2048 --replicate 2 --zero 3 "
                               f"--microbatch 2 --global-batch 8 {STAGED}"),
    ("torch-pp2-zb-h1", 2, "torch", f"phi3-mini hgx-h200:1x2 --set layers=8 --seq 2048 --pp 2 --schedule zb-h1 --global-batch 6 "
                                    f"{STAGED}"),
    ("dtensor-4-zero3", 4, "dtensor", f"llama3.2-1b hgx-h200:1x4 --set layers=8 --seq 4096 --tp 2 --sp --zero 3 "
                                      f"--recompute full --microbatch 2 --global-batch 4 {PARTS}"),
    ("torch-pp2-1f1b", 2, "torch", f"mistral-7b hgx-h200:1x2 --set layers=4 --seq 4096 --pp 2 --global-batch 4 {STAGED}"),
    ("fsdp-3-qwen", 3, "fsdp", f"qwen3-0.6b hgx-h200:1x3 --set layers=12 --seq 2048 --zero 3 --recompute full --microbatch 4 "
                               f"--global-batch 12 {EAGER}"),
    ("torch-pp2-pieces", 2, "torch", f"llama2-7b hgx-h200:1x2 --set layers=4 --seq 2048 --pp 2 --virtual 2 "
                                     f"--schedule interleaved --global-batch 8 {STAGED}"),
    ("torch-cp4-gather", 4, "torch", f"gpt3-1.3b hgx-h200:1x4 --set layers=6 --set tied=false --seq 8192 --cp 4 "
                                     f"--cp-kind gather --zero 2 --global-batch 4 {STAGED}"),
    ("dtensor-2-plain", 2, "dtensor", f"gpt3-1.3b hgx-h200:1x2 --set layers=8 --tp 2 --microbatch 4 --global-batch 8 {PARTS}"),
    ("torch-pp4-full", 4, "torch", f"phi3-mini hgx-h200:1x4 --set layers=8 --seq 4096 --pp 4 --recompute full --microbatch 2 "
                                   f"--global-batch 16 {STAGED}"),
    ("fsdp-4-1b", 4, "fsdp", f"llama3.2-1b hgx-h200:1x4 --set layers=8 --seq 4096 --zero 2 --microbatch 1 --global-batch 8 "
                             f"{EAGER}"),
    ("torch-pp2-tp2", 4, "torch", f"llama2-7b hgx-h200:1x4 --set layers=4 --seq 4096 --pp 2 --tp 2 --sp --global-batch 4 "
                                  f"{STAGED}"),
    ("torch-pp2-zb-v", 2, "torch", f"llama2-7b hgx-h200:1x2 --set layers=4 --seq 2048 --pp 2 --virtual 2 --schedule zb-v "
                                   f"--global-batch 6 {STAGED}"),
    ("torch-pp2-dp2", 4, "torch", f"phi3-mini hgx-h200:1x4 --set layers=6 --seq 2048 --pp 2 --zero 1 --microbatch 2 "
                                  f"--global-batch 16 {STAGED}"),
    ("fsdp-2-fp32", 2, "fsdp", "gpt2-medium hgx-h200:1x2 --set layers=12 --set loss=eager --zero 2 --microbatch 4 --global-batch 8 "
                               "--dtype fp32 --policy fp32 --software fsdp-script"),
    ("torch-cp2-dp2", 4, "torch", f"phi3-mini hgx-h200:1x4 --set layers=4 --seq 8192 --cp 2 --zero 3 --recompute full "
                                  f"--global-batch 4 {STAGED}"),
    ("torch-pp3-gpipe", 3, "torch", f"llama3-8b hgx-h200:1x3 --set layers=3 --seq 2048 --pp 3 --schedule gpipe --recompute full "
                                    f"--global-batch 6 {STAGED}"),
    ("dtensor-4-sp", 4, "dtensor", f"gpt3-1.3b hgx-h200:1x4 --set layers=12 --tp 4 --sp --microbatch 8 --global-batch 8 {PARTS}"),
]
# What a machine without Transformer Engine and Apex needs beside the exported arguments.
LOCAL = ("--transformer-impl local --no-persist-layer-norm --no-gradient-accumulation-fusion --no-rope-fusion "
         "--mock-data --tokenizer-type NullTokenizer --eval-iters 0 --num-workers 0 --split 99,1,0 "
         "--no-save-optim --no-save-rng --distributed-timeout-minutes 5").split()
LOSS = re.compile(r"loss:? +([0-9]+\.[0-9]+(?:[Ee][-+]?[0-9]+)?)")


def predict(weft, arguments):
    done = subprocess.run([weft, "simulate", *shlex.split(arguments), "--json"], check=False, capture_output=True, text=True)
    return done.stdout


def in_torch(arguments):
    """What no exported script has, for tools/torch_ranks.py, and the rest. With stages gradients stay whole to the last
    micro-batch whether they are then shared or not: a script has no word for ZeRO 1."""
    words, made, left = shlex.split(arguments), [], []
    while words:
        word = words.pop(0)
        (made if word in IN_TORCH else left).extend([word, words.pop(0)] if word in IN_TORCH else [word])
    return made, ["2" if word == "1" and before == "--zero" else word for before, word in zip(["", *left], left)]


def export(weft, folder, only):
    folder.mkdir(parents=True, exist_ok=True)
    for name, _, form, arguments in [case for case in CASES if not only or case[0] in only]:
        words = in_torch(arguments)[1] if form == "torch" else shlex.split(arguments)
        target = "dtensor" if form == "torch" else form
        subprocess.run([weft, "export", *words, "--to", target, "-o", folder / name], check=True)
        (folder / f"{name}.json").write_text(predict(weft, arguments))


def megatron_words(path):
    body = path.read_text().split("MEGATRON_ARGS=(")[1].rsplit(")", 1)[0]
    words = [word for line in body.splitlines() for word in shlex.split(line, comments=True)]
    at = words.index("--vocab-size")
    words[at + 1] = str(int(words[at + 1]) - 1)  # NullTokenizer adds one
    return [*words, *LOCAL, "--train-iters", str(STEPS)]


def fsdp_words(script):
    """A file as long as one sequence and its next token has one place where a sample can begin."""
    sizes = {key: int(re.search(rf'"{key}": (\d+)', script.read_text())[1]) for key in ("seq", "vocab")}
    draw = random.Random(0)
    data = script.with_suffix(".ids")
    data.write_bytes(array.array("I", (draw.randrange(sizes["vocab"]) for _ in range(sizes["seq"] + 2))).tobytes())
    return ["--steps", str(STEPS), "--warmup", "0", "--data", str(data)]


def build_helpers(tree):
    """Megatron-LM's C++ functions for data sets, with the headers that PyTorch brings along."""
    import torch.utils.cpp_extension as extension
    folder = tree / "megatron/core/datasets"
    out = folder / f"helpers_cpp{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not out.exists():
        includes = [f"-I{path}" for path in [*extension.include_paths(), sysconfig.get_paths()["include"]]]
        subprocess.run(["c++", "-O3", "-shared", "-std=c++17", "-fPIC", *includes, str(folder / "helpers.cpp"), "-o",
                        str(out)], check=True)


def watch_memory(torch, stats):
    """Peaks of the passes and of the optimizer's steps apart, what is there between the two, and when each step ended;
    written after each step, so that a run that is ended early leaves them, too."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
    held = {"passes": 0, "step": 0, "between": 0, "reserved": 0, "ends_s": []}

    def note(what):
        held[what] = max(held[what], torch.cuda.max_memory_allocated())
        held["reserved"] = max(held["reserved"], torch.cuda.max_memory_reserved())
        held["between"] = max(held["between"], torch.cuda.memory_allocated())
        held["allocated"] = max(held["passes"], held["step"])
        torch.cuda.reset_peak_memory_stats()
        stats.write_text(json.dumps(held))

    def step_over(*_):
        held["ends_s"].append(time.time())
        note("step")

    register_optimizer_step_pre_hook(lambda *_: note("passes"))
    register_optimizer_step_post_hook(step_over)
    return note


def repeat_batch(words):
    """Megatron-LM's samples by their number within a batch."""
    from megatron.core.datasets import gpt_dataset, utils
    batch = int(words[words.index("--global-batch-size") + 1])
    sample = gpt_dataset.GPTDataset.__getitem__
    gpt_dataset.GPTDataset.__getitem__ = lambda self, number: sample(self, number % batch if number is not None else number)
    utils.compile_helpers = lambda: None


def one_rank(script, stats, words):
    """In a rank's own process: the script as it is, and at its end what the device's memory held."""
    import torch
    tree = pathlib.Path(script).parent
    sys.argv = [script, *words]
    sys.path.insert(0, str(tree))
    note = watch_memory(torch, pathlib.Path(stats))
    if (tree / "megatron").is_dir():
        repeat_batch(words)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        note("passes")


def start(case, folder, tree, port):
    name, ranks, form, arguments = case
    if form.startswith("megatron"):
        script, words = tree / "pretrain_gpt.py", megatron_words(folder / name)
    else:
        script = folder / f"{name}.py"
        script.write_text((folder / name).read_text())
        words = fsdp_words(script) if form == "fsdp" else ["--steps", str(STEPS)]
    if form == "torch":
        script, words = HERE.parent / "torch_ranks.py", [str(script), *in_torch(arguments)[0], *words]
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


def is_over(processes, deadline):
    """All ranks have ended; or one has failed, or the time is up, and the others are ended."""
    codes = [process.poll() for process in processes]
    if None in codes and (any(codes) or time.time() > deadline):
        for process in processes:
            process.kill()
        codes = [process.wait() for process in processes]
    return None not in codes


def predicted_bytes(folder, name, ranks, field):
    stages = json.loads((folder / f"{name}.json").read_text() or "{}").get("memory", [])
    return [stages[rank * len(stages) // ranks][field] if stages else 0 for rank in range(ranks)]


def row(folder, name, ranks, codes):
    logs = [(folder / f"{name}.{rank}.log").read_text(errors="replace") for rank in range(ranks)]
    losses = [float(x) for log in logs for x in LOSS.findall(log)]
    stats = [folder / f"{name}.{rank}.stats" for rank in range(ranks)]
    held = [json.loads(path.read_text()) if path.exists() else {} for path in stats]
    failed = not losses or any(codes)
    return {"case": name, "ranks": ranks, "codes": codes, "losses": losses, "held": held,
            "tail": next((log for log in logs if "Error" in log), logs[0])[-1500:] if failed else ""}


def median_step_s(held):
    ends = held[0].get("ends_s", []) if held else []
    steps = sorted(after - before for before, after in zip(ends, ends[1:]))
    return steps[len(steps) // 2] if steps else 0


def write_rows(folder, rows):
    (folder / "rows.json").write_text(json.dumps(rows, indent=1))
    with open(folder / "rows.csv", "w", newline="") as out:
        lines = csv.writer(out)
        lines.writerow(["case", "ranks", "codes", "losses", "first_loss", "last_loss", "step_s", "allocated_gib",
                        "reserved_gib"])
        for one in rows:
            losses = one["losses"] or [0]
            sizes = [" ".join(f"{held.get(what, 0) / 2**30:.2f}" for held in one["held"]) for what in ("allocated", "reserved")]
            lines.writerow([one["case"], one["ranks"], " ".join(map(str, one["codes"])), len(one["losses"]), losses[0],
                            losses[-1], f"{median_step_s(one['held']):.2f}", *sizes])


def room_for(case, running, folder):
    def takes(name, ranks):
        return sum(int(CAUTION * x) + OUTSIDE_BYTES for x in predicted_bytes(folder, name, ranks, "reserved"))
    cases = [case, *(other for other, _ in running)]
    return (sum(takes(name, ranks) for name, ranks, _, _ in cases) <= GPU_BYTES and
            sum(ranks for _, ranks, _, _ in cases) <= RANKS_AT_ONCE)


def run(folder, tree, only, seconds):
    rows, running, deadline = [], [], time.time() + seconds
    waiting = [case for case in CASES if (not only or case[0] in only) and (tree or not case[2].startswith("megatron"))]
    if tree:
        build_helpers(tree)
    while waiting or running:
        for case in [case for case in waiting if time.time() < deadline]:
            if room_for(case, running, folder) or not running:
                waiting.remove(case)
                running.append((case, start(case, folder, tree, 29500 + CASES.index(case))))
        for case, processes in [one for one in running if is_over(one[1], deadline)]:
            running.remove((case, processes))
            rows.append(row(folder, case[0], case[1], [process.returncode for process in processes]))
            print(json.dumps(rows[-1]), flush=True)
            write_rows(folder, rows)
        if time.time() > deadline:
            waiting = []
        time.sleep(0.5)


def table(weft, folder):
    """A line for each case: its fullest rank, and the mean error over all ranks of all cases."""
    errors = []
    print("| case | ranks | measured | predicted | error | loss, first and last |\n|---|---|---|---|---|---|")
    arguments = {name: words for name, _, _, words in CASES}
    for case in json.loads((folder / "rows.json").read_text()):
        (folder / f"{case['case']}.json").write_text(predict(weft, arguments[case["case"]]))
        measured = [held.get("allocated", 0) for held in case["held"]]
        predicted = predicted_bytes(folder, case["case"], case["ranks"], "peak")
        errors.append(sum(abs(p / m - 1) for p, m in zip(predicted, measured)) / len(measured))
        at = measured.index(max(measured))
        print(f"| {case['case']} | {case['ranks']} | {measured[at] / 2**30:.2f} | {predicted[at] / 2**30:.2f} | "
              f"{100 * (predicted[at] / measured[at] - 1):+.1f} % | {case['losses'][0]:.2f} {case['losses'][-1]:.2f} |")
    print(f"mean over ranks {100 * sum(errors) / len(errors):.1f} %")


def option(arguments, name, default):
    words = shlex.split(arguments)
    return words[words.index(name) + 1] if name in words else default


def remarks(arguments, measured, losses):
    said = [text for word, text in (("--replicate", f"{option(arguments, '--replicate', 1)} copies of shared state"),
                                    ("--cp-kind gather", "keys are gathered at once")) if word in arguments]
    ranks = " ".join(f"{held.get('allocated', 0) / 2**30:.2f}" for held in measured)
    said.append(f"loss {losses[0]:.2f} to {losses[-1]:.2f} in {len(losses)} steps on one batch")
    return "; ".join([*said, f"each rank (GiB): {ranks}"])


def dataset_row(folder, case, framework):
    """A row under the columns that the file has, from the exported plan and what was asked."""
    name, ranks, form, asked = next(one for one in CASES if one[0] == case["case"])
    text = (folder / name).read_text()
    sizes = {key: int(re.search(rf'"{key}": (\d+)', text)[1]) for key in ("layers", "hidden", "ffn", "heads", "kv_heads", "seq",
                                                                          "vocab", "micro_batch", "global_batch")}
    tp, pp, cp = (int(option(asked, f"--{word}", 1)) for word in ("tp", "pp", "cp"))
    dp = ranks // (tp * pp * cp)
    zero, schedule = option(asked, "--zero", 0), option(asked, "--schedule", "1F1B" if pp > 1 else "none")
    peak = max(case["held"], key=lambda held: held["allocated"])
    return {"dataset": "weft_h200_ranks", "case": name, "model": shlex.split(asked)[0], "layers": sizes["layers"],
            "hidden": sizes["hidden"], "ffn": sizes["ffn"], "heads": sizes["heads"], "seq_len": sizes["seq"],
            "kv_heads": sizes["kv_heads"] if sizes["kv_heads"] != sizes["heads"] else "", "vocab": sizes["vocab"],
            "gpu": "H200-SXM", "gpus": ranks, "gpus_per_node": ranks, "tp": tp, "cp": cp, "ep": 1, "pp": pp,
            "vpp": option(asked, "--virtual", 1), "dp": dp, "mbs": sizes["micro_batch"], "gbs": sizes["global_batch"],
            "num_microbatches": sizes["global_batch"] // (dp * sizes["micro_batch"]),
            "schedule": "interleaved-1F1B" if schedule == "interleaved" else schedule,
            "recompute": option(asked, "--recompute", "none"), "seq_parallel": int("--sp" in asked),
            "zero": f"fsdp2(zero{zero})" if zero else 0, "precision": option(asked, "--dtype", ""),
            "mem_alloc_gib": f"{peak['allocated'] / 2**30:.2f}", "mem_reserved_gib": f"{peak['reserved'] / 2**30:.2f}",
            "framework": framework, "source": "measured with tools/run-exports.py",
            "notes": remarks(asked, case["held"], case["losses"])}


def dataset(folder):
    """Appends what ran to the file."""
    path = HERE.parents[1] / "data/validation/weft_h200_ranks.csv"
    columns = path.read_text().splitlines()[0].split(",")
    with open(path, "a", newline="") as out:
        lines = csv.DictWriter(out, columns, restval="", lineterminator="\n")
        for case in json.loads((folder / "rows.json").read_text()):
            if len(case["losses"]) > 1:  # from the second step on there is the optimizer's state
                lines.writerow(dataset_row(folder, case, "PyTorch 2.11.0+cu130"))


def main():
    if sys.argv[1:2] == ["rank"]:
        return one_rank(sys.argv[2], sys.argv[3], sys.argv[4:])
    about = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    about.add_argument("what", choices=["export", "run", "table", "rows"])
    about.add_argument("paths", nargs="+", type=pathlib.Path)
    about.add_argument("--megatron", type=pathlib.Path)
    about.add_argument("--only", default="", help="names of cases with commas between them")
    about.add_argument("--seconds", type=float, default=3600, help="after which what still runs is ended")
    given = about.parse_args()
    if given.what == "run":
        tree = given.megatron.resolve() if given.megatron else None
        return run(given.paths[0].resolve(), tree, given.only.split(",") if given.only else [], given.seconds)
    if given.what == "rows":
        return dataset(given.paths[0])
    if given.what == "export":
        return export(given.paths[0].resolve(), given.paths[1], given.only.split(",") if given.only else [])
    return table(given.paths[0].resolve(), given.paths[1])


if __name__ == "__main__":
    sys.exit(main())
