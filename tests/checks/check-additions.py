#!/usr/bin/env python3
"""Holds the lists of docs/architecture.md, "How to add", against the code: makes each addition in a copy of
the tree, in the files that the page lists and in no others, builds it, and uses what was added.

Every function in its table of steps is in one of the files beside it.

    check-additions.py BUILD    BUILD is a folder of cmake's with everything built

Only what was touched is compiled; the rest of the program is linked from the build.
"""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What an addition writes: a file of its own as text; or (beginning of a line, text) in one that exists. A line
# that opens a table has the text before the table's end, any other before itself.
FAMILY = """#include "model/families.h"
struct options { int64_t width; };
static const struct options DEFAULTS = {.width = 64};
static const struct field FIELDS[] = {OPTION_COUNT(struct options, width, MOST_HIDDEN)};
static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct options *o = options;
    (void)where;
    int x = build_flatten(b, build_image(b, 1, 8, 8));
    build_loss(b, "loss", build_linear(b, "last", build_linear(b, "first", x, o->width, true), 10, true));
    b->model->layers = 2;
    return WEFT_OK;
}
const struct family FAMILY_ADDED = {"added", "two linear layers", FIELDS, COUNT_OF(FIELDS), sizeof(DEFAULTS),
                                    &DEFAULTS, build};
"""
PLANNER = """#include "search/search.h"
weft_status added_find(const struct plan_request *request, struct planned *out)
{
    const struct trial *trial;
    struct degrees degrees = request->pins;
    struct cost *cost;
    weft_status status = cost_open(&request->cluster->node.device, request->profile, &cost);
    if (status)
        return status;
    degrees.dp = cluster_devices(request->cluster);
    status = try_degrees(request, cost, &degrees, out, &trial);
    cost_close(cost);
    return status;
}
"""
TARGET = """#include "exchange/room.h"
weft_status write_added(struct export_job *job)
{
    job->out->text = arena_printf(job->keep, "tp=%lld\\n", (long long)job->found.degrees.tp);
    return WEFT_OK;
}
"""
ADDITIONS = {
    "A device": {
        "most": 1,
        "files": {
            "src/cluster/devices.c": (
                "static const struct device DEVICES[]",
                '    GPU("ADDED-1", "hopper", MIB(1000), 100 * GB_PER_S, RATES(7, 0, 0, 0, 0, 0), HOST_PCIE4, MIB(1), 1,\n'
                '        "a test"),'),
        },
        "use": ["printf 'base: dgx-a100\\nname: added\\nnodes: 1\\ndevice: ADDED-1\\n' > added.yaml",
                "weft clusters added.yaml | grep ADDED-1"],
    },
    "A model family": {
        "most": 3,
        "files": {
            "src/model/family_NAME.c": FAMILY,
            "src/model/families.h": ("    DO(GPT)", "    DO(ADDED) \\"),
            "docs/reference/model-file.md": ("| `gpt` |", "| `added` | `width` (64) |"),
        },
        "use": ["printf 'name: a\\nfamily: added\\noptions: {width: 100}\\n' > model.yaml",
                "weft inspect model.yaml | grep '7,510 parameters'"],
    },
    "A schedule": {
        "most": 2,
        "files": {
            "src/schedule/schedule.c": (
                "static const struct schedule SCHEDULES[]",
                '    {.name = "added", .summary = "as 1f1b", .check = check_one_piece, .order = one_f_one_b_order,\n'
                "     .in_flight = one_f_one_b_in_flight, .passes = ORDER_IN_TURN, .least_pieces = 1,\n"
                "     .most_pieces = 1},"),
            "docs/reference/schedules.md": ("## aiao", "## added\n"),
        },
        "use": ["weft simulate gpt2 dgx-a100:1 --pp 2 --global-batch 16 --schedule added | grep 'added, 2 stages'"],
        "tests": ["tests/schedule/test_schedule.c"],
    },
    "A planner": {
        "most": 3,
        "files": {
            "src/search/NAME.c": PLANNER,
            "src/search/search.h": (
                "#endif", "weft_status added_find(const struct plan_request *request, struct planned *out);"),
            "src/search/search.c": (
                "static const struct planner PLANNERS[]",
                '    {.name = "added", .summary = "data parallelism alone", .joins = JOINS_NEVER, .find = added_find},'),
        },
        "use": ["weft plan gpt2 dgx-a100:1 --global-batch 16 --planner added | grep '^added: '"],
    },
    "A target": {
        "most": 3,
        "files": {
            "src/exchange/export_NAME.c": TARGET,
            "src/exchange/room.h": (
                '    DO("megatron"', '    DO("added", "one number", "added", write_added) \\'),
            "src/target/targets.c": (
                "static const struct target TARGETS[]",
                '    {"added", "1", "Added 1", {.tp = true, .plain = true, .shards = SHARD_0, .dtypes = WIDE | HALF,\n'
                "     .schedules = SIMPLE_SCHEDULES}},"),
        },
        "use": ["weft export gpt2 dgx-a100:1 --tp 2 --dp 4 --set heads=16 --global-batch 16 --to added | grep '^tp=2$'"],
    },
}


