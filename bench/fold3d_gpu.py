#!/usr/bin/env python3
"""Fold3D's mechanisms on one GPU: ranks that are threads share it, and `weft train --slow-bandwidth` stands in for the network.

  bench/fold3d_gpu.py build/weft --folder DIR      schedules beside each other, and what offload hides

For every network 1f1b and aiao are trained and simulated with the times that `weft profile measure --alone` finds; a row says by
how much aiao is quicker, measured and predicted. Then one rank trains with checkpoints in host memory: how much of its copies
lies beside computation, by the trace. The median of the last steps counts.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "data" / "text" / "harbour.txt"
MODEL = ROOT / "data/models/gpt-tiny.yaml"
PLAN = "--software weft-cuda --pp 2 --set hidden=1024 --set heads=16 --set layers=16".split()
# What is trained, its tokens, networks. In fp32 a sample of 128 tokens is computed by kernels that leave room on the GPU for those
# of the other rank; in bf16 two of 512 fill it, and each rank is slowed down by the other: by how much, `weft profile measure --alone` finds.
CASES = {
    "fp32": ("--dtype fp32 --set seq=128 --microbatch 1 --global-batch 16", 16 * 128, ["700MB/s", "1GB/s", "2GB/s"]),
    "bf16": ("--dtype bf16 --policy mixed-fp32-gradients --set seq=512 --microbatch 2 --global-batch 16", 16 * 512,
             ["4GB/s", "6GB/s", "8GB/s"]),
}
SCHEDULES = {"1f1b": ["--schedule", "1f1b"], "aiao": ["--schedule", "aiao", "--segments", "2"]}
CLUSTER = """name: two-h200
source: ranks that are threads and share a GPU, with a network between them that --slow-bandwidth stands in for
nodes: 1
device: {{base: H200-SXM-141GB, overlap_slowdown: 1, alone_speedup: {alone}}}
node:
  devices: 2
  vertices: {{socket: socket0}}
  links:
    - {{between: [dev0..dev1, socket0], kind: socket, bandwidth: {rate}}}
"""
OFFLOAD = ["gpt3-1.3b", "h200:1", *"--seq 2048 --dtype bf16 --policy mixed-fp32-gradients --software weft-cuda --micro-batch 2 "
           "--global-batch 16 --recompute full --schedule aiao --segments 2".split()]


class Bench:
    def __init__(self, options):
        self.options, self.folder = options, pathlib.Path(options.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.db = self.folder / "fold3d.sqlite"
        self.alone = {}  # by case

    def weft(self, *words):
        done = subprocess.run([self.options.weft, *map(str, words)], capture_output=True, text=True, timeout=500, check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"weft {' '.join(map(str, words))}:\n{done.stderr}")
        return done.stdout

    def cluster(self, rate, alone):
        path = self.folder / f"{rate.replace('/', '')}.yaml"
        path.write_text(CLUSTER.format(rate=rate, alone=alone))
        return path

    def step_s(self, plan, tokens, name, *more):
        log = self.folder / f"{name}.tsv"
        log.unlink(missing_ok=True)
        self.weft("train", *plan, "--device", "cuda", "--data", TEXT, "--steps", self.options.steps, "--clip", 0, "--log", log, *more)
        lines = [line.split("\t") for line in log.read_text().splitlines()]
        at = lines[0].index("tokens_per_s")
        return tokens / statistics.median(float(line[at]) for line in lines[1 + self.options.steps // 2:])

    def measure(self, case, plan):
        alone = [] if case in self.alone else ["--alone"]
        answer = json.loads(self.weft("profile", "measure", *plan, "--device", "cuda", "--db", self.db, "--json", *alone))
        if alone:
            self.alone[case] = answer["alone_speedup"]
            print(f"{case}: kernels alone are {self.alone[case]:.3f} times as quick as beside the other rank's", flush=True)

    def predicted(self, plan):
        answer = json.loads(self.weft("simulate", *plan, "--profile", self.db, "--json"))
        return answer["iteration_s"]

    def compare(self, case, rate):
        flags, tokens, _ = CASES[case]
        times = {}
        for name, schedule in SCHEDULES.items():
            plan = [MODEL, self.cluster(rate, self.alone.get(case, 1)), *PLAN, *flags.split(), *schedule]
            self.measure(case, plan)
            plan[1] = self.cluster(rate, self.alone[case])
            took = self.step_s(plan, tokens, "log", "--slow-bandwidth", rate, "--profile", self.db)
            if self.options.traces:
                trace = self.folder / f"{case}-{name}-{rate.replace('/', '')}.json"
                self.step_s(plan, tokens, "log", "--slow-bandwidth", rate, "--profile", self.db, "--trace", trace)
            times[name] = took, self.predicted(plan)
        return times

    def schedules(self):
        print(f"{'':16}{'1f1b':>20}{'aiao':>20}{'aiao is quicker by':>22}\n{'network':16}" +
              f"{'measured':>11}{'predicted':>9}" * 2 + f"{'measured':>11}{'predicted':>11}")
        for case, (_, _, rates) in CASES.items():
            for rate in rates:
                times = self.compare(case, rate)
                gains = [1 - a / b for a, b in zip(times["aiao"], times["1f1b"])]
                print(f"{case + ', ' + rate:16}" + "".join(f"{1e3 * a:8.2f} ms{1e3 * b:6.2f} ms" for a, b in times.values()) +
                      f"{gains[0]:11.1%}{gains[1]:11.1%}", flush=True)

    def offload(self):
        plan = OFFLOAD
        trace = self.folder / "offload.json"
        kept, moved = (self.step_s([*plan, *more], 16 * 2048, "offload") for more in ([], ["--offload"]))
        self.step_s([*plan, "--offload"], 16 * 2048, "traced", "--trace", trace)
        copies, hidden = hidden_share(json.loads(trace.read_text())["traceEvents"], self.options.steps)
        print(f"checkpoints stay: {1e3 * kept:.1f} ms a step; in host memory: {1e3 * moved:.1f} ms, "
              f"copies {1e3 * copies:.1f} ms, of which {hidden:.1%} beside computation")


def hidden_share(events, steps):
    """Seconds of copies in a step, and the share of them during which the device computes."""
    spans = {"compute": [], "copy": []}
    for event in events:
        if event["ph"] == "X" and event["args"].get("step") == steps - 1:
            kind = "copy" if event["cat"] == "offload" else "compute" if event["tid"] == 0 else None
            if kind:
                spans[kind].append((event["ts"], event["ts"] + event["dur"]))
    all_us = sum(end - begin for begin, end in spans["copy"])
    beside_us = sum(max(0, min(end, e) - max(begin, b)) for begin, end in spans["copy"] for b, e in spans["compute"])
    return all_us / 1e6, beside_us / all_us if all_us else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--traces", action="store_true", help="of every run, into the folder")
    parser.add_argument("--only", choices=["schedules", "offload"], help="one of the two")
    options = parser.parse_args()
    bench = Bench(options)
    if options.only != "offload":
        bench.schedules()
    if options.only != "schedules":
        bench.offload()


if __name__ == "__main__":
    main()
