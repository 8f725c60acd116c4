#!/usr/bin/env python3
"""What a header of src declares is used by another file than the one that defines it: else it is dead, or the business of that
file alone, which says `static`. Headers of tests, benches and tools count as users; include/weft.h is for everyone."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
USERS = ["src", "tests", "bench", "fuzz", "tools"]
# A function or a table; not `extern const char X[]`, which is made of a file when Weft is built.
DECLARED = re.compile(r"^(?!static|typedef|return|extern const char \w+\[\])[a-z][\w\s*]*?\b(\w+)(?:\(|\[\w*\];|;)", re.M)


def text_of(path):
    """Without comments and strings, which name things without using them."""
    text = path.read_text(errors="replace")
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


def main():
    paths = [p for folder in USERS for p in (ROOT / folder).rglob("*") if p.suffix in (".c", ".h", ".cu", ".cuh")]
    words, headers = {}, {}
    for path in paths:
        text = text_of(path)
        if path.suffix == ".h" and path.is_relative_to(ROOT / "src"):
            headers[path] = text
        for word in set(re.findall(r"\w+", text)):
            words.setdefault(word, set()).add(path)
    complaints = [f"{header.relative_to(ROOT)}: {name} is used by no other file than its own"
                  for header, text in sorted(headers.items()) for name in DECLARED.findall(text)
                  if not used_elsewhere(name, header, text, words)]
    print("\n".join(complaints))
    return bool(complaints)


def used_elsewhere(name, header, text, words):
    """By a second source file, by another header, or by a table or an inline function of this one."""
    users = words[name] - {header}
    sources = [path for path in users if path.suffix != ".h"]
    return len(sources) > 1 or len(users) > len(sources) or len(re.findall(rf"\b{name}\b", text)) > 1


if __name__ == "__main__":
    sys.exit(main())
