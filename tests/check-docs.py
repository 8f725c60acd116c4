#!/usr/bin/env python3
"""Holds the documents against the program.

    check-docs.py WEFT             complains about the first document that no longer tells the truth
    check-docs.py --update WEFT    rewrites the output shown below the commands of ```console blocks

- Every command and every option of `weft COMMAND --help` is in the manual page.
- Every `$ command` in a ```console block of README.md and docs/ runs; what the block shows below it
  is what it prints. A command with nothing below it only has to succeed. `make` is not run: its
  targets have to exist. A page's commands run one after the other, in a folder that looks like the
  source tree but may be written to.
- Every key of each answer shown in docs/json.md is described in the same section, as `key`.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MANUAL = ROOT / "man/weft.1"
COMMON_OPTIONS = {"--help", "--usage", "--version"}

complaints = []


def run(command, folder=ROOT):
    return subprocess.run(command, shell=True, cwd=folder, text=True, capture_output=True,
                          executable="/bin/bash", check=False)


def run_page(page):
    """(command, lines shown below it, line number, what happened) of a page, in order."""
    with tempfile.TemporaryDirectory() as folder:
        for entry in ROOT.iterdir():
            (pathlib.Path(folder) / entry.name).symlink_to(entry)
        for command, shown, number in shown_commands(page):
            # A dry run, and not part of the make that may be running this.
            dry = re.sub("^make ", "env -u MAKEFLAGS -u MAKELEVEL make -n ", command)
            yield command, shown, number, run(dry, folder)


def commands():
    listing = run("weft --help").stdout
    return re.findall(r"^  ([a-z]+) ", listing, re.MULTILINE)


def options(command):
    help_text = run(f"weft {command} --help").stdout
    found = re.findall(r"^ +(?:-[a-z], +)?(--[a-z][a-z0-9-]*)", help_text, re.MULTILINE)
    return set(found) - COMMON_OPTIONS


def check_manual():
    """Options stand in the section of their command, written `.Fl -depth`; mdoc adds one dash."""
    sections = {}
    for section in re.split(r"^\.Ss ", MANUAL.read_text(), flags=re.MULTILINE)[1:]:
        name, _, text = section.partition("\n")
        sections[name.split()[0]] = text
    common = MANUAL.read_text().partition(".Sh COMMANDS")[0]
    for command in commands():
        if command not in sections:
            complaints.append(f"man/weft.1: has no section for {command}")
        for option in sorted(options(command)):
            if not re.search(rf"Fl {option[1:]}(?![\w-])", common + sections.get(command, "")):
                complaints.append(f"man/weft.1: {command} lacks {option}")


def shown_commands(page):
    """(command, lines shown below it, line number) of every ```console block, in order."""
    found, inside = [], False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            found.append((line[2:], [], number))
        elif inside and found:
            found[-1][1].append(line)
    return found


def printed_lines(result):
    return [line for line in result.stdout.splitlines() if line]


def check_console(page):
    for command, shown, number, result in run_page(page):
        where = f"{page.relative_to(ROOT)}:{number}"
        if result.returncode != 0:
            complaints.append(f"{where}: `{command}` ends with {result.returncode}: {result.stderr}")
        elif shown and [line for line in shown if line] != printed_lines(result):
            complaints.append(f"{where}: `{command}` prints something else now; see `make docs`")


def update(page):
    """Writes the page with what commands print now in place of what was shown."""
    lines = page.read_text().splitlines()
    for _, shown, number, result in reversed(list(run_page(page))):
        if shown:
            lines[number : number + len(shown)] = result.stdout.rstrip("\n").splitlines()
    page.write_text("\n".join(lines) + "\n")


def keys(answer):
    if isinstance(answer, dict):
        yield from answer
    for child in answer.values() if isinstance(answer, dict) else answer:
        if isinstance(child, (dict, list)):
            yield from keys(child)


def described_in(section, sections):
    """Names in a section, in those whose fields it says it has, and on the pages it links to."""
    names = set(re.findall(r"`([a-z0-9_]+)`", section))
    for other in re.findall(r"fields of `(weft [a-z]+)`", section):
        names |= set(re.findall(r"`([a-z0-9_]+)`", sections[other]))
    for linked in re.findall(r"\(([a-z-]+\.md)\)", section):
        names |= set(re.findall(r"`([a-z0-9_]+)", (ROOT / "docs" / linked).read_text()))
    return names


def check_json():
    page = ROOT / "docs/json.md"
    answers = {command: result.stdout for command, _, _, result in run_page(page)}
    texts = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)[1:]
    sections = {text.split("\n", 1)[0]: text for text in texts}
    for section in texts:
        described = described_in(section, sections)
        for command in re.findall(r"^\$ (weft .*--json.*)$", section, re.MULTILINE):
            answer = json.loads(answers[command] or "{}")  # check_console tells of a failure
            for key in sorted(set(keys(answer)) - described):
                complaints.append(f"docs/json.md: `{command}` gives {key}, which is not described")


def main(arguments):
    program = pathlib.Path(arguments[-1]).resolve()
    os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    if "--update" in arguments:
        for page in PAGES:
            update(page)
        return 0
    check_manual()
    for page in PAGES:
        check_console(page)
    check_json()
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
