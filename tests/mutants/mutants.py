#!/usr/bin/env python3
"""Puts one fault at a time into a copy of the tree and says whether the tests notice.

  mutants.py                      all faults of faults.txt; status 1 where fewer than 95 % are noticed
  mutants.py --check              only: each fault's old text stands exactly once in its file
  mutants.py --repath             the files that were moved or renamed, found by the old text
  mutants.py --only report,f012   faults whose name or file contains one of these
  mutants.py --sample 60 --seed 7 so many of them, drawn by the seed
  mutants.py --part 1/3           the first third of them
  mutants.py --resume FILE        goes on where a run was cut off: outcomes are kept in FILE, and faults that it says were
                                  noticed, and that are the same in the list, are not tried again
  mutants.py --list other.txt     another list
  mutants.py --percent 50         so many of the tests' random cases
  mutants.py --draw 60 --seed 7 --resume lot.txt
                                  writes a list of so many faults drawn by lot from all of src/ (draw.py has the rule), for
                                  --list lot.txt

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
cannot be built with it or are others. A warning is not enough: tests must notice. One that cannot be compiled is a mistake
in the list.

What a fault costs is the tests: the copy has the whole program in one shared library (WEFT_SHARED_PROGRAM), so one file is
compiled and one library linked, apart from the copy's own, and programs are told by LD_LIBRARY_PATH to take it. Named
programs run with a few of their random cases first, each until its first failing test; only a fault that they do not notice
is shown all cases. What is still not noticed then runs once more with the changed file and arenas under sanitizers, for
`make test` does that with everything: a place beyond an array, a sum that wraps or memory that is lost is noticed.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import queue
import random
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

import draw

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = pathlib.Path(__file__).with_name("faults.txt")
AT_LEAST = 0.95  # of the faults, noticed
PATIENCE = 5  # times as much of the processor as the unchanged program took, and then it hangs
LEAST_SECONDS = 20
MOST_SECONDS = 600  # of the processor, with all random cases
FEW = 10  # percent of the random cases, first
WAITS = 6  # times as long may pass, on a machine that does other things, too
MEMORY_BYTES = 8 << 30  # a fault may ask for all there is
SANITIZED = "-fsanitize=address,undefined -fsanitize-undefined-trap-on-error -O1"  # traps need no library
ARENA = ("src/base/arena.c", "src/base/chunks.c")  # under sanitizers they guard what they hand out
WHOLE = ("test_recorded", "test_drawn_details", "test_courses", "test_cli", "python")  # ask the whole program or library
NEAR = 6  # programs of one kind that are asked of a fault that is drawn by lot
CHECKS = ("explorer", "python", "page", "trace", "words")  # tests of CTest that ask the built program, library or the sources
LIBRARY = "src/libweft_program.so"
FAILED = r"\[  FAILED  \] (?:\d+ test\(s\)|(\w+))"  # as cmocka writes it
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

    def text(self):
        return "\n".join((self.file, self.old, self.new))

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
    """The unchanged tree, built; every worker has a folder beside it for the changed file and the library of it."""

    def __init__(self, folder):
        self.root, self.build = folder / "tree", folder / "tree" / "build"
        self.commands, self.checks, self.seconds, self.tight = {}, {}, {}, {}
        self.lock, self.python_lock = threading.Lock(), threading.Lock()

    def fill(self):
        """What git knows of the tree, changed or not; files that stay alike keep their times, and so their objects."""
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        wanted = {name for name in names if name and (ROOT / name).is_file()}
        for old in [p for p in self.root.rglob("*") if p.is_file() and self.build not in p.parents]:
            if str(old.relative_to(self.root)) not in wanted:
                old.unlink()
        for name in wanted:
            source, target = ROOT / name, self.root / name
            if target.is_file() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)

    def prepare(self, jobs):
        self.root.mkdir(parents=True, exist_ok=True)
        self.fill()
        launcher = os.environ.get("CMAKE_C_COMPILER_LAUNCHER") or shutil.which("ccache") or ""
        command = ["cmake", "-S", self.root, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                   f"-DCMAKE_C_COMPILER={os.environ.get('CC', 'gcc')}", f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}",
                   "-DWEFT_SHARED_PROGRAM=ON", "-DCMAKE_LINK_DEPENDS_NO_SHARED=ON",
                   "-DWEFT_CUDA=OFF"]  # kernels for GPUs take minutes, and no fault is in one
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.make("weft", "weft_shared", "profiles", jobs=jobs)
        self.read_commands()

    def make(self, *targets, jobs=1):
        # Objects of the copy are those of the tree: paths from the root are alike.
        environment = {**os.environ, "CCACHE_BASEDIR": str(self.root), "CCACHE_NOHASHDIR": "1"}
        made = subprocess.run(["ninja", "-C", self.build, "-j", str(jobs), *targets],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode:
            failed = [line for line in made.stdout.split("\n") if "error:" in line or "undefined" in line]
            raise SystemError("the unchanged tree does not build\n" + ("\n".join(failed[:5]) or made.stdout[-2000:]))

    def asked(self, *command):
        return subprocess.run(command, cwd=self.build, capture_output=True, text=True, check=True).stdout

    def read_commands(self):
        """How each object of the library is made, the library itself, the profiles and the checks."""
        for entry in json.loads(self.asked("ninja", "-t", "compdb")):
            if entry["output"].endswith(".c.o") and "weft_shared.dir" not in entry["output"]:
                self.commands[entry["output"]] = entry
        self.linked = {name: self.asked("ninja", "-t", "commands", "-s", name)
                       for name in (LIBRARY, os.path.basename((self.build / "libweft.so").resolve()))}
        self.imports = [line for line in self.asked("ninja", "-t", "commands", "profiles").split("\n")
                        if " profile import " in line]
        for test in json.loads(self.asked("ctest", "--show-only=json-v1"))["tests"]:
            if test["name"] in CHECKS:
                self.checks[test["name"]] = test["command"]
        self.readers = collections.defaultdict(set)  # of a header: the objects made with it
        output = ""
        for line in self.asked("ninja", "-t", "deps").split("\n"):
            if line.startswith(" "):
                self.readers[os.path.realpath(self.build / line.strip())].add(output)
            else:
                output = line.partition(":")[0]

    def objects_of(self, source):
        return [o for o in sorted(self.readers[os.path.realpath(source)]) if o in self.commands and o.startswith("src/")]

    def seconds_of(self, test, percent):
        """How much of the processor the program may take. It is built when it is first asked for, and must pass without a fault."""
        with self.lock:
            if (test, percent) not in self.seconds:
                if test not in CHECKS:
                    self.make(test)
                begin = os.times()
                done = self.run(test, 600, percent, {}, {})
                if done is None or done.returncode:
                    raise SystemError(f"{test} fails without any fault:\n{done.output[-2000:] if done else 'does not end'}")
                self.seconds[test, percent] = max(LEAST_SECONDS, PATIENCE * processor_seconds(begin, os.times()))
            return self.seconds[test, percent]

    def sanitizer(self, leaks):
        """What puts gcc's address sanitizer, and its leak checker, beside a program; nothing where there is none."""
        library = self.asked(os.environ.get("CC", "gcc"), "-print-file-name=libasan.so").strip()
        known = ROOT / "tests" / "support" / "openmpi.supp"
        return {"LD_PRELOAD": library, "ASAN_OPTIONS": f"detect_leaks={leaks}",
                "LSAN_OPTIONS": f"suppressions={known}:print_suppressions=0"} if os.path.isabs(library) else {}

    def beside(self, test):
        """The sanitizer with which the program passes without a fault, or nothing. What it starts is watched, too: where that
        loses memory, as Python does, leaks are not looked for."""
        with self.lock:
            if test not in self.tight:
                tried = [environment for leaks in (1, 0) if (environment := self.sanitizer(leaks))]
                self.tight[test] = next((e for e in tried if self.passes(test, e)), {})
            return self.tight[test]

    def passes(self, test, environment):
        done = self.run(test, MOST_SECONDS, FEW, environment, {})
        return done is not None and done.returncode == 0

    def command_of(self, test, instead):
        if test in CHECKS:
            return [instead.get(os.path.basename(word), word) for word in self.checks[test]]
        return [p for p in self.build.glob(f"tests/**/{test}") if p.is_file()]

    def run(self, test, seconds, percent, environment, instead):
        """The program's end, with `returncode` and `output`, or None where it did not end in time."""

        def limit():
            if test not in CHECKS and "LD_PRELOAD" not in environment:  # browsers and sanitizers reserve more than they take
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            if test not in CHECKS:
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.setsid()

        process = subprocess.Popen(
            self.command_of(test, instead), cwd=self.build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            preexec_fn=limit, env={**os.environ, "WEFT_TEST_PERCENT": str(percent), **environment})
        late = threading.Timer(WAITS * seconds, os.killpg, (process.pid, 9))
        late.start()
        lines, failed = [], False
        for line in process.stdout:
            lines.append(line.decode(errors="replace"))
            failed = failed or (test not in CHECKS and re.match(FAILED, lines[-1]))
            if failed:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                break
        process.wait()
        ended, process.output = late.is_alive(), "".join(lines)
        late.cancel()
        process.stdout.close()
        return process if ended else None


