#!/usr/bin/env python3
"""Checks what a program needs at its start, by what its dynamic section names.

  check-portable.py READELF PROGRAM LIBRARY... a portable program needs nothing but glibc, and opens these libraries
  check-portable.py READELF PROGRAM --linked   any other needs small libraries alone: it opens the large ones

CUDA, cuBLAS, cuDNN, NCCL, MPI and OpenBLAS are opened when a run asks for them, so none of them may be named either.
"""
import re
import subprocess
import sys

GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
SMALL = {"libexpat.so.1", "libhwloc.so.15", "libjansson.so.4", "libprotobuf-c.so.1", "libsqlite3.so.0", "libxxhash.so.0", "libyaml-0.so.2"}


def main(readelf, program, *opened):
    linked = "--linked" in opened
    text = subprocess.run([readelf, "-d", program], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
    wrong = sorted(needed - GLIBC - (SMALL if linked else set()))
    for name in wrong:
        print(f"{program} needs {name} at its start")
    with open(program, "rb") as file:
        data = file.read()
    # what is opened at run time is named somewhere
    missing = [name for name in opened if not linked and name.encode() not in data]
    for name in missing:
        print(f"{program} never opens {name}")
    versions = subprocess.run([readelf, "-V", program], check=True, capture_output=True, text=True).stdout
    newest = max((tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", versions)), default=(0,))
    print(f"{program}: needs {', '.join(sorted(needed))}; glibc {'.'.join(map(str, newest))} or later")
    return 1 if wrong or missing or not needed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
