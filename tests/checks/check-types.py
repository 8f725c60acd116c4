#!/usr/bin/env python3
"""No two types of one name where a reader could take one for the other.

A type is a struct, union or enum with a tag and members, or a typedef; a struct and a typedef of one name
count as two.

    I1  A type that a header defines is defined once in all of src: whoever reads its name anywhere knows it.
    I2  A type that a .c file defines is defined once in its room (the folder of src that it lies under).
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
TAGGED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
TYPEDEF = re.compile(r"\btypedef\b[^;{}]*?(?:\(\*(\w+)\)\s*\([^;]*\)|\b(\w+)(?:\[\w*\])?)\s*;", re.S)
TYPEDEF_OF_BODY = re.compile(r"\btypedef\s+(?:struct|union|enum)\b[^;{}]*\{[^{}]*\}\s*(\w+)\s*;", re.S)


def definitions(path):
    """(name, line) of every type that the file defines."""
    text = COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), path.read_text())
    for pattern in (TAGGED, TYPEDEF, TYPEDEF_OF_BODY):
        for found in pattern.finditer(text):
            name = next(group for group in found.groups() if group)
            yield name, text.count("\n", 0, found.start()) + 1


def places():
    """Per name: (file below src, line) of its definitions."""
    out = collections.defaultdict(list)
    for path in sorted(SRC.rglob("*.[ch]")):
        for name, line in definitions(path):
            out[name].append((path.relative_to(SRC), line))
    return out


def clashes(where):
    """Those of one name's definitions that break I1 or I2."""
    if len(where) < 2:
        return []
    if any(path.suffix == ".h" for path, _ in where):
        return where
    rooms = collections.Counter(path.parts[0] for path, _ in where)
    return [(path, line) for path, line in where if rooms[path.parts[0]] > 1]


def main():
    names = places()
    count = 0
    for name, where in sorted(names.items()):
        found = clashes(where)
        count += bool(found)
        for path, line in found:
            print(f"src/{path}:{line}: another type is called '{name}', too", file=sys.stderr)
    if count:
        print(f"{count} of {len(names)} names of types stand for several: "
              "name each by what it holds", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