class Worker:
    def __init__(self, copy, folder):
        self.copy, self.folder = copy, folder
        self.source = folder / "src"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(copy.root / "src", self.source)
        (folder / "lib").mkdir()
        (folder / "profiles").mkdir()
        (folder / "lib" / "profiles").symlink_to(copy.build / "profiles")  # a library looks for them beside itself
        self.environment = {"LD_LIBRARY_PATH": str(folder / "lib")}
        self.instead = {}

    def shell(self, command):
        return subprocess.run(command, shell=True, cwd=self.copy.build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env={**os.environ, "CCACHE_DISABLE": "1", **self.environment})

    def compiled(self, fault, extra=""):
        """{object: the changed one}, and what the compiler says against it."""
        objects, files = {}, [fault.file, *(ARENA if extra else ())]
        for output in dict.fromkeys(o for file in files for o in self.copy.objects_of(self.copy.root / file)):
            entry, made = self.copy.commands[output], self.folder / f"{len(objects)}.o"
            command = entry["command"].replace(str(self.copy.root / "src") + "/", f"{self.source}/")
            command = command.replace(f"-I{self.copy.root}/src", f"-I{self.source}").replace(output, str(made))
            # What a fault leaves unused, tests must notice; pointers of other types are no C.
            done = self.shell(f"{command} {extra} -Wno-error -Werror=incompatible-pointer-types -Werror=int-conversion")
            if done.returncode:
                return {}, next((line for line in done.stdout.split("\n") if "error:" in line), done.stdout[-300:])
            objects[output] = made
        return objects, "" if objects else f"{fault.file} is in no object of the library"

    def link(self, name, objects):
        """A library of the copy with changed objects, in the worker's folder."""
        command = self.copy.linked[name]
        for output, made in objects.items():
            command = re.sub(rf"(?<=\s){re.escape(output)}(?=\s)", str(made), command)
        target = self.folder / "lib" / os.path.basename(name)
        done = self.shell(command.replace(f"-o {name} ", f"-o {target} "))
        if done.returncode:
            raise SystemError(done.stdout[-2000:])
        return target

    def link_for_python(self, objects):
        """The library that Python opens; the check of it must pass in this folder without a fault."""
        name = os.path.basename((self.copy.build / "libweft.so").resolve())
        if not self.instead:
            self.link(LIBRARY, {})
            self.instead = {name: str(self.link(name, {}))}
            done = self.copy.run("python", MOST_SECONDS, FEW, self.environment, self.instead)
            if done is None or done.returncode:
                raise SystemError(f"python fails without any fault:\n{done.output[-2000:] if done else 'does not end'}")
        self.link(name, objects)

    def changed_profile(self):
        """The first shipped profile that cannot be built with the fault, or is another."""
        for command in self.copy.imports:
            name = re.search(r"profiles/([\w-]+)\.sqlite", command).group(1)
            here = str(self.copy.build / "profiles")
            done = self.shell(command.replace(here, str(self.folder / "profiles")))
            made, known = (folder / f"{name}.sqlite" for folder in (self.folder / "profiles", self.copy.build / "profiles"))
            if done.returncode or rows_of(made) != rows_of(known):
                return name
        return None

    def tested(self, fault, instead):
        """(what happened, which test, a line that says how)"""
        for percent in sorted({min(FEW, self.copy.percent), self.copy.percent}):
            for test in fault.tests:
                if percent > FEW and test in CHECKS:
                    continue  # they have no random cases
                seconds = self.copy.seconds_of(test, percent) if percent <= FEW else MOST_SECONDS
                done = self.copy.run(test, seconds, percent, self.environment, instead)
                if done is None or done.returncode:
                    self.copy.seconds_of(test, percent)
                if done is None:
                    return "noticed", test, "does not end"
                if done.returncode:
                    failed = [name for name in re.findall(FAILED, done.output, re.M) if name]
                    return "noticed", test, next(iter(failed), f"status {done.returncode}")
        return "survived", "", ""

    def sanitized(self, fault):
        """Whether a sanitizer stops a program that ends well without the fault."""
        objects = {}
        for test in fault.tests:
            beside = {} if test in CHECKS else self.copy.beside(test)
            if not beside:
                continue
            if not objects:
                objects, _ = self.compiled(fault, SANITIZED)
                self.link(LIBRARY, objects)
            done = self.copy.run(test, MOST_SECONDS, FEW, {**beside, **self.environment}, {})
            if done and done.returncode:
                return "noticed", test, "under sanitizers"
        return "survived", "", ""

    def with_fault(self, fault):
        if fault.file.startswith("python/"):
            with self.copy.python_lock:
                return self.in_place(fault, self.copy.root / fault.file, lambda: self.tested(fault, {}))
        return self.in_place(fault, self.folder / fault.file, lambda: self.built_and_tested(fault))

    def in_place(self, fault, path, judged):
        text = path.read_text()
        try:
            path.write_text(fault.applied(text))
            return judged()
        finally:
            path.write_text(text)

    def built_and_tested(self, fault):
        objects, refused = self.compiled(fault)
        if refused:
            return "refused", "", refused
        if "python" in fault.tests:
            self.link_for_python(objects)
        self.link(LIBRARY, objects)
        result = self.tested(fault, {"src": str(self.source), **self.instead})
        profile = self.changed_profile() if result[0] == "survived" else None
        if profile:
            return "noticed", "profiles", profile
        return self.sanitized(fault) if result[0] == "survived" else result


