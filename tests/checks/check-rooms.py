#!/usr/bin/env python3
"""Which room may include which header.

A room is a folder of src; a large room has sub-rooms, folders of its own, which obey the same rules.

    I1  A room includes only rooms above it in ROOMS; a room stands below its sub-rooms.
    I2  Of another room it includes only the header named after that room: "cost/cost.h".
    I3  Of another room's sub-rooms it includes none: "search/search.h", not "search/auto/auto.h".
    I4  Headers are named from the root of src.

Files of src itself (the library's face, the program's main) stand over all rooms.
"""
import pathlib
import re
import sys

ROOMS = """
    base model cluster cost schedule plan target compile sim jobs
    search/estimate search/planner search/galvatron search/autoddl search/aceso search/auto search campaign
    run/device run/device/cuda run/kernels run/kernels/cpu run/kernels/cuda run/transport run/transport/nccl run/backends run/data run/checkpoint run/rank run/measure run/train run
    exchange runs report serve cli lab
""".split()
RANK = {room: rank for rank, room in enumerate(ROOMS)}
ELSEWHERE = {"weft.h", "onnx.pb-c.h"}  # the public header, and a generated one

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"


def complaint(room, header):
    """What is wrong with this include of a file in the room, or None."""
    if header in ELSEWHERE:
        return None
    other, _, name = header.rpartition("/")
    if not other:
        return f'write "{room}/{header}", from the root of src'
    if other not in RANK:
        return f'"{header}" is in no room of the list in {pathlib.Path(__file__).name}'
    if other == room:
        return None
    face = f"{other.rpartition('/')[2]}.h"
    top = other.split("/")[0]
    if top != room.split("/")[0] and other != top:
        return f'"{header}" is inside {top}; include "{top}/{top}.h"'
    if name != face:
        return f'"{header}" is private to {other}; include "{other}/{face}"'
    if RANK[other] > RANK[room]:
        return f"{room} stands above {other} and may not include it"
    return None


def main():
    complaints = []
    folders = sorted({path.parent for path in SRC.rglob("*.[ch]")} - {SRC})
    for folder in folders:
        room = folder.relative_to(SRC).as_posix()
        if room not in RANK:
            complaints.append(f"src/{room}: not a room of the list in {pathlib.Path(__file__).name}")
        elif not (folder / f"{folder.name}.h").exists():
            complaints.append(f"src/{room}: has no {folder.name}.h")
        for path in sorted(folder.glob("*.[ch]")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = re.match(r'#include "([^"]+)"', line)
                wrong = found and complaint(room, found.group(1))
                if wrong:
                    complaints.append(f"{path.relative_to(ROOT)}:{number}: {wrong}")
    for room in ROOMS:
        if not (SRC / room).is_dir():
            complaints.append(f"src/{room}: in the list, but not a folder")
    print("\n".join(complaints), file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