def fail(message):
    sys.exit(f"check-additions: {message}")


def listed(page, heading):
    """The files that the page lists in the section with this heading."""
    section = re.search(rf"^### {heading}$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    if not section:
        fail(f"docs/architecture.md has no section '### {heading}'")
    return re.findall(r"^- `([^`]+)`$", section[1], re.MULTILINE)


def check_steps(page):
    for row in re.findall(r"^\| \d+\. .*$", page, re.MULTILINE):
        functions, files = [re.findall("`([^`]+)`", cell) for cell in row.split("|")[2:4]]
        text = "".join((ROOT / name).read_text() for name in files)
        for function in functions:
            if not re.search(rf"\b{function}\(", text):
                fail(f"docs/architecture.md: {function} is not in {' or '.join(files)}")


def apply_addition(tree, heading, addition):
    """Writes an addition into the tree; the files that were touched."""
    touched = []
    for name, change in addition["files"].items():
        path = tree / name.replace("NAME", "added")
        if isinstance(change, str):
            path.write_text(change)
        else:
            before, text = change
            lines = path.read_text().split("\n")
            at = next((i for i, line in enumerate(lines) if line.startswith(before)), None)
            if at is None:
                fail(f"{heading}: {name} has no line that begins with {before!r}")
            if before.endswith("[]"):
                at = lines.index("};", at)
            lines[at:at] = text.split("\n")
            path.write_text("\n".join(lines))
        touched.append(path)
    return touched


def compile_command(commands, source, tree):
    """How the build compiles a file, or one beside it: quickly, and from the tree."""
    original = ROOT / source.relative_to(tree)
    known = [c for c in commands if c["file"] == str(original)]
    known = known or [c for c in commands if pathlib.Path(c["file"]).parent == original.parent]
    words = [word for word in shlex.split(known[0]["command"]) if word not in ("-O2", "-O3", "ccache")]
    words = words[: words.index("-o")] if "-o" in words else words
    return [word.replace(str(ROOT), str(tree)) for word in words if word != "-c"] + ["-O0", "-c", str(source)]


def build(commands, sources, tree, folder):
    objects = []
    running = []
    for source in sources:
        objects.append(str(folder / f"{source.stem}.o"))
        running.append(subprocess.Popen([*compile_command(commands, source, tree), "-o", objects[-1]], cwd=folder))
    if any([job.wait() for job in running]):
        fail("does not compile")
    return objects


def link(build_folder, target, objects, out):
    command = subprocess.check_output(["ninja", "-C", str(build_folder), "-t", "commands", target], text=True)
    words = shlex.split(command.strip().splitlines()[-1].split("&&")[1])
    replaced = {f"{pathlib.Path(name).stem}.c.o" for name in objects}
    words = [word for word in words if pathlib.Path(word).name not in replaced]
    at = words.index("-o")
    words[at + 1] = str(out)
    words[at:at] = objects
    if subprocess.run(words, cwd=build_folder, check=False).returncode:
        fail(f"{target} does not link")


def main(build_folder):
    page = (ROOT / "docs/architecture.md").read_text()
    check_steps(page)
    commands = json.loads((build_folder / "compile_commands.json").read_text())
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        tree = folder / "tree"
        for name in ("src", "include", "docs", "tests", "data"):
            if name in ("tests", "data"):
                (tree / name).symlink_to(ROOT / name)
            else:
                shutil.copytree(ROOT / name, tree / name)
        sources, tests = [], []
        for heading, addition in ADDITIONS.items():
            if sorted(listed(page, heading)) != sorted(addition["files"]):
                fail(f"docs/architecture.md, {heading}: lists {listed(page, heading)}, "
                     f"touched are {list(addition['files'])}")
            if len(addition["files"]) > addition["most"]:
                fail(f"{heading} touches more than {addition['most']} files")
            touched = apply_addition(tree, heading, addition)
            sources += [path for path in touched if path.suffix == ".c"]
            tests += [tree / name for name in addition.get("tests", [])]
        lists = [tree / "src/model/families.c", tree / "src/exchange/export.c"]  # of families.h and room.h
        objects = build(commands, [*sources, *lists], tree, folder)
        link(build_folder, "weft", objects, folder / "weft")
        for heading, addition in ADDITIONS.items():
            for command in addition["use"]:
                done = subprocess.run(command, shell=True, cwd=folder, check=False, text=True, capture_output=True,
                                      env={"PATH": f"{folder}:/usr/bin:/bin", "WEFT_PROFILES": "none"})
                if done.returncode:
                    fail(f"{heading}: `{command}` ends with {done.returncode}: {done.stdout}{done.stderr}")
        for test in tests:
            link(build_folder, f"tests/{test.stem}", objects + build(commands, [test], tree, folder), folder / test.stem)
            if subprocess.run([folder / test.stem], check=False, capture_output=True).returncode:
                fail(f"{test.stem} fails")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
