#!/usr/bin/env python3
"""Nobody compares the name of a schedule, a planner, a target or a kind of overlap but the file that has its row.

    I1  What such a thing is like stands in its row; who needs to know asks the row (schedule->segmented), or
        a function beside the table (schedule_default, planner_default).
    I2  A name may be data: a target's row lists the schedules that it has words for.
    I3  Words that are names of several things count only next to what they are names of: "auto" is a
        planner where the statement speaks of planners.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
# What it is, where its table is, how a row begins, and what a statement must speak of (I3).
TABLES = [
    ("schedule", "schedule/schedule.c", r'\.name = "([^"]+)"', r""),
    ("planner", "search/search.c", r'\.name = "([^"]+)"', r"planner|found_by"),
    ("target", "exchange/sources.c", r'^    \{"([^"]+)"', r"target|source"),
    ("overlap", "plan/overlap.c", r'^    \{"([^"]+)", (?:OVERLAP|0)', r"overlap"),
]
COMPARES = r"\b(?:strn?(?:case)?cmp|strstr|\w+_find|\w+_named|\w+_from_name|NAME_INDEX)\s*\("


def statements(text):
    """Stretches without a semicolon or a brace, each with its line."""
    for match in re.finditer(r"[^;{}]+", text):
        first = match.start() + len(match.group()) - len(match.group().lstrip())
        yield text.count("\n", 0, first) + 1, match.group()


def complaints(path, text, tables):
    for line, statement in statements(text):
        if not re.search(COMPARES, statement):
            continue
        for what, home, names, about in tables:
            if path == home or not re.search(about, statement):
                continue
            found = re.search(COMPARES + r'[^;]*?"(' + "|".join(map(re.escape, names)) + r')"', statement)
            if found:
                yield f"src/{path}:{line}: compares with the {what} \"{found.group(1)}\"; ask its row in src/{home}"


def main():
    tables = []
    for what, home, row, about in TABLES:
        names = re.findall(row, (SRC / home).read_text(), re.M)
        if len(names) < 2:
            sys.exit(f"src/{home}: found {len(names)} rows of {what}s, expected several")
        tables.append((what, home, sorted(set(names)), about))
    found = []
    for path in sorted(SRC.rglob("*.[ch]")):
        found += complaints(path.relative_to(SRC).as_posix(), path.read_text(), tables)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
