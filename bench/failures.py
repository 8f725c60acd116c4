#!/usr/bin/env python3
"""Kills a rank at random moments of a run: do the others end, and does the run go on to the same losses?

  bench/failures.py build/weft                          30 moments of a run of 2 ranks on CPUs
  bench/failures.py build/weft --device cuda            the same on one GPU, by NCCL

Every run is two processes without a launcher, which would end them itself (ranks find each other by torchrun's variables). One
of them, drawn at random, is killed at a moment drawn from the whole run: while it starts, computes or saves. Then

  1. the other process ends by itself, with an exit code above 0 and a message, within --limit seconds;
  2. the same run, resumed from the folder of checkpoints, ends with exit code 0;
  3. its log then has the losses of a run that nobody killed, digit by digit (fp32).

Ranks that share a GPU pretend to be on two machines, because NCCL wants one GPU for each rank of a machine.
"""
import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

STEPS = 24
MODEL = ["gpt2", "hgx-h200:1x2", "--set", "layers=2", "--set", "hidden=128", "--set", "heads=2", "--set", "seq=64", "--set",
         "vocab=256", "--dtype", "fp32", "--microbatch", "2", "--global-batch", "8", "--steps", str(STEPS)]
PLANS = [["--dp", "2"], ["--tp", "2"], ["--pp", "2"], ["--dp", "2", "--zero", "2"]]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(options, folder, plan):
    """Both ranks of a run, as processes."""
    port, ranks = free_port(), []
    for rank in range(2):
        variables = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WEFT_ATTENTION": "own", "NCCL_HOSTID": f"host{rank}",
                     "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}
        command = [options.weft, "train", *MODEL, *plan, "--data", options.data, "--device", options.device, "--log",
                   f"{folder}/log.tsv", "--checkpoint", f"{folder}/saved", "--save-every", "4", "--resume"]
        errors = open(f"{folder}/errors.{rank}", "wb")
        ranks.append(subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, stderr=errors))
        errors.close()
    return ranks


def losses(folder):
    with open(f"{folder}/log.tsv") as log:
        return [line.split("\t")[:2] for line in log.read().splitlines()[1:]]


def whole_run(options, folder, plan):
    began = time.time()
    codes = [rank.wait(timeout=300) for rank in start(options, folder, plan)]
    if any(codes):
        sys.exit(f"a run that nobody killed ended with {codes}: {open(f'{folder}/errors.0').read()[-500:]}")
    return losses(folder), time.time() - began


def try_once(options, number, plan, expected, length):
    chance = random.Random(number)
    folder = tempfile.mkdtemp(prefix="weft-failures-")
    ranks = start(options, folder, plan)
    victim, moment = chance.randrange(2), chance.uniform(0.02, 0.98) * length
    time.sleep(moment)
    early = [rank.poll() for rank in ranks]
    ranks[victim].send_signal(signal.SIGKILL)
    killed = time.time()
    other = ranks[1 - victim]
    try:
        code = other.wait(timeout=options.limit)
    except subprocess.TimeoutExpired:
        other.kill()
        return f"moment {number}: rank {1 - victim} still ran {options.limit} s after the other was killed", options.limit
    ended = time.time() - killed
    ranks[victim].wait()
    words = open(f"{folder}/errors.{1 - victim}").read().strip()
    over = any(e is not None for e in early) or code == 0
    if not over and (code <= 0 or not words):
        return f"moment {number}: rank {1 - victim} ended with {code} and the message '{words}'", ended
    codes = [rank.wait(timeout=300) for rank in start(options, folder, plan)]
    if any(codes):
        return f"moment {number}: resumed, it ended with {codes}: {open(f'{folder}/errors.0').read()[-300:]}", ended
    if losses(folder) != expected:
        return f"moment {number} of {' '.join(plan)}: the resumed run has other losses", ended
    shutil.rmtree(folder)
    return None, (ended if not over else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--moments", type=int, default=30)
    parser.add_argument("--limit", type=float, default=30, help="seconds within which all ranks have to end")
    parser.add_argument("--at-once", type=int, default=1)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="weft-failures-")
    options.data = f"{folder}/text.txt"
    with open(options.data, "w") as text:
        text.write("".join(f"{i} times {i} is {i * i}. " for i in range(4000)))
    known = {}
    for i, plan in enumerate(PLANS):
        os.mkdir(f"{folder}/{i}")
        known[i] = whole_run(options, f"{folder}/{i}", plan)
        print(f"{' '.join(plan)}: {STEPS} steps in {known[i][1]:.1f} s, loss {known[i][0][-1][1]}", flush=True)
    with ThreadPoolExecutor(options.at_once) as pool:
        tries = [pool.submit(try_once, options, n, PLANS[n % len(PLANS)], *known[n % len(PLANS)]) for n in range(options.moments)]
        results = [t.result() for t in tries]
    wrong = [words for words, _ in results if words]
    slowest = max(ended for _, ended in results)
    print("\n".join(wrong))
    print(f"{options.moments - len(wrong)} of {options.moments} moments: the other rank ended, at most {slowest:.1f} s later, and the "
          "resumed run has the losses of one that nobody killed")
    shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
