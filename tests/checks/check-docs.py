#!/usr/bin/env python3
"""Holds the documents against the program.

    check-docs.py WEFT             complains about the first document that no longer tells the truth
    check-docs.py --update WEFT [PAGE...]    rewrites the output shown below the commands of
                                             ```console blocks, and pictures; of these pages only

- Every command and every option of `weft COMMAND --help` is in the manual page.
- Every `$ command` in a ```console block of README.md, docs/ and examples/ runs; what the block shows below it
  is what it prints. A command with nothing below it only has to succeed. `make` is not run: its
  targets have to exist. A page's commands run one after the other, in a folder that looks like the
  source tree but may be written to.
- Every key of each answer shown in docs/reference/json.md is described in the same section, as `key`.
- A file that a page's commands make and docs/images has by the same name is the one in docs/images, up
  to a tenth of a pixel: processors round differently.
- Every relative link leads to a file, and its anchor to a heading there; every file that a page names
  as `src/...` exists, and every page that a source file, a test or the manual names.
"""
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*.md"))]
LINKING_PAGES = [*PAGES, *sorted((ROOT / "data").rglob("*.md"))]
IMAGES = sorted((ROOT / "docs/images").glob("*.svg"))
JSON_PAGE = ROOT / "docs/reference/json.md"
MANUAL = ROOT / "man/weft.1"
COMMON_OPTIONS = {"--help", "--usage", "--version"}

complaints = []
images_made = {}


def run(command, folder=ROOT):
    return subprocess.run(command, shell=True, cwd=folder, text=True, capture_output=True,
                          executable="/bin/bash", check=False)


@functools.cache
def run_page(page):
    """(command, lines shown below it, line number, what happened) of a page, in order."""
    return list(run_commands(page))


def run_commands(page):
    with tempfile.TemporaryDirectory() as folder:
        for entry in ROOT.iterdir():
            (pathlib.Path(folder) / entry.name).symlink_to(entry)
        for command, shown, number in shown_commands(page):
            # A dry run, and not part of the make that may be running this.
            dry = re.sub("^make ", "env -u MAKEFLAGS -u MAKELEVEL make -n ", command)
            yield command, shown, number, run(dry, folder)
        for image in IMAGES:
            made = pathlib.Path(folder) / image.name
            if made.exists():
                images_made[image] = made.read_text()


def commands():
    listing = run("weft --help").stdout
    return re.findall(r"^  ([a-z]+) ", listing, re.MULTILINE)


def options(command):
    help_text = run(f"weft {command} --help").stdout
    found = re.findall(r"^ +(?:-[a-z], +)?(--[a-z][a-z0-9-]*)", help_text, re.MULTILINE)
    listed = re.findall(r"^ {2,6}(?:-[a-z], )?(--[a-z][a-z0-9-]*)(?=[=\[,]|  |$)", help_text, re.MULTILINE)
    for option in sorted({option for option in listed if listed.count(option) > 1}):
        complaints.append(f"weft {command} --help: {option} stands there twice")
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


def looks_like(drawn, shown):
    """The same but for numbers that differ by less than two tenths."""
    number = r"-?\d+(?:\.\d+)?"
    pairs = zip(re.findall(number, drawn), re.findall(number, shown))
    return (re.sub(number, "0", drawn) == re.sub(number, "0", shown)
            and all(abs(float(a) - float(b)) < 0.2 for a, b in pairs))


def check_images():
    for image in IMAGES:
        if not looks_like(images_made.get(image, ""), image.read_text()):
            complaints.append(f"{image.relative_to(ROOT)}: no command of a page draws it now; see `make docs`")


def update_images():
    for image, text in images_made.items():
        if not looks_like(text, image.read_text()):
            image.write_text(text)


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
    for linked in re.findall(r"\(([a-z./-]+\.md)\)", section):
        names |= set(re.findall(r"`([a-z0-9_]+)", (JSON_PAGE.parent / linked).read_text()))
    return names


def check_json():
    answers = {command: result.stdout for command, _, _, result in run_page(JSON_PAGE)}
    texts = re.split(r"^## ", JSON_PAGE.read_text(), flags=re.MULTILINE)[1:]
    sections = {text.split("\n", 1)[0]: text for text in texts}
    for section in texts:
        described = described_in(section, sections)
        for command in re.findall(r"^\$ (weft .*--json.*)$", section, re.MULTILINE):
            answer = json.loads(answers[command] or "{}")  # check_console tells of a failure
            for key in sorted(set(keys(answer)) - described):
                complaints.append(f"{JSON_PAGE.relative_to(ROOT)}: `{command}` gives {key}, which "
                                  "is not described")


def prose(page):
    """(line number, line) of what stands outside of ``` blocks."""
    inside = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(page):
    """What GitHub makes of a page's headings: lower case, punctuation dropped, blanks as dashes."""
    found = []
    for _, line in prose(page):
        heading = re.match(r"#+ +(.*)", line)
        if heading:
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1])
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            again = found.count(slug)
            found.append(f"{slug}-{again}" if again else slug)
    return found


def check_links(page):
    for number, line in prose(page):
        for path, anchor in re.findall(r"\]\((?![a-z]+:)([^)#]*)#?([^)]*)\)", line):
            target = (page.parent / path).resolve() if path else page
            where = f"{page.relative_to(ROOT)}:{number}"
            if not target.exists():
                complaints.append(f"{where}: links to {path}, which does not exist")
            elif anchor and anchor not in anchors(target):
                complaints.append(f"{where}: links to #{anchor}, which is no heading of {target.name}")


def check_paths(page):
    """Files of the tree that a page names in `code`; NAME and * stand for others."""
    for number, line in prose(page):
        for path in re.findall(r"`((?:src|tests|bench|include|fuzz)/[\w./-]+)`", line):
            if "NAME" not in path and not (ROOT / path).exists():
                complaints.append(f"{page.relative_to(ROOT)}:{number}: names {path}, which does not exist")


def check_mentions():
    """Messages and comments name pages as docs/PAGE.md, as seen from the root."""
    found = run(r"grep -rnoE '(^|[ (\"/])docs/[a-z/-]+\.md' src include tests man python bench tools")
    for mention in found.stdout.splitlines():
        where, _, page = mention.rpartition(":")
        page = page[page.index("docs/"):]
        if not (ROOT / page).exists():
            complaints.append(f"{where}: names {page}, which does not exist")


def main(arguments):
    updating = arguments[0] == "--update"
    program, *named = [pathlib.Path(argument).resolve() for argument in arguments[updating:]]
    os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    if updating:
        for page in named or PAGES:
            update(page)
        update_images()
        return 0
    check_manual()
    check_mentions()
    for page in LINKING_PAGES:
        check_links(page)
        check_paths(page)
    for page in PAGES:
        check_console(page)
    check_images()
    check_json()
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
