#!/usr/bin/env python3
"""Puts one fault at a time into a copy of the tree and says whether the tests notice.

  mutants.py                      all faults of faults.txt; status 1 where fewer than 95 % are noticed
  mutants.py --check              only: each fault's old text stands exactly once in its file
  mutants.py --repath             the files that were moved or renamed, found by the old text
  mutants.py --only report,f012   faults whose name or file contains one of these
  mutants.py --sample 60 --seed 7 so many of them, drawn by the seed
  mutants.py --list other.txt     another list
  mutants.py --percent 50         so many of the tests' random cases

A list is plain text, one block per fault, blocks apart by an empty line:

  fault   export-pp                     a name, once in the list
  file    src/exchange/export.c         from the root of the tree
  tests   test_export test_import       programs, or checks of CHECKS, that should notice, the likeliest first
  breaks  The pipeline's degree is not written.
  -       add_above_one(a, "pipeline", d->pp);
  +       add_above_one(a, "pipeline", d->tp);
  equal   Why no test can tell the two apart (only where that is so; then it must survive).

White space in the old text stands for any white space, so that formatting does not matter. Further `-` and
`+` lines continue the text.

A fault is noticed if a named program fails, is killed or does not end within its time, or if the shipped profiles
cannot be built with it. One that the compiler refuses is a mistake in the list.
"""
import argparse
import collections
import json
import os
import pathlib
import queue
import random
import re
import resource
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = pathlib.Path(__file__).with_name("faults.txt")
AT_LEAST = 0.95  # of the faults, noticed
PATIENCE = 5  # times as much of the processor as the unchanged program took, and then it hangs
LEAST_SECONDS = 20
WAITS = 6  # times as long may pass, on a machine that does other things, too
MEMORY_BYTES = 8 << 30  # a fault may ask for all there is
CHECKS = ("explorer", "python", "page", "trace")  # tests of CTest that ask the built program or library
FIELDS = ("fault", "file", "tests", "breaks", "-", "+", "equal")


class Fault:
    def __init__(self, fields, line):
        self.line = line
        self.name, self.file = fields.get("fault", ""), fields.get("file", "")
        self.tests = fields.get("tests", "").split()
        self.breaks, self.why_equal = fields.get("breaks", ""), fields.get("equal", "")
        self.old, self.new = fields.get("-", ""), fields.get("+", "")

    @property
    def room(self):
        parts = pathlib.Path(self.file).parts
        return "/".join(parts[1:-1]) or parts[0]

    def pattern(self):
        words = re.findall(r"\w+|[^\w\s]", self.old)
        gaps = re.split(r"\w+|[^\w\s]", self.old)[1:-1]
        text = re.escape(words[0])
        for gap, before, word in zip(gaps, words, words[1:]):
            apart = gap or not (before[-1].isalnum() and word[0].isalnum())
            text += (r"\s*" if apart else "") + re.escape(word)
        return re.compile(text)

    def places(self, text):
        return list(self.pattern().finditer(text))

    def applied(self, text):
        found = self.places(text)[0]
        return text[: found.start()] + self.new + text[found.end() :]


