#!/usr/bin/env python3
"""Words in the texts of the program are known ones: each also stands in a comment or a document of the tree, in a name (unless
it is short), or in tests/data/words/texts.txt. A letter that is left out of a message makes a word that stands nowhere else.

  check-words.py SRC           status 1 and the words where the folder of sources has others
  check-words.py SRC --write   writes tests/data/words/texts.txt again: read the difference
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / "tests" / "data" / "words" / "texts.txt"
PARTS = re.compile(r'(/\*.*?\*/|//[^\n]*)|("(?:\\.|[^"\\\n])*")|\'(?:\\.|[^\'\\\n])*\'', re.S)
SHORT = 3  # letters: many names are as short, and few of them are words
NO_WORDS = re.compile(r"\\x[0-9a-fA-F]+|\\.|%[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|z|t|j)?[a-zA-Z%]")


def words_of(text):
    """Small letters; a change from small to capital letters begins another word, as in hiddenSize."""
    return {word.lower() for word in set(re.findall(r"[A-Z]*[a-z]+|[A-Z]+", text)) if len(word) > 1}


def parts_of(source):
    """(texts, comments, names) of a file in C."""
    texts, comments, names, end = [], [], [], 0
    for found in PARTS.finditer(source):
        names.append(source[end : found.start()])
        end = found.end()
        comments.append(found.group(1) or "")
        texts.append(NO_WORDS.sub(" ", found.group(2) or ""))
    return " ".join(texts), " ".join(comments), " ".join([*names, source[end:]])


def main():
    known, asked, sources = set(), {}, pathlib.Path(sys.argv[1])
    for path in sorted([*sources.rglob("*.[ch]"), *(ROOT / "include").rglob("*.h")]):
        texts, comments, names = parts_of(path.read_text())
        known |= words_of(comments) | {word for word in words_of(names) if len(word) > SHORT}
        for word in words_of(texts):
            asked.setdefault(word, path)
    for path in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "man").glob("*")]:
        known |= words_of(path.read_text())
    if "--write" in sys.argv:
        listed, line = [], ""
        for word in sorted(asked.keys() - known):
            if len(line) + len(word) > 118:
                listed.append(line)
                line = ""
            line += f" {word}" if line else word
        LIST.write_text("\n".join([*listed, line, ""]))
    known |= words_of(LIST.read_text())
    unknown = sorted((str(path), word) for word, path in asked.items() if word not in known)
    for path, word in unknown:
        print(f"{path}: `{word}` stands nowhere else in the tree; if it is right: tests/checks/check-words.py src --write")
    return bool(unknown)


if __name__ == "__main__":
    sys.exit(main())
