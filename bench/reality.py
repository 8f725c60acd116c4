#!/usr/bin/env python3
"""Prediction and reality on this machine, by the commands that a user has: `weft profile measure`, then for
every plan of a table `weft train --trace` and `weft compare --measured`.

    bench/reality.py build/weft            everything: some minutes on an idle machine of two cores
    bench/reality.py build/weft measure    only what the predictions rest on, into --folder
    bench/reality.py build/weft run        only the plans, with what --folder has
    bench/reality.py build/weft --rounds 9 measurements and plans in up to nine turns: for a machine whose processor others
                                           share, which is slow for seconds at a time
    bench/reality.py build/weft overlap    only what a slow network costs with and without overlap, and 1f1b
                                           beside aiao: `weft train --slow-bandwidth`

An iteration's measured time is the median over the steps after the first, by the log of the run: from one
rank's start of the step to when it knows the loss. Of several rounds the least time counts, measured and predicted
alike: other programs can only make a machine slower, so the least times are of the same undisturbed machine. A plan
has no further rounds when its two least measured times agree within 3 %, and its two least predicted ones, too. Plans
for more ranks than the machine has cores are told apart: their ranks wait for each other's cores, by as much as `weft
profile measure` says.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "data" / "text" / "harbour.txt"
MODEL = ROOT / "data" / "models" / "gpt-tiny.yaml"
SIZES = {
    "small": "",
    "medium": "--set hidden=256 --set heads=8 --set seq=128",
    "large": "--set hidden=384 --set heads=6 --set layers=6 --set seq=128",
}
PLANS = [  # size of the model, degrees; 2 ranks
    ("small", "--dp 2 --microbatch 8 --global-batch 16"),
    ("small", "--dp 2 --microbatch 2 --global-batch 16"),
    ("small", "--tp 2 --microbatch 16 --global-batch 16"),
    ("small", "--tp 2 --sp --microbatch 8 --global-batch 16"),
    ("small", "--pp 2 --schedule 1f1b --microbatch 4 --global-batch 16"),
    ("medium", "--dp 2 --microbatch 4 --global-batch 8"),
    ("medium", "--dp 2 --zero 1 --microbatch 4 --global-batch 8"),
    ("medium", "--dp 2 --zero 2 --microbatch 2 --global-batch 8"),
    ("medium", "--dp 2 --zero 3 --microbatch 4 --global-batch 8"),
    ("medium", "--dp 2 --zero 3 --recompute full --microbatch 2 --global-batch 8"),
    ("medium", "--dp 2 --recompute full --offload --microbatch 4 --global-batch 8"),
    ("medium", "--tp 2 --microbatch 4 --global-batch 8"),
    ("medium", "--tp 2 --sp --recompute selective --microbatch 4 --global-batch 8"),
    ("medium", "--cp 2 --microbatch 4 --global-batch 8"),
    ("medium", "--pp 2 --schedule 1f1b --microbatch 1 --global-batch 8"),
    ("medium", "--pp 2 --schedule gpipe --microbatch 2 --global-batch 8"),
    ("medium", "--pp 2 --schedule interleaved --virtual 2 --microbatch 2 --global-batch 8"),
    ("medium", "--pp 2 --schedule aiao --segments 2 --microbatch 2 --global-batch 8"),
    ("large", "--dp 2 --microbatch 2 --global-batch 8"),
    ("large", "--tp 2 --microbatch 4 --global-batch 8"),
    ("large", "--pp 2 --recompute full --microbatch 2 --global-batch 8"),
]
# On a network that `--slow-bandwidth` stands in for: bandwidth, size, degrees, and what is varied.
SLOW = {
    "overlap": ("200MB/s", "medium", "--dp 2 --microbatch 4 --global-batch 8 --bucket 1MiB",
                ["--overlap all", "--overlap none"]),
    "schedule": ("25MB/s", "medium", "--pp 2 --microbatch 2 --global-batch 16",
                 ["--schedule 1f1b", "--schedule aiao --segments 2"]),
}
CROWDED = [  # 4 ranks
    ("medium", "--dp 4 --microbatch 2 --global-batch 8"),
    ("medium", "--tp 2 --dp 2 --microbatch 2 --global-batch 8"),
    ("medium", "--tp 2 --pp 2 --microbatch 2 --global-batch 8"),
    ("medium", "--pp 4 --microbatch 1 --global-batch 8"),
]


class Bench:
    def __init__(self, options, number=0):
        self.options = options
        self.folder = pathlib.Path(options.folder) / (f"round{number}" if number else "")
        self.folder.mkdir(parents=True, exist_ok=True)

    def db(self, ranks):
        """Kernels are measured with all ranks at work, so each number of ranks has times of its own."""
        return self.folder / f"here{ranks}.sqlite"

    def weft(self, *words):
        done = subprocess.run(
            [self.options.weft, *map(str, words)], capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1):
            sys.exit(f"weft {' '.join(map(str, words))}:\n{done.stderr}")
        return done.stdout

    def answer(self, *words):
        return json.loads(self.weft(*words, "--json"))

    def cluster(self, ranks):
        return self.folder / f"here{ranks}.yaml"

    def plan(self, size, degrees, ranks):
        return [MODEL, self.cluster(ranks), *SIZES[size].split(), *degrees.split()]

    def rows(self):
        return [(2, row) for row in PLANS] + [(4, row) for row in CROWDED]

    def measure(self, numbers):
        rows = [self.rows()[number] for number in numbers]
        for ranks in sorted({ranks for ranks, _ in rows} | {2}):
            if not self.cluster(ranks).exists():
                self.weft("profile", "measure", "--collectives", "--ranks", ranks, "--most", "16MiB",
                          "--db", self.db(ranks), "-o", self.cluster(ranks))
        for ranks, (size, degrees) in rows:
            self.weft("profile", "measure", *self.plan(size, degrees, ranks), "--db", self.db(ranks),
                      "--precision", self.options.precision)

    def step_seconds(self, log):
        lines = log.read_text().splitlines()
        column = lines[0].split("\t").index("tokens_per_s")
        rates = [float(line.split("\t")[column]) for line in lines[1:]]
        return [1 / rate for rate in rates[1:]]

    def slow_cluster(self, rate):
        """This machine's ranks with such a network between them: no collective was measured on it, and
        waiting for it takes no core."""
        text = self.cluster(2).read_text().split("collectives:")[0]
        text = re.sub(r"kind: socket, bandwidth: [^}]*", f"kind: socket, bandwidth: {rate}", text)
        text = re.sub(r"overlap_slowdown: [0-9.]*", "overlap_slowdown: 1", text)
        path = self.folder / "slow.yaml"
        path.write_text(text)
        return path

    def run_slow(self, what):
        rate, size, degrees, variants = SLOW[what]
        cluster = self.slow_cluster(rate)
        rows = []
        for variant in variants:
            plan = [MODEL, cluster, *SIZES[size].split(), *degrees.split(), *variant.split()]
            trace = self.folder / "slow.json"
            self.weft("train", *plan, "--data", TEXT, "--steps", self.options.steps, "--clip", 0,
                      "--slow-bandwidth", rate, "--trace", trace)
            laid = self.answer("compare", *plan, "--measured", trace, "--profile", self.db(2))
            rows.append((variant, laid))
        print(f"\n{size} {degrees}, a network of {rate}\n{'iteration':>22} {'waits':>22}\n"
              f"{'measured':>11} {'predicted':>10} {'measured':>11} {'predicted':>10}")
        for variant, laid in rows:
            waits = laid["stages"][0]["waits"]
            print(f"{laid['iteration']['measured_s'] * 1e3:8.1f} ms {laid['iteration']['predicted_s'] * 1e3:7.1f} ms "
                  f"{waits['measured_s'] * 1e3:8.1f} ms {waits['predicted_s'] * 1e3:7.1f} ms  {variant}")
        return rows

    def run(self, number, ranks, row):
        size, degrees = row
        trace, log = self.folder / f"{number}.json", self.folder / f"{number}.tsv"
        log.unlink(missing_ok=True)
        plan = self.plan(size, degrees, ranks)
        if not trace.exists() or not self.options.again:
            clip = ["--clip", 0] if "aiao" in degrees else []  # with a limit it could defer no gradients
            told = self.answer("train", *plan, "--data", TEXT, "--steps", self.options.steps,
                               "--trace", trace, "--log", log, *clip)
            words = degrees.split()
            tokens = int(words[words.index("--global-batch") + 1]) * (64 if size == "small" else 128)
            told["step_s"] = tokens * statistics.median(self.step_seconds(log))
            (self.folder / f"{number}.told").write_text(json.dumps(told))
        told = json.loads((self.folder / f"{number}.told").read_text())
        laid = self.answer("compare", *plan, "--measured", trace, "--profile", self.db(ranks))
        return {"name": f"{size} {degrees}", "ranks": ranks, "measured": told["step_s"], "laid": laid,
                "predicted": laid["iteration"]["predicted_s"],
                "memory": max((r["peak"] / r["predicted"] for r in told["ranks"]),
                              key=lambda ratio: abs(ratio - 1))}


TIMES = ("measured", "predicted")
SETTLED = 0.03


def settled(rounds):
    """Whether a plan's times will not become less: the least of either has been seen twice."""
    least = [sorted(one[time] for one in rounds)[:2] for time in TIMES]
    return all(len(two) == 2 and two[1] <= two[0] * (1 + SETTLED) for two in least)


