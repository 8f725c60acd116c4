#!/usr/bin/env python3
"""Runs the program on hostile inputs, and says which ones it does not stand.

    tools/hostile.py --weft build/weft                    all hand-made inputs and 20,000 mutations
    tools/hostile.py --weft build/weft --sample 60 --mutations 60      a few seconds, as `make test` does
    tools/hostile.py --weft build/weft --resume           goes on where a hunt with the same seed was cut off

Hand-made inputs are those of tests/data/hostile.txt. A mutation takes a valid file (SEEDS), changes a few
bytes or tokens, and asks a command about it; what is refused as no YAML, JSON, XML or text at all does not
count, for it did not get past the first check. The same seed gives the same inputs.

An input is a find when the program
  - ends by a signal, or with an exit code that no input may lead to (0 done, 1 no answer, 2 bad input may; 3 says that
    the machine or the program failed),
  - takes more than 20 s of a core, or more than 2 GB,
  - writes a control character, or what is no UTF-8, to standard output or standard error,
  - answers with nonsense: NaN, infinite or negative numbers, an iteration of no time or of a century, or a
    plan that fits in no memory.
Each is kept in a folder with its file and its command; the exit code is 1 when there is one. Beside them, count.json
says how far the hunt is: it is written every few seconds, so that a hunt that is cut off, even by SIGKILL, has counted
what it ran.
"""
import argparse
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOST_CPU_S = 20
MOST_BYTES = 2 << 30
ENDED_CPU_S = 25  # of a core: then the kernel ends it, whatever else the machine does meanwhile
MOST_WALL_S = 600  # then it waits for something that does not come
COUNT_EVERY_S = 5  # between two writings of count.json
LONGEST_ITERATION_S = 3.2e9  # a century
OWN_CODES = (0, 1, 2)

# What is mutated: files by pattern, and the commands that are asked; @ is the file, $ this repository.
SEEDS = [
    ("data/plans/**/*.yaml", ["check @", "simulate @ --json", "show @ --json", "export @ --to megatron",
                           "export @ --to torchtitan --nearest --json"]),
    ("fuzz/corpus/plan/*", ["check @ --json", "simulate @ --json --timeline", "show @"]),
    ("data/clusters/*.yaml", ["simulate gpt3-350m @ --json", "clusters @", "clusters @ --json",
                              "simulate gpt3-350m @ --tp 2 --sp --json"]),
    ("fuzz/corpus/cluster_yaml/*", ["simulate gpt3-350m @ --json", "clusters @ --json"]),
    ("data/topologies/*.xml", ["clusters @ --json", "simulate gpt3-350m @ --json"]),
    ("fuzz/corpus/model_yaml/tower.yaml", ["inspect @ --json", "simulate @ dgx-h100:1 --tp 2 --encoder-dp 4 --json",
                                           "simulate @ dgx-a100:2 --pp 2 --encoder-pp 2 --encoder-tp 1 --images 3",
                                           "check @ dgx-h100:1 --tp 8 --global-batch 64 --json"]),
    ("data/models/*.yaml", ["inspect @ --json", "simulate @ dgx-a100:1 --json", "inspect @",
                            "simulate @ dgx-h100:2 --zero 3 --microbatch 2 --json"]),
    ("fuzz/corpus/hf_config/*.json", ["inspect @ --json", "simulate @ dgx-a100:1 --json",
                                      "simulate @ dgx-h100:1 --tp 8 --recompute full --json",
                                      "simulate @ dgx-h100:2 --pp 2 --recompute full --recompute-layers 3 --json"]),
    ("fuzz/corpus/onnx/*.onnx", ["inspect @ --json", "simulate @ dgx-a100:1 --json"]),
    ("fuzz/corpus/nccl_tests/*", ["fit @", "fit @ --json", "fit @ --cluster dgx-a100:2",
                                  "fit @ --collective all_reduce --json"]),
    ("fuzz/corpus/profile_csv/*", ["profile import @ --db x.sqlite --device A100-SXM4-80GB --json"]),
    ("fuzz/corpus/import/*.txt", ["import @ dgx-a100:2 --json", "import @ dgx-h100:4"]),
    ("fuzz/corpus/import/aceso*.json", ["import @ dgx-v100:1x2 --from aceso --json"]),
    ("fuzz/corpus/import/strategy.json",
     ["import @ titan-rtx --from galvatron --model bert-huge-32 --set layers=12 --json"]),
    ("fuzz/corpus/tokens/*", ["train $/data/plans/tiny.yaml --data @ --steps 1 --json"]),
]
FIRST_CHECK = re.compile(r"is not valid (YAML|JSON)|is not text|is not UTF-8|NUL byte|not well-formed|is UTF-16|"
                         r"is empty, expected|is no ONNX|not an ONNX|mismatched tag")

