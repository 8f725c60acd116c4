#!/usr/bin/env python3
"""Exports plans, has the frameworks read the files, and prints what each says.

    accept.py WEFT FOLDER [RELEASE=SOURCE_TREE...]

FOLDER has the virtual environments and a folder for each release that was installed apart; a source tree is given
for what the index lacks. test-frameworks.sh makes it. Exit code 1: a file was not taken.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys

from cases import EXPORTED, PLANS, ROOT, cases, list_of, target_of

HERE = pathlib.Path(__file__).resolve().parent
INSTALLED = ("deepspeed", "fsdp", "dtensor")  # in the virtual environment; the others come apart
READERS = {"dtensor": "fsdp"}  # scripts that are run alike
ENVIRONMENT = {"torchtitan-main": "newer"}  # with a newer PyTorch


def output(weft, *words):
    done = subprocess.run([weft, *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None, done.stderr


def devices_of(weft, words):
    """How many, and of which architecture: a plan names its cluster, which otherwise comes after the model."""
    cluster = words[1]
    if cluster.startswith("-"):
        cluster = re.search(r'cluster"?: *"?([\w:.-]+)', (ROOT / words[0]).read_text())[1]
    said = json.loads(output(weft, "clusters", cluster, "--json")[0])
    return said["devices"], said.get("pools", [said])[0]["device"]["arch"]


def export(weft, folder, name, arguments):
    """(devices, architecture, path), or what weft said in place of writing."""
    words = shlex.split(arguments)
    path = folder / name
    text, said = output(weft, "export", *words, "-o", str(path))
    return (*devices_of(weft, words), path) if text is not None else said.strip().splitlines()[0]


def accepted(framework, release, folder, tree, files):
    """{name: what the framework says}"""
    if tree is None and framework not in INSTALLED:
        return {name: f"not tried: --against {release}=SOURCE_TREE" for name in files}
    rows = "".join(f"{name} {devices} {architecture} {path}\n" for name, (devices, architecture, path) in files.items())
    with open(folder / f"{release}.log", "w") as log:
        done = subprocess.run([folder / ENVIRONMENT.get(release, "venv") / "bin/python", "-B", HERE / f"accept_{READERS.get(framework, framework)}.py", *([str(tree)] if tree else [])],
                              input=rows, stdout=subprocess.PIPE, stderr=log, text=True)
    return dict(row.split("\t", 1) for row in done.stdout.splitlines()) or {
        name: f"the reader ended with {done.returncode}: see {release}.log" for name in files}


def release_named(arguments):
    """(framework, "megatron-0.19.2"): by the list of its flags, where it has one."""
    framework, release = target_of(arguments)
    known = list_of(framework, release)
    return framework, known.stem if known else f"{framework}-{release}"


def tally(answers):
    passed = sum(answer == "passed" for answer in answers)
    tried = sum(not answer.startswith("not tried") for answer in answers)
    return f"{passed} of {tried} files were taken" + (f", {len(answers) - tried} not tried" if tried < len(answers) else "")


def main():
    weft, folder = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
    trees = {release: pathlib.Path(tree).resolve() for release, tree in
             (word.split("=", 1) for word in sys.argv[3:])}
    plans = folder / "plans"
    plans.mkdir(parents=True, exist_ok=True)
    said, by_release = [], {}
    for name, arguments in (*cases(EXPORTED / "cases.txt"), *cases(PLANS)):
        written = export(weft, plans, name, arguments)
        framework, release = release_named(arguments)
        if isinstance(written, str):
            said.append((release, name, f"not written: {written}"))
        else:
            by_release.setdefault((framework, release), {})[name] = written
    for (framework, release), files in by_release.items():
        tree = trees.get(release) or next((path for path in [folder / release] if path.exists()), None)
        answers = accepted(framework, release, folder, tree, files)
        said += [(release, name, answers.get(name, "no answer")) for name in files]
    for release, name, answer in sorted(said):
        print(f"{release:18} {name:32} {answer}")
    print()
    for one in sorted({release for release, *_ in said}):
        print(f"{one:18} {tally([answer for release, _, answer in said if release == one])}")
    answers = [answer for *_, answer in said]
    print(f"{'all':18} {tally(answers)}")
    return 0 if all(answer == "passed" or answer.startswith("not tried") for answer in answers) else 1


if __name__ == "__main__":
    sys.exit(main())