def read_list(path):
    faults, problems, fields, first = [], [], {}, 0
    for number, line in enumerate([*path.read_text().split("\n"), ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            first = first or number
            key, _, value = line.strip().partition(" ")
            if key not in FIELDS:
                problems.append(f"{path}:{number}: `{key}` is none of {', '.join(FIELDS)}")
            fields[key] = f"{fields[key]}\n{value.strip()}" if key in fields else value.strip()
        elif fields:
            fault = Fault(fields, first)
            for key in ("fault", "file", "tests", "breaks", "-"):
                if not fields.get(key):
                    problems.append(f"{path}:{first}: a fault without `{key}`")
            if any(fault.name == other.name for other in faults):
                problems.append(f"{path}:{first}: the name {fault.name} is taken")
            faults.append(fault)
            fields, first = {}, 0
    return faults, problems


def test_programs():
    return {path.stem: path for path in (ROOT / "tests").rglob("test_*.c")}


def check(path, faults, problems):
    programs = {*test_programs(), *CHECKS}
    for fault in faults:
        where, source = f"{path}:{fault.line}: {fault.name}", ROOT / fault.file
        problems += [f"{where}: there is no test program {t}" for t in fault.tests if t not in programs]
        if not source.is_file():
            problems.append(f"{where}: no file {fault.file}; `tests/mutants/mutants.py --repath` finds moved ones")
            continue
        count = len(fault.places(source.read_text()))
        if count != 1:
            problems.append(
                f"{where}: the old text stands {count} times in {fault.file}, not once; "
                "write it as the file has it now, or replace the fault by one like it"
            )
    return problems


def repath(path, faults):
    texts = {p.relative_to(ROOT): p.read_text() for p in sorted((ROOT / "src").rglob("*.c"))}
    lines = path.read_text().split("\n")
    for fault in faults:
        if fault.file and (ROOT / fault.file).is_file():
            continue
        homes = [str(p) for p, text in texts.items() if len(fault.places(text)) == 1]
        same = [h for h in homes if pathlib.Path(h).name == pathlib.Path(fault.file).name]
        homes = same or homes
        if len(homes) != 1:
            print(f"{fault.name}: {fault.file} is gone; {len(homes)} files have its old text {homes[:3]}")
            continue
        for i in range(fault.line - 1, len(lines)):
            if lines[i].startswith("file"):
                lines[i] = f"file    {homes[0]}"
                break
    path.write_text("\n".join(lines))


# ---- a copy of the tree in which faults are tried ----


class Copy:
    def __init__(self, folder):
        self.root, self.build = folder, folder / "build"
        self.objects = {}

    def fill(self):
        """What git knows of the tree, changed or not; files that stay alike keep their times, and so their objects."""
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        wanted, changed = {name for name in names if name and (ROOT / name).is_file()}, False
        for old in [p for p in self.root.rglob("*") if p.is_file() and self.build not in p.parents]:
            if str(old.relative_to(self.root)) not in wanted:
                old.unlink()
        for name in wanted:
            source, target = ROOT / name, self.root / name
            if target.is_file() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
            changed = True
        return changed

    def prepare(self, programs, memory):
        self.root.mkdir(parents=True, exist_ok=True)
        if self.fill():
            memory.unlink(missing_ok=True)  # that a program passed was said of another tree
        launcher = os.environ.get("CMAKE_C_COMPILER_LAUNCHER") or shutil.which("ccache") or ""
        command = ["cmake", "-S", self.root, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                   f"-DCMAKE_C_COMPILER={os.environ.get('CC', 'gcc')}", f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}",
                   "-DWEFT_CUDA=OFF"]  # kernels for GPUs take minutes, and no fault is in one
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        # Objects of the copies are those of the tree: paths from the root are alike.
        made = self.make(programs, {"CCACHE_BASEDIR": str(self.root), "CCACHE_NOHASHDIR": "1"})
        if made.returncode:
            failed = [line for line in made.stdout.split("\n") if "error:" in line or "undefined" in line]
            print("\n".join(failed[:5]) or made.stdout[-2000:])
            return
        for entry in re.findall(r"^build (\S+\.o): \S+ (\S+\.c)", (self.build / "build.ninja").read_text(), re.M):
            self.objects.setdefault(os.path.realpath(entry[1]), []).append(self.build / entry[0])

    def make(self, tests, environment):
        programs = [test for test in tests if test not in CHECKS]
        return subprocess.run(
            ["ninja", "-C", self.build, "-j", "1", *programs, "weft", "weft_shared", "profiles"],
            env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def programs(self, names):
        return [p for name in names for p in self.build.glob(f"tests/**/{name}") if p.is_file()]

    def run(self, program, seconds):
        """The program's status, or None where it did not end in time."""

        def limit():
            if program not in CHECKS:  # a browser reserves more than it takes
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.setsid()

        check = ["ctest", "--output-on-failure", "-R", f"^{program}$"]
        process = subprocess.Popen(check if program in CHECKS else self.programs([program]), cwd=self.build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   preexec_fn=limit)
        try:
            process.output = process.communicate(timeout=WAITS * seconds)[0].decode(errors="replace")
            return process
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return None

    def with_fault(self, fault, seconds):
        """(what happened, which test, a line that says how)"""
        source = self.root / fault.file
        made_of_it = [*self.objects.get(os.path.realpath(source), []), *self.build.glob("src/*.a"), self.build / "weft",
                      (self.build / "libweft.so").resolve()]
        saved = [(p, p.read_bytes(), p.stat()) for p in [source, *made_of_it, *self.programs(fault.tests)]]
        try:
            source.write_text(fault.applied(source.read_text()))
            made = self.make(fault.tests, {"CCACHE_DISABLE": "1"})
            if made.returncode:
                errors = [line for line in made.stdout.split("\n") if "error:" in line]
                if errors:
                    return "refused", "", errors[0]
                return "noticed", "the build", "of the shipped profiles"
            for test in fault.tests:
                done = self.run(test, seconds[test])
                if done is None:
                    return "noticed", test, "does not end"
                if done.returncode:
                    failed = re.findall(r"\[  FAILED  \] \d* ?test\(s\)|\[  FAILED  \] (\w+)", done.output)
                    return "noticed", test, next((f for f in failed if f), f"status {done.returncode}")
            return "survived", "", ""
        finally:
            for path, content, info in saved:  # and their times: then nothing is to be made again
                path.unlink(missing_ok=True)  # a program that a killed test started may still run
                path.write_bytes(content)
                path.chmod(info.st_mode)
                os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def processor_seconds(begin, end):
    return end.children_user + end.children_system - begin.children_user - begin.children_system


def time_programs(copy, programs, memory):
    """How much of the processor each may take. Each must pass without a fault; `memory` is a file of those that did before."""
    known = json.loads(memory.read_text()) if memory.is_file() else {}
    seconds = {program: known[program] for program in programs if program in known}
    for program in sorted(programs - seconds.keys()):
        begin = os.times()
        done = copy.run(program, 600)
        if done is None or done.returncode:
            sys.exit(f"{program} fails without any fault:\n{done.output[-2000:] if done else 'does not end'}")
        seconds[program] = max(LEAST_SECONDS, PATIENCE * processor_seconds(begin, os.times()))
        memory.write_text(json.dumps({**known, **seconds}))
    return seconds


def together(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def try_all(faults, folder, memory, jobs):
    programs = {test for fault in faults for test in fault.tests}
    copies = [Copy(folder / str(i)) for i in range(jobs)]
    together([threading.Thread(target=copy.prepare, args=(sorted(programs), memory)) for copy in copies])
    if not all(copy.objects for copy in copies):
        sys.exit("the unchanged tree does not build")
    seconds = time_programs(copies[0], programs, memory)
    work, results, lock = queue.Queue(), {}, threading.Lock()
    for fault in faults:
        work.put(fault)

    def worker(copy):
        while True:
            try:
                fault = work.get_nowait()
            except queue.Empty:
                return
            begin = time.monotonic()
            result = copy.with_fault(fault, seconds)
            with lock:
                results[fault.name] = result
                print(f"{len(results):4d}/{len(faults)} {result[0]:8s} {fault.name:28s} {result[1]} {result[2]}"
                      f" ({time.monotonic() - begin:.0f} s)", flush=True)

    together([threading.Thread(target=worker, args=(copy,)) for copy in copies])
    return results


def tell(faults, results):
    rooms = collections.defaultdict(collections.Counter)
    for fault in faults:
        outcome = results[fault.name][0]
        rooms[fault.room]["equal" if fault.why_equal and outcome == "survived" else outcome] += 1
    print(f"\n{'room':24s} {'faults':>6s} {'noticed':>8s} {'survived':>8s} {'equal':>6s}")
    for room, count in sorted(rooms.items()):
        print(f"{room:24s} {count.total():6d} {count['noticed']:8d} {count['survived']:8d} {count['equal']:6d}")
    wrong = [f for f in faults if results[f.name][0] == "refused" or (f.why_equal and results[f.name][0] == "noticed")]
    survivors = [f for f in faults if not f.why_equal and results[f.name][0] == "survived"]
    judged = [f for f in faults if not f.why_equal]
    noticed = sum(results[f.name][0] == "noticed" for f in judged)
    print(f"{'all':24s} {len(faults):6d} {noticed:8d} {len(survivors):8d} {len(faults) - len(judged):6d}")
    for fault in survivors:
        print(f"survived: {fault.name}, {fault.file}: {fault.breaks}")
    for fault in wrong:
        print(f"mistake in the list: {fault.name}: {results[fault.name][0]}: {results[fault.name][2]}")
    print(f"{noticed} of {len(judged)} faults noticed, {noticed / max(1, len(judged)):.1%}; "
          f"at least {AT_LEAST:.0%} must be")
    return bool(wrong) or noticed < AT_LEAST * len(judged)


def main():
    about = argparse.ArgumentParser(description="Do the tests notice faults?")
    about.add_argument("--check", action="store_true")
    about.add_argument("--repath", action="store_true")
    about.add_argument("--list", type=pathlib.Path, default=LIST)
    about.add_argument("--only", default="")
    about.add_argument("--sample", type=int, default=0)
    about.add_argument("--seed", type=int, default=1)
    about.add_argument("--jobs", type=int, default=2)
    about.add_argument("--percent", type=int, default=100)
    about.add_argument("--copies", type=pathlib.Path, default=ROOT / "build" / "mutants")
    given = about.parse_args()
    faults, problems = read_list(given.list)
    if given.repath:
        return repath(given.list, faults)
    if check(given.list, faults, problems):
        print("\n".join(problems))
        return 1
    print(f"{len(faults)} faults; each stands once in its file")
    if given.check:
        return 0
    wanted = given.only.split(",")
    faults = [f for f in faults if any(w in f.name or w in f.file for w in wanted)]
    if 0 < given.sample < len(faults):
        faults = random.Random(given.seed).sample(faults, given.sample)
    os.nice(10)
    os.environ["WEFT_TEST_PERCENT"] = str(given.percent)
    given.copies = given.copies.resolve()
    memory = given.copies / f"seconds-{given.percent}.json"
    return tell(faults, try_all(faults, given.copies, memory, min(given.jobs, len(faults))))


if __name__ == "__main__":
    sys.exit(main())