NUMBERS = ["0", "-1", "-0", "1", "2", "3", "7", "1e9", "1e18", "1e308", "1e-308", "-1e30", "9223372036854775807",
           "9223372036854775808", "-9223372036854775808", "4294967296", "2147483648", "65536", "0.5", "1e-9", "NaN",
           "Infinity", "-Infinity", ".inf", ".nan", "1e400", "0x7fffffff", "1000003", "99999999999999999999"]
UNITS = ["B", "KiB", "GiB", "TiB", "GB/s", "Gb/s", "TB/s", "us", "ns", "s", "h", "d"]
WORDS = ["null", "true", "false", "''", "[]", "{}", "~", "auto", "\"\\u001b[31m\"", "\"\\u202e\"", "\"a\\nb\"", "fp8",
         "fp32", "bf16", "pure-bf16", "zb-h1", "interleaved", "aiao", "gpipe"]
TOKEN = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|[A-Za-z_][A-Za-z0-9_.-]*|[^\sA-Za-z0-9]")


def read_cases(path):
    """Hand-made inputs: a list of (words, files), after lists of values are put in where {name} stands."""
    lists, cases, words, files, name = {}, [], None, {}, None

    def close():
        if words is not None:
            cases.extend(expand(words, {k: "".join(v) for k, v in files.items()}, lists))

    for line in open(path, encoding="utf-8"):
        if line.startswith(">>> "):
            close()
            words, files, name = line[4:].rstrip("\n"), {}, None
        elif line.startswith("--- "):
            name = line[4:].strip()
            files[name] = []
        elif line.startswith("list ") and name is None:
            key, values = line[5:].rstrip("\n").split(":", 1)
            lists[key] = [unescape(v) for v in values.split(" ") if v]
        elif name is not None:
            files[name].append(line)
    close()
    return cases


def unescape(text):
    """\\xHH and \\s (a space) and \\0 (nothing at all) of a value of a list."""
    text = text.replace("\\s", " ").replace("\\0", "")
    return re.sub(r"\\x([0-9a-f]{2})", lambda m: os.fsdecode(bytes([int(m.group(1), 16)])), text)


def expand(words, files, lists):
    """A case for each value of the one list that it names, or itself."""
    everything = words + "".join(files.values())
    used = [key for key in lists if "{" + key + "}" in everything]
    if not used:
        return [(words, {k: content(v) for k, v in files.items()})]
    key = used[0]
    more = []
    for value in lists[key]:
        put = lambda text: text.replace("{" + key + "}", value)
        more += expand(put(words), {put(k): put(v) for k, v in files.items()}, lists)
    return more


def content(text):
    """The bytes of a file: \\xHH is a byte, and `repeat N: text` on a line of its own is the text N times."""
    out = []
    for line in text.splitlines(keepends=True):
        many = re.match(r"repeat (\d+): (.*)\n?$", line)
        out.append(many.group(2) * int(many.group(1)) + "\n" if many else line)
    raw = os.fsencode("".join(out))
    return re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m.group(1), 16)]), raw)


# ---- mutations ------------------------------------------------------------------------------------------------


def mutate_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = bytes([rng.choice([0, 27, 127, 155, 255, rng.randrange(256)])])
        elif kind == 2 and at < len(data):
            del data[at:at + rng.randint(1, 8)]
        elif at < len(data):
            span = data[at:at + rng.randint(1, 64)]
            data[at:at] = span
    return bytes(data)


