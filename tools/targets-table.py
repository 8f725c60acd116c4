#!/usr/bin/env python3
"""Plans 12 problems for every framework that has the model, and checks what is written.

    tools/targets-table.py [--weft build/weft] [--grid build/tools/target_grid] [--seconds 60] [--only REGEX]
                           [--targets A,B] [--quick] [--log FILE]
    tools/targets-table.py --page FILE... > docs/guide/targets.md

For each problem and target it runs `weft plan MODEL CLUSTER --for TARGET --to TARGET -o FILE` and looks whether

    exact   nothing that the framework decides differs from what was predicted;
    fits    with the margin, by what the allocator reserves;
    back    FILE, read by `weft import` (FSDP's script and Weft's own plan: by the line in it), predicts the same
            iteration and the same memory;
    best    the plan is within 0.5 % of the fastest of the target's grid, which tools/target_grid tries out whole.
            "-": the grid is too large for the time given, or the framework has a strategy per layer or operator.

The exit code is the number of cells that do not hold. --log adds every cell to a file as it is done, a line of JSON
each; --page writes the page from such files, the newest line of a cell.
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

# A name, the model, its cluster, the samples of an iteration, options of the model, whether its grid is small.
PROBLEMS = [
    ("Llama 3.1 8B on 8 H100", "llama3.1-8b", "dgx-h100:1", 64, {}, True),
    ("Llama 3.1 70B on 64 H100", "llama3.1-70b", "dgx-h100:8", 256, {}, False),
    ("Llama 3.1 405B on 1,024 H100", "llama3.1-405b", "dgx-h100:128", 1024, {}, False),
    ("Mixtral 8x7B on 16 H100", "mixtral-8x7b", "dgx-h100:2", 128, {}, True),
    ("Mixtral 8x22B on 64 H100", "mixtral-8x22b", "dgx-h100:8", 256, {}, False),
    ("DeepSeek-V3 on 2,048 H100", "deepseek-v3", "dgx-h100:256", 8192, {}, False),
    ("Qwen3-235B on 256 H100", "qwen3-235b-a22b", "dgx-h100:32", 1024, {}, False),
    ("Qwen3-30B on 16 H100", "qwen3-30b-a3b", "dgx-h100:2", 128, {}, True),
    ("GPT-3 175B on 1,024 A100", "gpt3-175b", "dgx-a100:128", 1536, {}, False),
    ("Llama 3.1 8B at 131,072 tokens on 8 H100", "llama3.1-8b", "dgx-h100:1", 8, {"seq": 131072}, True),
    ("ViT-Huge on 8 A100", "vit-huge-32", "dgx-a100:1", 256, {}, True),
    ("BERT-Huge on 8 A100", "bert-huge-32", "dgx-a100:1", 256, {}, True),
]
TARGETS = ["megatron", "megatron@0.16", "torchtitan", "torchtitan@main", "deepspeed", "fsdp", "galvatron",
           "galvatron@3.0", "weft"]
ENDING = {"megatron": "sh", "torchtitan": "toml", "deepspeed": "json", "fsdp": "py", "galvatron": "json", "weft": "json"}
NEEDS_MODEL = ("deepspeed", "galvatron")
SAME = 1e-9
NEAR = 0.005


def run(words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True)


def sets(options):
    return [word for key, value in options.items() for word in ("--set", f"{key}={value}")]


def numbers(prediction):
    """What two predictions must agree in: the iteration, and the memory of every stage."""
    return [prediction["iteration_s"]] + [stage["needed"] for stage in prediction["memory"]]


def same(a, b):
    return len(a) == len(b) and all(abs(x - y) <= SAME * max(abs(x), abs(y)) for x, y in zip(a, b))


class Cell:
    """One problem for one target."""

    def __init__(self, options, folder, problem, target):
        self.weft, self.grid, self.seconds, self.quick = options.weft, options.grid, options.seconds, options.quick
        self.name, self.model, self.cluster, self.batch, self.options, self.small = problem
        self.target, self.framework = target, target.split("@")[0]
        self.folder = folder
        self.file = folder / f"written.{ENDING[self.framework]}"

    def plan(self):
        words = [self.weft, "plan", self.model, self.cluster, "--global-batch", self.batch, *sets(self.options), "--for",
                 self.target, "--to", self.target, "-o", self.file, "--json"] + (["--quick"] if self.quick else [])
        return run(words)

    def back(self):
        """The prediction of what was written."""
        plan = self.folder / "back.json"
        if self.framework == "weft":
            plan = self.file
        elif self.framework == "fsdp":
            line = re.search(r"^Predicted by: weft (.*)$", self.file.read_text(), re.M).group(1)
            return json.loads(run([self.weft, *shlex.split(line), "--json"]).stdout)
        else:
            model = ["--model", self.model, *sets(self.options)] if self.framework in NEEDS_MODEL else []
            read = run([self.weft, "import", self.file, self.cluster, "--from", self.target, *model, "-o", plan])
            if read.returncode:
                return read.stderr
            if "does not run this" in read.stderr:
                return read.stderr
        return json.loads(run([self.weft, "simulate", plan, "--json"]).stdout)

    def hunt(self, *known):
        """What the brute force found; with a known iteration it counts only what is faster, and ends sooner."""
        text = ", ".join(f"{key}: {value}" for key, value in self.options.items())
        done = run([self.grid, self.model, self.cluster, self.batch, self.target, text, self.seconds, *known])
        return json.loads(done.stdout)

    def best(self, iteration_s):
        """Whether the plan is as good as the best of the grid, by how much it is slower (None: not known, the grid has
        nothing that is faster by NEAR), and over how many plans."""
        if not self.small or self.framework in ("galvatron", "weft") or not self.grid:
            return None, None, 0
        found = self.hunt()
        if found["complete"] and found["iteration_s"]:
            over = iteration_s / found["iteration_s"] - 1
            return over <= NEAR, over, found["plans"]
        found = self.hunt(iteration_s / (1 + NEAR))
        if found["iteration_s"]:
            return False, iteration_s / found["iteration_s"] - 1, found["plans"]
        return True if found["complete"] else None, None, found["plans"]

    def row(self):
        done = self.plan()
        row = {"problem": self.name, "target": self.target, "faults": []}
        if done.returncode:
            error = done.stderr.strip().splitlines()
            row["refused"] = error[0].removeprefix("weft: ") if error else "no words"
            row["no_model"] = done.returncode == 2
            row["too_large"] = done.returncode == 1
            if done.returncode != 2 and not row["too_large"]:
                row["faults"].append(row["refused"])
            return row
        found = json.loads(done.stdout)
        row |= {"plan": found["summary"], "iteration_s": found["iteration_s"], "exact": found["exact"], "fits": found["fits"]}
        back = self.back()
        row["back"] = not isinstance(back, str) and same(numbers(found), numbers(back))
        row["best"], row["over"], row["grid"] = self.best(found["iteration_s"])
        for check in ("exact", "fits", "back", "best"):
            if row[check] is False:
                row["faults"].append(check)
        if isinstance(back, str):
            row["faults"].append(back.strip())
        row["notes"] = done.stderr.strip()
        return row


def seconds(value):
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"


def mark(value):
    return {True: "yes", False: "**no**", None: "-"}[value]


def table(rows):
    print("| problem | target | its plan | iteration | exact | fits | back | best |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        if "refused" in row:
            continue
        best = mark(row["best"])
        if row["over"] is not None:
            best += f" ({row['over'] * 100:+.2f} % of {row['grid']:,})"
        elif row["best"]:
            best += f" (none of {row['grid']:,} faster by {NEAR * 100:g} %)"
        plan = row["plan"].replace("|", "\\|")
        print(f"| {row['problem']} | {row['target']} | {plan} | {seconds(row['iteration_s'])} | {mark(row['exact'])} | "
              f"{mark(row['fits'])} | {mark(row['back'])} | {best} |")


PAGE = """# Twelve problems, every framework

