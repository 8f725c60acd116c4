#!/usr/bin/env python3
"""No two types of one name where a reader could take one for the other.

A type is a struct, union or enum with a tag and members, or a typedef; a struct and a typedef of one name
count as two.

    I1  A type that a header defines, or declares (`struct x;`) for a .c file that defines it, is defined
        once in all of src: whoever reads its name anywhere knows which it is.
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
OPAQUE = re.compile(r"^(?:struct|union) (\w+);", re.M)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)+")
TYPEDEF = re.compile(r"\btypedef\b([^;{}]*(?:\{[^{}]*\})?[^;{}]*);", re.S)


def typedef_name(text):
    """Of `weft_status rule(int)`, `bool (*rule)(int)`, `ARRAY(struct x) list`, `struct {...} thing`."""
    text = ATTRIBUTE.sub("", text)
    text = re.sub(r"\bARRAY\([^)]*\)", " ", text)
    found = re.search(r"\(\*(\w+)\)", text) or re.search(r"(\w+)\s*\(", text)
    return (found or re.search(r"(\w+)\s*(?:\[\w*\])?\s*$", text)).group(1)


def plain(path):
    """The file's text without comments and strings, on the same lines."""
    return COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), path.read_text())


def definitions(text):
    """(name, line) of every type that the text defines."""
    for found in TAGGED.finditer(text):
        yield found.group(1), text.count("\n", 0, found.start()) + 1
    for found in TYPEDEF.finditer(text):
        yield typedef_name(found.group(1)), text.count("\n", 0, found.start()) + 1


def places():
    """Per name: (file below src, line, whether a header has it) of its definitions."""
    out = collections.defaultdict(list)
    texts = {path.relative_to(SRC): plain(path) for path in sorted(SRC.rglob("*.[ch]"))}
    opaque = {name for path, text in texts.items() if path.suffix == ".h" for name in OPAQUE.findall(text)}
    for path, text in texts.items():
        for name, line in definitions(text):
            out[name].append((path, line, path.suffix == ".h" or name in opaque))
    return out


def clashes(where):
    """Those of one name's definitions that break I1 or I2."""
    if len(where) < 2:
        return []
    if any(public for _, _, public in where):
        return where
    rooms = collections.Counter(path.parts[0] for path, _, _ in where)
    return [place for place in where if rooms[place[0].parts[0]] > 1]


def main():
    names = places()
    count = 0
    for name, where in sorted(names.items()):
        found = clashes(where)
        count += bool(found)
        for path, line, _ in found:
            print(f"src/{path}:{line}: another type is called '{name}', too", file=sys.stderr)
    if count:
        print(f"{count} of {len(names)} names of types stand for several: "
              "name each by what it holds", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
