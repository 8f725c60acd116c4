#!/usr/bin/env python3
"""Holds the files of tests/data/export against the flags and keys of the releases they are for.

    I1  Every flag or key of a file exists in the list of its release (src/target/releases), has a value of its
        type, and one of its choices where there are some.
    I2  A file's release is the one that its case in cases.txt exports to.
    I3  Made-up files with one fault each are refused: an unknown flag above all.
"""
import ast
import difflib
import json
import pathlib
import re
import shlex
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/frameworks"))
from cases import EXPORTED, ROOT, cases, list_of, target_of  # noqa: E402


# ---- files as (name, value): a list of words for a flag, a value of Python for a key ---------------------


def flags(text, _):
    """Arguments in the arrays of a shell script."""
    arrays = re.findall(r"_ARGS=\(\n(.*?)\n *\)$", text, re.S | re.M) + re.findall(r"_ARGS=\((--.*)\)$", text, re.M)
    found = []
    for word in shlex.split("\n".join(arrays), comments=True):
        if word.startswith("--"):
            found.append((word, []))
        else:
            found[-1][1].append(word)
    return found


def keys(tree, known, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict) and prefix + key not in known:
            yield from keys(value, known, prefix + key + ".")
        else:
            yield prefix + key, value


def json_keys(text, known):
    """`weft` is for weft import; the frameworks pass over it."""
    return keys({key: value for key, value in json.loads(text).items() if key != "weft"}, known)


def toml_keys(text, known):
    return keys(tomllib.loads(text), known)


def settings(text, _):
    """`config.SECTION.KEY = VALUE` of a program in Python, where the value is a plain one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            whole, _, name = ast.unparse(node.targets[0]).partition(".")
            try:
                value = ast.literal_eval(node.value)
            except ValueError:
                continue
            if whole == "config" and value is not None:
                yield name, value


READERS = {".args": flags, ".sbatch": flags, ".json": json_keys, ".toml": toml_keys, ".py": settings}


# ---- values held to types ---------------------------------------------------------------------------------


def reads_as(convert):
    def holds(word):
        try:
            convert(word)
        except ValueError:
            return False
        return True
    return holds


def one(holds):
    return lambda words: len(words) == 1 and holds(words[0])


def some(holds):
    return lambda words: len(words) > 0 and all(map(holds, words))


WORD = {"int": reads_as(int), "real": reads_as(float), "word": lambda word: True, "bool": ("true", "false").__contains__}
FLAG = {"switch": lambda words: not words, **{kind: one(holds) for kind, holds in WORD.items()},
        **{kind + "s": some(holds) for kind, holds in WORD.items()}}
VALUE = {"bool": lambda value: isinstance(value, bool), "int": lambda value: type(value) is int,
         "real": lambda value: type(value) in (int, float), "word": lambda value: isinstance(value, str),
         "words": lambda value: isinstance(value, list) and all(isinstance(word, str) for word in value),
         "wordss": lambda value: isinstance(value, list) and all(map(VALUE["words"], value)),
         "numbers": lambda value: isinstance(value, str) and re.fullmatch(r"\d+(,\d+)*", value) is not None,
         "value": lambda value: True}


def known_of(path):
    """Name: (type, choices)."""
    rows = [row.split(" ", 2) for row in path.read_text().splitlines()]
    return {row[0]: (row[1], row[2].split("|") if len(row) > 2 else []) for row in rows}


def complaint(known, name, value):
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        return f"{name} is unknown" + (f"; did you mean {near[0]}?" if near else "")
    kind, choices = known[name]
    holds = (FLAG if name.startswith("--") else VALUE).get(kind)
    if holds is None or not holds(value):
        return f"{name} takes {kind}, not {value!r}"
    parts = value if isinstance(value, list) else [value]
    strangers = [part for part in parts if choices and str(part) not in choices]
    return f"{name} takes {' or '.join(choices)}, not {strangers[0]!r}" if strangers else None


def complaints(suffix, text, path):
    known = known_of(path)
    if "pretrain_vlm.py" in text:
        known |= known_of(path.with_name("megatron-vlm.txt"))
    for name, value in READERS[suffix](text, known):
        said = complaint(known, name, value)
        if said:
            yield f"{path.stem}: {said}"


# ---- what is held --------------------------------------------------------------------------------------------


def exported():
    """(path, list) of every file that a framework with flags or keys takes."""
    for name, arguments in cases(EXPORTED / "cases.txt"):
        framework, release = target_of(arguments)
        if framework not in ("fsdp", "dtensor", "aceso"):
            yield EXPORTED / name, list_of(framework, release)


FAULTS = {
    (".args", "megatron", "0.19"): (
        "MEGATRON_ARGS=(\n    --tensor-parallel-size 2\n)", "MEGATRON_ARGS=(\n    --num-layers many\n)",
        "MEGATRON_ARGS=(\n    --num-layers 1 2\n)", "MEGATRON_ARGS=(\n    --bf16 yes\n)",
        "MEGATRON_ARGS=(\n    --num-layers\n)", "MEGATRON_ARGS=(\n    --recompute-granularity some\n)"),
    (".toml", "torchtitan", "0.2.2"): (
        "[training]\ncompile = true", "[training]\nseq_len = \"8192\"", "[training]\ndtype = \"float16\"",
        "[nowhere]\nsteps = 1", "[parallelism]\nmodule_fqns_per_model_part = [\"layers.0\"]"),
    (".py", "torchtitan", "main"): ("config.training.seq_len = 8192", "config.training.steps = 1.5"),
    (".json", "deepspeed", "0.19"): (
        '{"zero_optimization": {"level": 1}}', '{"zero_optimization": {"stage": 4}}', '{"train_batch": 1}',
        '{"bf16": {"enabled": "yes"}}'),
    (".json", "galvatron", "2.4"): ('{"vocab_sdp": 0}', '{"tp_sizes_enc": [1, 2]}', '{"pipeline_type": "1f1b"}'),
    (".json", "galvatron", "3.0"): ('{"embed_sdp": 0}',),
}


def main():
    held = list(exported())
    wrong = [f"{path.relative_to(ROOT)}: {said}" for path, known in held
             for said in complaints(path.suffix, path.read_text(), known)]
    wrong += [f"{framework} {release}: {text!r} should be refused, and is not"
              for (suffix, framework, release), texts in FAULTS.items()
              for text in texts if not list(complaints(suffix, text, list_of(framework, release)))]
    print(f"{len(held)} files held to {len({known for _, known in held})} releases")
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong or len(held) < 30 else 0


if __name__ == "__main__":
    sys.exit(main())