def rows_of(path):
    """What a database says, or nothing where there is none."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        return list(base.iterdump())
    return None


def processor_seconds(begin, end):
    return end.children_user + end.children_system - begin.children_user - begin.children_system


# ---- drawing faults ----


def callers(file):
    """The programs that name a function that others see of this file."""
    names = re.findall(r"^(?!static\b)\w[\w *]*?\b(\w+)\([^;]*?\)\n\{", (ROOT / file).read_text(), re.M | re.S)
    pattern = re.compile(rf"\b(?:{'|'.join(names)})\(") if names else None
    return [name for name, path in sorted(test_programs().items()) if pattern and pattern.search(path.read_text())]


def tests_for(fault, known, kind):
    """The programs that call a function of the fault's file, those that faults of its file or its folder have in the list, and
    those that ask the whole program; of words, first the check of them."""
    first = ["words"] if kind == draw.LETTER else []
    near = [test for other in known if other.file == fault.file for test in other.tests]
    folder = collections.Counter(test for other in known if other.room == fault.room for test in other.tests)
    usual = [test for test, _ in folder.most_common(NEAR)]
    return list(dict.fromkeys([*first, *near[:NEAR], *callers(fault.file)[:NEAR], *WHOLE, *usual]))


def changes_something(worker, fault):
    """Whether the fault compiles, and into an object that is not the one without it."""
    objects, refused = worker.in_place(fault, worker.folder / fault.file, lambda: worker.compiled(fault))
    same = all((worker.copy.build / output).read_bytes() == made.read_bytes() for output, made in objects.items())
    return not refused and not same


def draw_list(wanted, seed, known, copy, folder, jobs, out):
    copy.prepare(jobs)
    worker, lot, found = Worker(copy, folder / "drawer"), draw.Lot(ROOT, random.Random(seed)), 0
    listed = {(f.file, " ".join(f.old.split()), " ".join(f.new.split())) for f in known}
    with out.open("w") as file:
        while found < wanted:
            path, number, line, changed, kind = lot.draw()
            block = lot.block(path, number, line, changed)
            if not block or (str(path), *(" ".join(text.split()) for text in block)) in listed:
                continue
            fault = Fault({"fault": f"lot-{seed}-{found + 1}", "file": str(path), "-": block[0], "+": block[1]}, 0)
            if not changes_something(worker, fault):
                continue
            found += 1
            lines = [f"fault   {fault.name}", f"file    {path}", f"tests   {' '.join(tests_for(fault, known, kind))}",
                     f"breaks  Drawn by lot, line {number + 1}: {kind}.",
                     *(f"-       {text}" for text in block[0].split("\n")), *(f"+       {text}" for text in block[1].split("\n"))]
            file.write("\n".join(lines) + "\n\n")
            file.flush()
    print(f"{found} faults are in {out}")


# ---- outcomes, which a later run may go on from ----


class Outcomes:
    def __init__(self, path):
        self.path, self.known, self.lock = path, {}, threading.Lock()
        for line in path.read_text().splitlines() if path and path.is_file() else []:
            row = json.loads(line)
            self.known[row["fault"]] = row

    def of(self, fault):
        """What an earlier run said of the same fault, where that need not be asked again."""
        row = self.known.get(fault.name)
        same = row and row["text"] == fault.text()
        final = same and row["outcome"] == ("survived" if fault.why_equal else "noticed")
        return (row["outcome"], row["test"], row["how"]) if final else None

    def add(self, fault, result):
        row = {"fault": fault.name, "outcome": result[0], "test": result[1], "how": result[2], "text": fault.text()}
        if self.path:
            with self.lock, self.path.open("a") as out:
                out.write(json.dumps(row) + "\n")


def try_all(faults, copy, folder, jobs, outcomes):
    results = {fault.name: known for fault in faults if (known := outcomes.of(fault))}
    work, lock = queue.Queue(), threading.Lock()
    for fault in faults:
        if fault.name not in results:
            work.put(fault)
    if results:
        print(f"{len(results)} of {len(faults)} are known from an earlier run", flush=True)

    def drain(worker):
        while True:
            try:
                fault = work.get_nowait()
            except queue.Empty:
                return
            begin = time.monotonic()
            try:
                result = worker.with_fault(fault)
            except SystemError as error:  # of the copy, without a fault
                result = "refused", "", str(error)
            outcomes.add(fault, result)
            with lock:
                results[fault.name] = result
                print(f"{len(results):4d}/{len(faults)} {result[0]:8s} {fault.name:28s} {result[1]} {result[2]}"
                      f" ({time.monotonic() - begin:.0f} s)", flush=True)

    if not work.empty():
        copy.prepare(jobs)
        threads = [threading.Thread(target=drain, args=(Worker(copy, folder / f"worker-{i}"),)) for i in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
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
    about.add_argument("--draw", type=int, default=0)
    about.add_argument("--part", default="1/1")
    about.add_argument("--resume", type=pathlib.Path)
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
    folder = given.copies.resolve()
    copy = Copy(folder)
    copy.percent = given.percent
    if given.draw:
        out = given.resume or pathlib.Path(f"lot-{given.seed}.txt")
        return draw_list(given.draw, given.seed, faults, copy, folder, given.jobs, out)
    part, parts = (int(word) for word in given.part.split("/"))
    faults = faults[len(faults) * (part - 1) // parts : len(faults) * part // parts]
    return tell(faults, try_all(faults, copy, folder, max(1, min(given.jobs, len(faults))), Outcomes(given.resume)))


if __name__ == "__main__":
    sys.exit(main())
