#!/usr/bin/env python3
"""Every source file opens with its own name and what it is for: /* liveness.c - which item ... */."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["src", "tests", "bench", "fuzz", "tools"]


def complaint(path):
    opening = re.match(r"/\* (\S+) - (\S+ \S+)?", path.read_text())
    if not opening:
        return f"begin with /* {path.name} - what it is for"
    if opening.group(1) != path.name:
        return f"its opening comment calls it {opening.group(1)}"
    if (opening.group(2) or "see").startswith("see"):
        return "say what it is for, not where to look"
    return None


def main():
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.[ch]"))
    found = [(path, wrong) for path in files if (wrong := complaint(path))]
    for path, wrong in found:
        print(f"{path.relative_to(ROOT)}: {wrong}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
