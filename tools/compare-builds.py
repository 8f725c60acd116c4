#!/usr/bin/env python3
"""compare-builds.py - whether two builds of Weft give the same answers, bit for bit.

    tools/compare-builds.py OLD/weft NEW/weft               both builds are asked
    tools/compare-builds.py OLD/weft --save old.json        one build's answers go to a file
    tools/compare-builds.py --against old.json NEW/weft     and are compared with another's later

The questions are `weft validate` with every row, 200 simulations and 50 plans. Simulations and plans
are drawn at random with a fixed seed from the tables below; the old build says which of those that
were drawn are legal, and its questions are what the new build is asked. Every number is compared by
its place in the answer, and so are the texts that say which plan it is (TEXTS). Texts for people are
not. A field that the new build adds is no difference; one that it leaves out is.

A line on standard error says how far it is. Two builds take about three minutes of a core. A question that takes
more than CPU_SECONDS of a core (`weft validate`: VALIDATE_SECONDS) is drawn anew for the old build and is a
difference for the new one; what is said at the end counts what was really compared.

Exit codes: 0 the same, 1 something differs, 2 bad arguments or a program that cannot be run.
"""
import argparse
import json
import random
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

SEED = 18
SIMULATIONS, PLANS = 200, 50
CPU_SECONDS = 20  # of a core, that one question may take: searches share what a busy machine has
VALIDATE_SECONDS = 300

MODELS = [
    "gpt2", "gpt2-xl", "gpt3-350m", "gpt3-1.3b", "gpt3-6.7b", "gpt3-13b", "gpt3-39b", "gpt3-175b",
    "opt-6.7b", "gpt-neox-20b", "llama2-7b", "llama3-8b", "llama3-70b", "llama3.2-1b", "mistral-7b",
    "qwen2.5-7b", "gemma2-9b", "phi3-mini", "mixtral-8x7b", "gpt-oss-20b", "qwen3-30b-a3b",
    "deepseek-v2-lite", "nemotron-h-8b", "bert-large", "bert-huge-32", "t5-3b", "t5-large-32",
    "vit-huge-32", "swin-huge-32", "resnet-50", "wresnet-2b", "vgg-13",
]
CLUSTERS = {  # preset: devices of a node
    "titan-rtx": 8, "piz-daint": 1, "dgx-v100": 8, "gcp-a2-16": 16, "fold3d-a100": 8, "dgx-a100": 8,
    "dgx-a100-100g": 8, "dgx-h100": 8, "hgx-h200": 8, "hgx-b200": 8,
}
NODES = [1, 1, 2, 4, 8]
# Each is drawn by itself; None leaves the flag out.
DEGREES = {
    "--tp": [None, None, 2, 4, 8],
    "--pp": [None, None, 2, 4],
    "--cp": [None] * 6 + [2],
    "--ep": [None] * 5 + [2],
    "--microbatch": [None, 1, 2, 4],
    "--virtual": [None] * 5 + [2],
    "--zero": [None, 1, 2, 3],
    "--recompute": [None, None, "selective", "full"],
    "--schedule": [None] * 5 + ["gpipe", "zb-h1"],
    "--overlap": [None] * 4 + ["none", "tensor,gradients"],
    "--bucket": [None] * 5 + ["whole"],
    "--sp": [None, None, True],
    "--offload": [None] * 7 + [True],
    "--whole-sends": [None] * 7 + [True],
}
# A planner with its flags, how many plans, the most nodes, and what it plans. None takes its effort from
# the clock: searches end by themselves or after so many steps.
SMALL = ["gpt2", "gpt3-350m", "gpt3-1.3b", "gpt3-2.6b", "llama3.2-1b", "bert-large", "bert-huge-32",
         "vit-huge-32", "t5-large-32", "qwen1.5-moe-a2.7b"]