Each problem was planned for each framework that has the model (`weft plan MODEL CLUSTER --for TARGET --to TARGET -o FILE
--quick`), and what was written was checked. *exact*: nothing that the framework decides differs from what was predicted. *fits*:
with the margin, by what the allocator reserves. *back*: the file, read by `weft import` (FSDP's script: by the command in it),
predicts the same iteration and the same memory. *best*: within 0.5 % of the fastest of all combinations of degrees, kinds of
context parallelism, micro-batch, pieces, state sharding, recomputation (by lists of modules, too) and hidden tokens that the framework's
rules allow, of which `tools/target_grid` simulated as many as the column says; "none of N faster by 0.5 %": only plans that are faster
than this one by so much were sought; "-": the grid was not tried out whole, because it is too
large for that (more than 16 devices, or more than 150 seconds of CPU), or because the framework has a strategy for each layer or
operator. The grids divide sequences of every length; searches only where they are [long enough](planning.md#context-parallelism).
"""


def page(files):
    """The page, from the lines of logs."""
    cells = {}
    for file in files:
        for line in pathlib.Path(file).read_text().splitlines():
            row = json.loads(line)
            old = cells.get((row["problem"], row["target"]))
            if not (old and row.get("best") is None and old.get("best") is not None):
                cells[row["problem"], row["target"]] = row
    order = [(problem[0], target) for problem in PROBLEMS for target in TARGETS]
    rows = [cells[key] for key in order if key in cells]
    print(PAGE)
    table(rows)
    print("\nNothing fits:\n")
    for row in rows:
        if row.get("too_large"):
            print(f"- {row['problem']}, {row['target']}: {row['refused']}.")
    print("\nWithout the model:\n")
    for row in rows:
        if row.get("no_model"):
            print(f"- {row['problem']}, {row['target']}: {row['refused']}.")
    print("\nThe command of this page is `tools/targets-table.py --quick --seconds 150 --log cells.jsonl`, then "
          "`tools/targets-table.py --page cells.jsonl`.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[1]
    parser.add_argument("--weft", default=root / "build/weft")
    parser.add_argument("--grid", default=root / "build/tools/target_grid")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", default="")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--log")
    parser.add_argument("--page", nargs="+", metavar="FILE")
    options = parser.parse_args()
    if options.page:
        return page(options.page)
    rows = []
    for problem in PROBLEMS:
        if not re.search(options.only, problem[0]):
            continue
        for target in options.targets.split(","):
            with tempfile.TemporaryDirectory() as folder:
                row = Cell(options, pathlib.Path(folder), problem, target).row()
            rows.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
            if options.log:
                with open(options.log, "a", encoding="utf-8") as log:
                    log.write(json.dumps(row) + "\n")
    table(rows)
    sys.exit(min(100, sum(bool(row["faults"]) for row in rows)))


if __name__ == "__main__":
    main()
