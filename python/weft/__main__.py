"""The program, from the wheel that has it inside: `weft`, or `python -m weft`. Elsewhere it is the one on the PATH."""

import os
import pathlib
import sys
from typing import NoReturn


def main() -> NoReturn:
    inside = pathlib.Path(__file__).resolve().parent / "bin" / "weft"
    program = str(inside) if inside.exists() else "weft"
    os.execvp(program, ["weft", *sys.argv[1:]])


if __name__ == "__main__":
    main()