def scaled(rng, token):
    """A number near the one that stands there: what readers take, and what follows may not."""
    text = token.decode()
    if not re.fullmatch(r"-?[0-9]+", text):
        return repr(float(text) * rng.choice([0, -1, 0.5, 2, 10, 1e-6, 1e6])).encode()
    value = int(text)
    return str(rng.choice([value + 1, value - 1, -value, value * 2, value * 10, value * 1000, value // 2])).encode()


def other_value(rng, token):
    if re.match(rb"-?[0-9]", token):
        if rng.random() < 0.5:
            return scaled(rng, token)
        number = rng.choice(NUMBERS)
        return (number + rng.choice([""] * 6 + UNITS)).encode()
    return rng.choice(WORDS + NUMBERS).encode()


def mutate_tokens(rng, data):
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        tokens = list(TOKEN.finditer(data))
        if not tokens:
            return mutate_bytes(rng, data)
        numbers = [t for t in tokens if re.match(rb"-?[0-9]", t.group())]
        one = rng.choice(numbers if numbers and rng.random() < 0.6 else tokens)
        kind = rng.randrange(8)
        if kind < 5:
            new = other_value(rng, one.group())
        elif kind == 5:
            new = rng.choice(tokens).group()
        else:
            new = b"" if kind == 6 else one.group() * 2
        data = data[:one.start()] + new + data[one.end():]
        if rng.random() < 0.15:
            lines = data.splitlines(keepends=True)
            at = rng.randrange(len(lines)) if lines else 0
            lines[at:at + 1] = [] if rng.random() < 0.5 else lines[at:at + 1] * 2
            data = b"".join(lines)
    return data


def seeds():
    import glob
    found = []
    for pattern, commands in SEEDS:
        for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True)):
            data = open(path, "rb").read()
            for folder in ("models", "clusters"):  # which plans name beside themselves
                data = data.replace(f"../{folder}/".encode(), f"{ROOT}/data/{folder}/".encode())
            if 0 < len(data) < 1 << 17:
                found.append((os.path.basename(path), data, commands))
    return found


def mutation(seed, number, files):
    rng = random.Random(seed * 1000003 + number)
    name, data, commands = rng.choice(files)
    binary = b"\0" in data
    change = mutate_bytes if binary or rng.random() < 0.15 else mutate_tokens
    return rng.choice(commands).replace("@", name), {name: change(rng, data)}, (name, data)


# ---- running --------------------------------------------------------------------------------------------------


class Outcome:
    def __init__(self, code, cpu_s, peak_bytes, out, err, ended):
        self.code, self.cpu_s, self.peak_bytes = code, cpu_s, peak_bytes
        self.out, self.err, self.ended = out, err, ended


def run(weft, words, files, folder):
    for name, data in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
    with open(os.path.join(folder, "data.txt"), "wb") as file:
        file.write(b"the quick brown fox jumps over the lazy dog. " * 40)
    out_path, err_path = os.path.join(folder, ".out"), os.path.join(folder, ".err")
    with open(out_path, "wb") as out, open(err_path, "wb") as err:
        child = subprocess.Popen([weft] + split(words.replace("$", ROOT).replace("\0", "")), cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=err)
        resource.prlimit(child.pid, resource.RLIMIT_CPU, (ENDED_CPU_S, ENDED_CPU_S))
        timer = threading.Timer(MOST_WALL_S, child.kill)
        timer.start()
        _, status, used = os.wait4(child.pid, 0)
        ended = not timer.is_alive()
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
    return Outcome(child.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024,
                   open(out_path, "rb").read(), open(err_path, "rb").read(), ended)


def split(words):
    """At spaces; '...' is one word, with the spaces in it."""
    return [a or b for a, b in re.findall(r"'([^']*)'|(\S+)", words)] if "''" not in words else \
        [w[1:-1] if w.startswith("'") else w for w in re.findall(r"'[^']*'|\S+", words)]


# ---- judging --------------------------------------------------------------------------------------------------

HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# Differences may be negative, and are called so; so may what a user gave.
SIGNED = re.compile(r"error|gain|difference|change|offset|slack|delta|pads|axis|bias|mean|off$")


def numbers_in(value, path=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers_in(inner, path + "." + key)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers_in(inner, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


def nonsense_json(answer):
    for path, value in numbers_in(answer):
        if isinstance(value, float) and not math.isfinite(value):
            return f"{path} is {value}"
        if value < 0 and re.search(r"(_s|_ns|_bytes|bytes|flops|parameters|peak|limit)$", path) \
                and not SIGNED.search(path):
            return f"{path} is {value}"
    if isinstance(answer, dict) and "iteration_s" in answer:
        if not 1e-9 < answer["iteration_s"] < LONGEST_ITERATION_S:
            return f"an iteration of {answer['iteration_s']} s"
        for stage in answer.get("memory", []):
            if answer.get("fits") and isinstance(stage, dict) and stage.get("limit", 1) <= 0:
                return "it fits in no memory"
    return None


def nonsense(outcome, words):
    if outcome.code != 0:
        return None
    text = outcome.out.decode("utf-8", "replace")
    if "--json" in words:
        try:
            return nonsense_json(json.loads(text))
        except ValueError as error:
            return f"exit 0 with what is no JSON ({error})"
    found = re.search(r"(?<![\w./-])[-+]?(nan|inf)(?![\w./-])|(?<![\w-])-[0-9.]+ (ns|us|ms|s|GiB|MiB|KiB|B)\b", text)
    return f"'{found.group()}' in its answer" if found else None


def fault(outcome, words):
    if outcome.code < 0 and not outcome.ended and outcome.cpu_s <= MOST_CPU_S:
        return f"signal {-outcome.code}"
    if outcome.code >= 0 and outcome.code not in OWN_CODES:
        return f"exit code {outcome.code}"
    if outcome.cpu_s > MOST_CPU_S or outcome.ended:
        return f"{outcome.cpu_s:.1f} s of a core" + (", ended" if outcome.ended else "")
    if outcome.peak_bytes > MOST_BYTES:
        return f"{outcome.peak_bytes / 2**30:.2f} GiB"
    for stream, raw in (("output", outcome.out), ("error", outcome.err)):
        try:
            if HIDDEN.search(raw.decode("utf-8")):
                return f"a control character on standard {stream}"
        except UnicodeDecodeError:
            return f"what is no UTF-8 on standard {stream}"
    return nonsense(outcome, words)


# ---- the whole ------------------------------------------------------------------------------------------------


class Count:
    """How far a hunt is. What was under way when it was cut off is not counted, and not run again."""

    FIELDS = ("seed", "hand_made", "mutations", "past", "finds", "codes", "slowest", "largest", "seconds")

    def __init__(self, options):
        self.path = os.path.join(options.found, "count.json")
        self.seed, self.hand_made, self.mutations, self.past, self.finds = options.seed, 0, 0, 0, 0
        self.codes, self.slowest, self.largest = {}, (0, ""), (0, "")
        self.seconds = 0
        if options.resume and os.path.exists(self.path):
            self.read(options.seed)
        self.began = self.written = time.time()
        self.before = self.seconds

    def read(self, seed):
        with open(self.path, encoding="utf-8") as file:
            kept = json.load(file)
        if kept["seed"] != seed:
            sys.exit(f"{self.path} counts a hunt with --seed {kept['seed']}, not {seed}")
        for field in self.FIELDS:
            setattr(self, field, kept[field])

    def add(self, words, outcome, past):
        self.past += past
        self.codes[str(outcome.code)] = self.codes.get(str(outcome.code), 0) + 1
        self.slowest = max(self.slowest, (outcome.cpu_s, words), key=lambda one: one[0])
        self.largest = max(self.largest, (outcome.peak_bytes, words), key=lambda one: one[0])
        if time.time() - self.written > COUNT_EVERY_S:
            self.write()

    def write(self):
        self.written = time.time()
        self.seconds = self.before + self.written - self.began
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump({field: getattr(self, field) for field in self.FIELDS}, file, indent=1)
        os.replace(self.path + ".new", self.path)

    def text(self):
        codes = ", ".join(f"{count} with {code}" for code, count in sorted(self.codes.items()))
        return (f"{self.hand_made} hand-made inputs, {self.past} mutations past the first check of {self.mutations}, "
                f"in {self.seconds:.0f} s: {self.finds} finds; exit codes: {codes}; "
                f"slowest {self.slowest[0]:.1f} s: {ascii(self.slowest[1])}; "
                f"largest {self.largest[0] / 2**20:.0f} MiB: {ascii(self.largest[1])}")


class Hunt:
    def __init__(self, options, count):
        self.options, self.count, self.lock = options, count, threading.Lock()
        self.cut_off = False
        self.taken = {}  # by command line and file: whether the file is taken as it was

    def note(self, words, files, outcome, past):
        why = fault(outcome, words)
        with self.lock:
            self.count.finds += bool(why)
            place = os.path.join(self.options.found, f"{self.count.finds:04d}")
            self.count.add(words, outcome, past)
        if not why:
            return
        os.makedirs(place, exist_ok=True)
        for name, data in files.items():
            open(os.path.join(place, name), "wb").write(data)
        note = f"{why}\nweft {words}\n"
        open(os.path.join(place, "why.txt"), "w", encoding="utf-8", errors="surrogateescape").write(
            note + outcome.err.decode("utf-8", "replace"))
        sys.stdout.write(ascii(f"{place}: {why}: weft {words}")[1:-1] + "\n")
        sys.stdout.flush()

    def run(self, words, files):
        folder = tempfile.mkdtemp(prefix="hostile-", dir=self.options.scratch)
        try:
            return run(self.options.weft, words, files, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def is_taken(self, words, seed):
        """Mutations of what is refused anyway show nothing."""
        key = (words, seed[1])
        if key not in self.taken:
            self.taken[key] = self.run(words, {seed[0]: seed[1]}).code in (0, 1)
        return self.taken[key]

    def one(self, words, files, seed):
        if seed and not self.is_taken(words, seed):
            return
        outcome = self.run(words, files)
        if self.cut_off:  # Ctrl-C reaches the program, too
            return
        past = not (outcome.code == 2 and FIRST_CHECK.search(outcome.err.decode("utf-8", "replace")))
        self.note(words, files, outcome, bool(seed) and past)

    def work(self, jobs):
        while True:
            with self.lock:
                if self.cut_off or (self.count.past >= self.options.mutations and jobs.hand_made_done()):
                    return
                job = jobs.take()
            if not job:
                return
            self.one(*job)


class Jobs:
    """Hand-made inputs first, then mutations by number: at most three times as many as must get past the first check."""

    def __init__(self, options, count):
        cases = read_cases(os.path.join(ROOT, "tests/data/hostile.txt"))
        if options.sample:
            cases = random.Random(options.seed).sample(cases, min(options.sample, len(cases)))
        self.cases, self.files, self.options, self.count = cases, seeds(), options, count

    def hand_made_done(self):
        return self.count.hand_made >= len(self.cases)

    def take(self):
        if not self.hand_made_done():
            self.count.hand_made += 1
            return (*self.cases[self.count.hand_made - 1], None)
        if self.count.mutations >= 3 * self.options.mutations:
            return None
        self.count.mutations += 1
        return mutation(self.options.seed, self.count.mutations, self.files)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weft", default=os.path.join(ROOT, "build/weft"))
    parser.add_argument("--mutations", type=int, default=20000, help="that get past the first check")
    parser.add_argument("--sample", type=int, default=0, help="so many of the hand-made inputs; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--found", default=os.path.join(ROOT, "build/hostile"), help="where finds are kept")
    parser.add_argument("--resume", action="store_true", help="go on where the count in that folder ends")
    options = parser.parse_args()
    options.weft = os.path.abspath(options.weft)
    options.scratch = tempfile.mkdtemp(prefix="weft-hostile-")
    most = 3 * MOST_BYTES  # address space: beyond it the program is out of memory, not this machine
    if "asan" not in options.weft:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    count = Count(options)
    jobs, hunt = Jobs(options, count), Hunt(options, count)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: setattr(hunt, "cut_off", True))
    threads = [threading.Thread(target=hunt.work, args=(jobs,)) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shutil.rmtree(options.scratch, ignore_errors=True)
    count.write()
    print(count.text() + ("; cut off" if hunt.cut_off else ""))
    return 1 if count.finds else 0


if __name__ == "__main__":
    sys.exit(main())
