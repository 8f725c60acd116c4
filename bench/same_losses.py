#!/usr/bin/env python3
"""Does a plan on several ranks have the losses that one rank has?

  bench/same_losses.py build/weft                       ranks as threads, on CPUs
  bench/same_losses.py build/weft --device cuda         ranks as processes that share one GPU, by NCCL

Every plan trains 20 steps in fp32 at a rate of 1e-4, with AdamW but where Muon is said, and its losses are held against those of one
rank: they differ by at most 1e-5 of the loss, or by ten times what one rank's own losses move when nothing but the order of its sums
changes (micro-batches of one sample in place of two). A plan that splits products sums in another order in every one of them. At a rate
of 1e-3 the first steps of some models enlarge such differences, because AdamW's steps are of one size whatever a gradient's size is: one
rank's losses of the delta network here then move by 4e-4, and those of two ranks say nothing about the plan.

Ranks that share a GPU pretend to be on several machines, because NCCL wants one GPU for each rank of a machine.
"""
import argparse
import array
import os
import random
import socket
import subprocess
import sys
import tempfile

BAR, OWN_TIMES, STEPS, VOCABULARY = 1e-5, 10, 20, 500
SMALL = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 512, "seq": 64}
MODELS = {
    "gpt2": ("gpt2", SMALL),
    "llama": ("llama3-8b", {**SMALL, "kv_heads": 2, "ffn": 128}),
    "delta": ("llama3-8b", {**SMALL, "layers": 4, "kv_heads": 2, "ffn": 128, "full_every": 4, "delta_heads": 4,
                            "delta_key_heads": 2, "delta_dim": 16, "delta_key_dim": 16}),
    "hybrid": ("data/models/small-hybrid.yaml", {**SMALL, "layers": 5, "kv_heads": 2, "ffn": 128, "groups": 2, "experts": 4,
                                                 "expert_ffn": 32, "shared_ffn": 64, "latent": 32}),
    "t5": ("t5-base", {**SMALL, "ffn": 128}),
}
PLANS = [
    ("gpt2", "--dp 2"), ("gpt2", "--tp 2"), ("gpt2", "--pp 2"), ("gpt2", "--dp 2 --zero 3"), ("gpt2", "--dp 2 --tp 2"),
    ("llama", "--tp 2 --sp"), ("llama", "--pp 2 --dp 2"),
    ("delta", "--dp 2 --zero 1"), ("delta", "--tp 2"), ("delta", "--pp 2"),
    ("hybrid", "--dp 2"), ("hybrid", "--tp 2"), ("hybrid", "--pp 2"), ("t5", "--tp 2"),
    ("gpt2", "--dp 2", "muon"), ("gpt2", "--dp 2 --zero 1", "muon"), ("llama", "--tp 2", "muon"), ("llama", "--pp 2", "muon"),
]


def ranks_of(plan):
    words = plan.split()
    product = 1
    for flag in ("--dp", "--tp", "--pp"):
        product *= int(words[words.index(flag) + 1]) if flag in words else 1
    return product


def command(options, model, plan, optimizer, ranks, samples, log):
    name, settings = MODELS[model]
    words = [options.weft, "train", name, f"hgx-h200:1x{ranks}"]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    return words + plan.split() + ["--optimizer", optimizer, "--rate", "1e-4", "--dtype", "fp32", "--microbatch", str(samples),
                                   "--global-batch", "4", "--steps", str(STEPS), "--data", options.data, "--data-format", "uint16",
                                   "--device", options.device, "--log", log]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def run(options, model, plan, optimizer, samples):
    """Its losses; a run that fails ends the program."""
    log, ranks, port = f"{options.folder}/log.tsv", ranks_of(plan), free_port()
    processes = ranks if options.device == "cuda" else 1
    started = []
    for rank in range(processes):
        variables = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                     "WEFT_ATTENTION": "own", "NCCL_HOSTID": f"host{rank}", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
                     "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}
        started.append(subprocess.Popen(command(options, model, plan, optimizer, ranks, samples, log), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, env={**os.environ, **(variables if processes > 1 else {})}))
    said = [process.communicate()[1].decode() for process in started]
    if any(process.returncode for process in started):
        sys.exit(f"{model} {plan}: {''.join(said)}")
    with open(log) as lines:
        return [float(line.split("\t")[1]) for line in lines.read().splitlines()[1:]]


def apart(one, other):
    return max(abs(x / y - 1) for x, y in zip(one, other))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="models, as they are called here")
    options = parser.parse_args()
    plans = [plan for plan in PLANS if not options.only or plan[0] in options.only.split(",")]
    alone, failed = {}, 0
    with tempfile.TemporaryDirectory() as options.folder:
        options.data = f"{options.folder}/tokens.bin"
        draw = random.Random(1)
        with open(options.data, "wb") as file:
            array.array("H", [draw.randrange(VOCABULARY) for _ in range(100_000)]).tofile(file)
        print(f"{'model':8s} {'plan':23s} {'differs':>8s} {'one rank':>8s}  of the loss, the most in {STEPS} steps", flush=True)
        for model, plan, *other in plans:
            optimizer = other[0] if other else "adamw"
            if (model, optimizer) not in alone:
                losses = run(options, model, "", optimizer, 2)
                alone[model, optimizer] = losses, apart(losses, run(options, model, "", optimizer, 1))
            losses, own = alone[model, optimizer]
            differs = apart(losses, run(options, model, plan, optimizer, 2))
            wrong = not differs <= max(BAR, OWN_TIMES * own)
            failed += wrong
            what = f"{plan}, {optimizer}" if other else plan
            print(f"{model:8s} {what:23s} {differs:8.1e} {own:8.1e}{'  too much' if wrong else ''}", flush=True)
    print(f"{len(plans) - failed} of {len(plans)} plans have one rank's losses")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