def combined(rounds):
    """A plan's row of several rounds: the least of its times, and the memory that is furthest off."""
    row = dict(rounds[0])
    for time in TIMES:
        row[time] = min(one[time] for one in rounds)
    row["memory"] = max((one["memory"] for one in rounds), key=lambda ratio: abs(ratio - 1))
    return row


def ranks_of(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    place = [0.0] * len(values)
    for at, i in enumerate(order):
        place[i] = at
    return place


def correlation(a, b):
    """Spearman's: Pearson's of the ranks."""
    return statistics.correlation(ranks_of(a), ranks_of(b)) if len(a) > 1 else 1.0


def tell(title, rows, purposes):
    print(f"\n{title}\n{'measured':>10} {'predicted':>10} {'ratio':>6} {'memory':>7}  plan")
    for row in rows:
        ratio = row["measured"] / row["predicted"]
        print(f"{row['measured'] * 1e3:7.1f} ms {row['predicted'] * 1e3:7.1f} ms {ratio:6.2f} "
              f"{row['memory']:7.3f}  {row['name']}")
        if purposes:
            for name, pair in row["laid"]["purposes"].items():
                if pair["tasks"]:
                    print(f"{'':24}{name:28} {pair['measured_s'] * 1e3:8.2f} {pair['predicted_s'] * 1e3:8.2f}")
            for i, stage in enumerate(row["laid"]["stages"]):
                for what in ("compute", "waits"):
                    pair = stage[what]
                    print(f"{'':24}{f'stage {i} {what}':28} {pair['measured_s'] * 1e3:8.2f} "
                          f"{pair['predicted_s'] * 1e3:8.2f}")
    errors = [abs(r["predicted"] / r["measured"] - 1) for r in rows]
    worst = max(abs(r["memory"] - 1) for r in rows)
    print(f"{len(rows)} plans: mean error {100 * statistics.mean(errors):.1f} %, worst {100 * max(errors):.1f} %, "
          f"rank correlation {correlation([r['measured'] for r in rows], [r['predicted'] for r in rows]):.3f}; "
          f"memory off by at most {100 * worst:.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("what", nargs="?", choices=["measure", "run", "overlap"],
                        help="default: all")
    parser.add_argument("--folder", default="/tmp/weft-reality")
    parser.add_argument("--steps", default=8, type=int)
    parser.add_argument("--precision", default="5%")
    parser.add_argument("--rounds", default=1, type=int, help="of measurements and plans, at most")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of plans")
    parser.add_argument("--again", action="store_true", help="predict again, with the runs that are there")
    parser.add_argument("--purposes", action="store_true", help="times by purpose, too")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    chosen = [number for number in range(len(PLANS) + len(CROWDED)) if options.only is None or number in options.only]
    rounds = {plan: [] for plan in chosen}
    for number in range(options.rounds):
        open_plans = [plan for plan in chosen if not settled(rounds[plan])]
        if not open_plans:
            break
        bench = Bench(options, number)
        if options.what in (None, "measure"):
            bench.measure(open_plans)
        if options.what in (None, "run"):
            for plan in open_plans:
                rounds[plan].append(bench.run(plan, *bench.rows()[plan]))
    if options.what in (None, "run"):
        tell_all([combined(rows) for rows in rounds.values()], options.purposes)
    if options.what in (None, "overlap"):
        for what in SLOW:
            Bench(options).run_slow(what)


def tell_all(told, purposes):
    for ranks in (2, 4):
        rows = [row for row in told if row["ranks"] == ranks]
        if rows:
            tell(f"{ranks} ranks", rows, purposes)


if __name__ == "__main__":
    main()