LARGE = SMALL + ["gpt3-13b", "llama3-8b", "llama3-70b", "mixtral-8x7b", "nemotron-h-8b"]
PLANNERS = [
    (["--planner", "auto", "--quick"], 16, 8, LARGE),
    (["--planner", "auto"], 4, 2, ["gpt2", "bert-large", "gpt3-350m"]),
    (["--planner", "galvatron"], 8, 8, LARGE),
    (["--planner", "galvatron", "--space", "galvatron"], 4, 8, SMALL),
    (["--planner", "aceso", "--max-hops", "3"], 6, 2, SMALL),
    (["--planner", "autoddl"], 7, 1, ["gpt2", "gpt3-350m", "bert-large", "vit-huge-32", "vgg-13", "resnet-50"]),
    (["--planner", "megatron"], 5, 4, LARGE),
]

# Keys that were given another name, old to new, wherever they stand.
RENAMED = {
    "batch_per_step": "step_samples",
    "plan.batch.step": "plan.batch.step_samples",
}
# What depends on the clock or on the machine, not on the answer.
TIMED = {"search_s", "wall_s", "compile_s", "simulate_s"}
# Texts that are part of the answer; all others are for people.
TEXTS = {"half", "split", "until", "at", "dtype", "policy", "recompute", "model", "options", "cluster",
         "class", "found_by"}


# ---- questions -----------------------------------------------------------------------------------

def flags(drawn):
    out = []
    for flag, value in drawn.items():
        if value is not None:
            out += [flag] if value is True else [flag, str(value)]
    return out


def draw_cluster(rng, most=max(NODES)):
    preset = rng.choice(list(CLUSTERS))
    nodes = min(rng.choice(NODES), most) * (8 if CLUSTERS[preset] == 1 else 1)
    return f"{preset}:{nodes}", CLUSTERS[preset] * nodes


def draw_simulation(rng):
    cluster, devices = draw_cluster(rng)
    drawn = {flag: rng.choice(values) for flag, values in DEGREES.items()}
    batch = devices * rng.choice([1, 2, 4])
    return ["simulate", rng.choice(MODELS), cluster, *flags(drawn), "--global-batch", str(batch)]


def draw_plan(rng, options, most_nodes, models):
    cluster, devices = draw_cluster(rng, most_nodes)
    batch = devices * rng.choice([1, 2, 4])
    return ["plan", rng.choice(models), cluster, *options, "--global-batch", str(batch)]


class Progress:
    """How many questions were asked, on standard error, every few seconds."""

    EVERY_S = 5

    def __init__(self):
        self.lock, self.what, self.of, self.done, self.said = threading.Lock(), "", 0, 0, time.monotonic()

    def begin(self, what, of):
        self.what, self.of, self.done = what, of, 0
        print(f"{what}: {of} questions", file=sys.stderr, flush=True)

    def add(self, question):
        with self.lock:
            self.done += 1
            if time.monotonic() - self.said < self.EVERY_S:
                return
            self.said = time.monotonic()
        print(f"{self.what}: {self.done} asked for {self.of}, last: weft {' '.join(question)}", file=sys.stderr, flush=True)


PROGRESS = Progress()


