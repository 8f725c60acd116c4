#!/usr/bin/env python3
"""Short functions, flat files.

    I1  No file of src has more than 500 lines.
    I2  Of the functions of src, half have at most 12 lines and nine of ten at most 25, from the opening
        brace to the closing one, both left out.
    I3  No more than 12 lines in a row stand twice, whatever their indentation; comments, empty lines and
        includes do not count.
"""
import pathlib
import re
import sys

MOST_LINES = 500
MOST_AT = {50: 12, 90: 25}  # percentile: lines of a function
MOST_ALIKE = 12

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"


def functions(lines):
    """(line, length) of every function: clang-format gives each brace of its body's ends a line."""
    begin = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            begin = number
        elif line == "}" and begin:
            yield begin, number - begin - 1
            begin = None


def percentile(values, percent):
    """The least value that so many of a hundred do not exceed."""
    values = sorted(values)
    return values[max(0, -(-len(values) * percent // 100) - 1)]


def counted(text):
    """(line, its words) of the lines that count for I3."""
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        words = " ".join(line.split())
        if words and not words.startswith("#include"):
            yield number, words


def note_alike(path, seen, complaints):
    """Complains of the first stretch of the file that stands in `seen` already, and adds the file's stretches."""
    lines, told = list(counted(path.read_text())), False
    for i in range(len(lines) - MOST_ALIKE):
        stretch = "\n".join(words for _, words in lines[i : i + MOST_ALIKE + 1])
        place = f"{path.relative_to(ROOT)}:{lines[i][0]}"
        if stretch in seen and not told:
            complaints.append(f"{place}: more than {MOST_ALIKE} lines are those of {seen[stretch]}: one function does")
            told = True
        seen.setdefault(stretch, place)


def main():
    complaints, lengths, seen = [], [], {}
    for path in sorted(SRC.rglob("*.[ch]")):
        lines = path.read_text().splitlines()
        lengths += [length for _, length in functions(lines)]
        note_alike(path, seen, complaints)
        if len(lines) > MOST_LINES:
            complaints.append(f"{path.relative_to(ROOT)}: {len(lines)} lines, expected at most "
                              f"{MOST_LINES}: a file that has two subjects is two files")
    found = {percent: percentile(lengths, percent) for percent in MOST_AT}
    for percent, most in MOST_AT.items():
        if found[percent] > most:
            complaints.append(f"src: {percent} % of the functions have at most {found[percent]} lines, "
                              f"expected at most {most}")
    print(f"{len(lengths)} functions: "
          + ", ".join(f"{percent} % of at most {lines} lines" for percent, lines in found.items()))
    print("\n".join(complaints), end="\n" if complaints else "", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
