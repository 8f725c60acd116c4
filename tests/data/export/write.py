#!/usr/bin/env python3
"""write.py WEFT - writes the files of this folder again, as cases.txt says. Read what changed before you keep it."""
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
notes = ""
for line in (HERE / "cases.txt").read_text().splitlines():
    if not line.strip() or line.startswith("#"):
        continue
    name, arguments = line.split(None, 1)
    done = subprocess.run([pathlib.Path(sys.argv[1]).resolve(), "export", *shlex.split(arguments)],
                          cwd=HERE.parents[2], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr}")
    (HERE / name).write_text(done.stdout)
    notes += f"{name}\n" + "".join(
        line + "\n" for line in done.stderr.splitlines() if not line.startswith("predicted:"))
(HERE / "notes.txt").write_text(notes)