def ask(weft, question):
    """The exit code and the JSON object; of a question that was refused, what was said."""
    seconds = VALIDATE_SECONDS if question[0] == "validate" else CPU_SECONDS
    child = subprocess.Popen([weft, *question, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    resource.prlimit(child.pid, resource.RLIMIT_CPU, (seconds, seconds))
    out, err = child.communicate()
    PROGRESS.add(question)
    if child.returncode < 0:
        return {"code": child.returncode, "said": f"ended by signal {-child.returncode}; it may take {seconds} s of a core"}
    if child.returncode not in (0, 1) or not out.strip():
        return {"code": child.returncode, "said": err.strip()}
    return {"code": child.returncode, "answer": json.loads(out)}


def collect(weft, pool, draw, want):
    """The first `want` of the questions drawn that this build answers, with its answers."""
    kept, seen = [], set()
    while len(kept) < want:
        batch = []
        while len(batch) < want - len(kept):
            question = draw()
            if tuple(question) not in seen:
                seen.add(tuple(question))
                batch.append(question)
        answers = pool.map(lambda question: ask(weft, question), batch)
        kept += [[q, a] for q, a in zip(batch, answers) if "answer" in a]
    return kept


def first_answers(weft, pool):
    rng = random.Random(SEED)
    validate = ["validate", "--rows"]
    PROGRESS.begin("the old build, validate", 1)
    out = [[validate, ask(weft, validate)]]
    PROGRESS.begin("the old build, simulations", SIMULATIONS)
    out += collect(weft, pool, lambda: draw_simulation(rng), SIMULATIONS)
    for options, count, *rest in PLANNERS:
        PROGRESS.begin(f"the old build, plans with {' '.join(options)}", count)
        out += collect(weft, pool, lambda o=options, r=rest: draw_plan(rng, o, *r), count)
    return out


# ---- comparing -----------------------------------------------------------------------------------

def new_name(path):
    """A path of the old answer as the new one has it."""
    for old, new in RENAMED.items():
        if path == old or path.endswith("." + old):
            return path[: len(path) - len(old)] + new
    return path


def facts(value, path="", key=""):
    """Every number and every text of TEXTS, by its path."""
    if isinstance(value, dict):
        for k, v in value.items():
            if k not in TIMED:
                yield from facts(v, f"{path}.{k}" if path else k, k)
    elif isinstance(value, list):
        yield f"{path}.length", len(value)
        for i, v in enumerate(value):
            yield from facts(v, f"{path}.{i}", key)
    elif not isinstance(value, str) or key in TEXTS:
        yield path, value


def differences(old, new):
    if "answer" not in new:
        return [f"answered before; now exit code {new['code']}: {new['said']}"]
    out = [] if old["code"] == new["code"] else [f"exit code {old['code']}, now {new['code']}"]
    now = dict(facts(new["answer"]))
    for path, value in facts(old["answer"]):
        found = path if path in now else new_name(path)
        if found not in now:
            out.append(f"{path}: {value!r}, now nothing")
        elif now[found] != value:
            out.append(f"{path}: {value!r}, now {now[found]!r}")
    return out


def compare(old, weft, pool, most):
    PROGRESS.begin("the new build", len(old))
    answers = pool.map(lambda pair: ask(weft, pair[0]), old)
    unlike = 0
    for (question, before), now in zip(old, answers):
        found = differences(before, now)
        unlike += bool(found)
        if found:
            print("weft", *question)
            for line in found[:most]:
                print("   ", line)
            if len(found) > most:
                print(f"    and {len(found) - most} more")
    print(f"{len(old)} answers: {len(old) - unlike} the same, {unlike} not")
    return unlike


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("weft", nargs="+", help="OLD and NEW; with --save OLD, with --against NEW")
    parser.add_argument("--save", metavar="FILE", help="write the old build's answers here")
    parser.add_argument("--against", metavar="FILE", help="answers that --save has written")
    parser.add_argument("--jobs", type=int, default=2, help="questions at a time (default 2)")
    parser.add_argument("--most", type=int, default=8, help="differences shown per answer")
    args = parser.parse_args()
    if len(args.weft) != (1 if args.against else 2 if not args.save else len(args.weft)):
        parser.error("OLD and NEW are needed, or one of them with --save or --against")
    pool = ThreadPoolExecutor(args.jobs)
    if args.against:
        with open(args.against, encoding="utf-8") as file:
            old = json.load(file)
    else:
        old = first_answers(args.weft[0], pool)
    if args.save:
        with open(args.save, "w", encoding="utf-8") as file:
            json.dump(old, file)
    new = args.weft[1:] if not args.against else args.weft
    return 1 if new and compare(old, new[0], pool, args.most) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        print(f"compare-builds: {error}", file=sys.stderr)
        sys.exit(2)
