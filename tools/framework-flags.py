#!/usr/bin/env python3
"""Lists the flags or keys that a framework takes, one per line with its type and choices, from its own code.

    tools/framework-flags.py megatron  --against SOURCE_TREE > src/target/releases/megatron-0.16.1.txt
    tools/framework-flags.py torchtitan [--against SOURCE_TREE]
    tools/framework-flags.py deepspeed  [--against SOURCE_TREE]
    tools/framework-flags.py galvatron --against SOURCE_TREE

The framework's own parser or configuration classes are asked; nothing of them is kept but names, types and
choices. Without --against it is the installed package. Galvatron, which reads its JSON key by key, is read as
text; the others are imported, so that what they import (PyTorch, a CPU build suffices) must be installed.

A line is NAME TYPE [CHOICE|CHOICE...]. A type in the plural takes a list; `numbers` is such a list in one string,
`switch` takes no value, `value` is anything, `choice` names a part of the command line after all flags.
"""
import argparse
import ast
import collections.abc
import contextlib
import dataclasses
import enum
import importlib
import pathlib
import sys
import types
import typing

PLAIN = {bool: "bool", int: "int", float: "real", str: "word"}


def line(name, kind, choices=()):
    return f"{name} {kind} {'|'.join(str(choice) for choice in choices)}".rstrip()


# ---- types of Python as types of the list ----------------------------------------------------------------


def inner(kind):
    """What is in Optional[...], Annotated[...] or a union: its first part that is no None."""
    while typing.get_origin(kind) in (typing.Union, types.UnionType, typing.Annotated):
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    return kind


def type_and_choices(kind):
    kind = inner(kind)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return PLAIN[type(parts[0])], parts
    if origin in (list, set, tuple, collections.abc.Sequence) and parts:
        of, choices = type_and_choices(parts[0])
        return of + "s", choices
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        members = [member.value for member in kind]
        return PLAIN.get(type(members[0]), "word"), members
    return PLAIN.get(kind, "value"), ()


# ---- Megatron-LM: an argument parser ---------------------------------------------------------------------


def argument(action):
    if action.nargs == 0:
        return "switch", ()
    choices = [getattr(choice, "name", choice) for choice in action.choices or ()]
    kind = PLAIN.get(action.type, "word")
    return (kind + "s" if action.nargs not in (None, "?") else kind), choices


def megatron():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    importlib.import_module("megatron.training.arguments").add_megatron_arguments(parser)
    for action in parser._actions:
        for name in action.option_strings:
            if name.startswith("--"):
                yield line(name, *argument(action))


# ---- torchtitan: dataclasses -----------------------------------------------------------------------------


def suppressed(kind):
    return typing.get_origin(kind) is typing.Annotated and any(
        getattr(mark, "__name__", str(mark)).endswith("Suppress") for mark in kind.__metadata__)


def subcommands(kind):
    """Names of the parts of a union that are picked on the command line."""
    return [mark.name for part in typing.get_args(kind) for mark in getattr(part, "__metadata__", ())
            if getattr(mark, "name", None)]


def fields_below(config, prefix=""):
    hints = typing.get_type_hints(config, include_extras=True)
    for field in dataclasses.fields(config):
        kind, name = hints[field.name], prefix + field.name
        if suppressed(kind):
            continue
        if subcommands(kind):
            yield line(name, "choice", subcommands(kind))
        elif dataclasses.is_dataclass(inner(kind)):
            yield from fields_below(inner(kind), name + ".")
        else:
            yield line(name, *type_and_choices(kind))


def torchtitan_toml(config):
    """Up to 0.2: a file of sections, and models by flavors."""
    specs = importlib.import_module("torchtitan.protocols.train_spec")
    models = sorted(importlib.import_module("torchtitan.models")._supported_models)
    for row in fields_below(config):
        if row.split()[0] != "model.name":
            yield row
    yield line("model.name", "word", models)
    for name in models:
        yield line(f"flavors.{name}", "word", specs.get_train_spec(name).model_args)


def torchtitan_python():
    """From 0.3: a function of Python that makes the configuration, and flags that change its fields."""
    models = sorted(importlib.import_module("torchtitan.models")._supported_models)
    yield from fields_below(importlib.import_module("torchtitan.trainer").Trainer.Config)
    yield line("module", "word", models)
    for name in models:
        try:
            registry = importlib.import_module(f"torchtitan.models.{name}.config_registry")
        except ModuleNotFoundError as missing:  # of models that see, what reads images
            print(f"{name} is left out: {missing}", file=sys.stderr)
            continue
        yield line(f"config.{name}", "word", [
            key for key, value in vars(registry).items()
            if not key.startswith("_") and getattr(value, "__module__", "") == registry.__name__])


def torchtitan():
    try:
        yield from torchtitan_toml(importlib.import_module("torchtitan.config.job_config").JobConfig)
    except ModuleNotFoundError:
        yield from torchtitan_python()


# ---- DeepSpeed: a dictionary that many functions read ------------------------------------------------------

# Sections with a class of their own, and where it is.
DEEPSPEED_SECTIONS = {
    "zero_optimization": ("runtime.zero.config", "DeepSpeedZeroConfig"),
    "zero_optimization.offload_optimizer": ("runtime.zero.offload_config",
                                            "DeepSpeedZeroOffloadOptimizerConfig"),
    "zero_optimization.offload_param": ("runtime.zero.offload_config", "DeepSpeedZeroOffloadParamConfig"),
    "bf16": ("runtime.precision_config", "DeepSpeedBF16Config"),
    "fp16": ("runtime.precision_config", "DeepSpeedFP16Config"),
    "tensor_parallel": ("runtime.tensor_parallel.config", "TPTrainingConfig"),
    "expert_parallel": ("module_inject.auto_ep_config", "AutoEPConfig"),
}
# Those that are read key by key: the constants that name their keys, in the file that has them.
DEEPSPEED_KEYS = {
    "activation_checkpointing": ("runtime.activation_checkpointing.config", "ACT_CHKPT_DEFAULT"),
    "pipeline": ("runtime.config", "get_pipeline_config"),
}


def deepspeed_fields(section, config):
    if dataclasses.is_dataclass(config):
        yield from (row for row in fields_below(config, section + ".") if not row.startswith(section + "._"))
        return
    for name, field in config.model_fields.items():
        yield line(f"{section}.{field.alias or name}", *type_and_choices(field.annotation))


def kind_of(default):
    return "value" if default == "auto" else PLAIN.get(type(default), "value")


def deepspeed_scalars(module):
    """`get_scalar_param(param_dict, NAME, DEFAULT)`: a key of the whole dictionary."""
    for node in ast.walk(ast.parse(pathlib.Path(module.__file__).read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "get_scalar_param":
            whole, name, default = (getattr(part, "id", None) for part in node.args[:3])
            if whole == "param_dict" and hasattr(module, name or "") and hasattr(module, default or ""):
                yield line(getattr(module, name), kind_of(getattr(module, default)))


def deepspeed():
    module = importlib.import_module("deepspeed.runtime.config")
    yield from deepspeed_scalars(module)
    for name in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
                 "sequence_parallel_size", "data_parallel_size"):  # no default tells their type
        yield line(name, "int")
    for section, (where, name) in DEEPSPEED_SECTIONS.items():
        config = getattr(importlib.import_module("deepspeed." + where), name)
        yield from deepspeed_fields(section, config)
    for section, (where, name) in DEEPSPEED_KEYS.items():
        keys = getattr(importlib.import_module("deepspeed." + where), name)
        for key, default in (keys({}) if callable(keys) else keys).items():
            yield line(f"{section}.{key}", kind_of(default))
    for section in ("optimizer", "scheduler"):
        yield line(f"{section}.type", "word")
        yield line(f"{section}.params", "value")
    for key in (module.GRAD_ACCUM_DTYPE, module.PARAM_DTYPE, module.BUFFER_DTYPE):
        yield line(f"data_types.{key}", "word", ("fp32", "fp16", "bf16"))


# ---- Galvatron: keys of a JSON file, as text -----------------------------------------------------------------


def literal_choices(tree):
    """NAME: Literal[...] of a class, and add_argument("--NAME", choices=[...])."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Subscript):
            if getattr(node.annotation.value, "id", "") == "Literal":
                yield node.target.id, ast.literal_eval(node.annotation.slice)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            for keyword in node.keywords:
                if keyword.arg == "choices" and isinstance(keyword.value, ast.List):
                    yield node.args[0].value.lstrip("-"), ast.literal_eval(keyword.value)


def json_keys(tree):
    """(key, whether it is a list in a string) of `config["key"]` and `str2array(config["key"])`."""
    lists = {id(node.args[0]) for node in ast.walk(tree)
             if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "str2array" and node.args}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in ("config", "galvatron_config"):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                yield node.slice.value, id(node) in lists


def reader(tree, function):
    """That function of a file alone."""
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == function)


def galvatron(root):
    def parsed(path):
        return ast.parse((root / "galvatron" / path).read_text())

    runtime = "core/runtime/"
    schema = runtime + ("args_schema.py" if (root / "galvatron" / runtime / "args_schema.py").exists()
                        else "arguments.py")
    choices = dict(literal_choices(parsed(schema)))
    keys = dict(json_keys(reader(parsed("utils/config_utils.py"), "config2strategy")))
    keys.update(json_keys(reader(parsed(runtime + "hybrid_parallel_config.py"),
                                 "get_hybrid_parallel_configs_api")))
    for key, is_list in keys.items():
        of = choices.get(key, ()) if not is_list and key != "pp_deg" else ()  # its flag's choices alone
        yield line(key, "numbers" if is_list else PLAIN[type(of[0])] if of else "int", of)


def for_older_python():
    """Megatron-LM of today asks Python 3.12 for a mark that does nothing."""
    if not hasattr(typing, "override"):
        typing.override = lambda method: method


def tidy(rows):
    """Sorted, one for each name: "value" is said only where nothing better is."""
    best = {}
    for row in rows:
        name = row.split()[0]
        if name not in best or best[name].endswith(" value"):
            best[name] = row
    sections = {name.rsplit(".", 1)[0] for name in best if "." in name}
    return sorted(row for name, row in best.items() if not (row.endswith(" value") and name in sections))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("framework", choices=("megatron", "torchtitan", "deepspeed", "galvatron"))
    parser.add_argument("--against", type=pathlib.Path, help="a source tree, in place of what is installed")
    asked = parser.parse_args()
    for_older_python()
    if asked.against:
        sys.path.insert(0, str(asked.against))
    elif asked.framework == "galvatron":
        parser.error("Galvatron is read as text: --against SOURCE_TREE")
    with contextlib.redirect_stdout(sys.stderr):  # what the frameworks say when they are imported
        rows = tidy(galvatron(asked.against) if asked.framework == "galvatron" else globals()[asked.framework]())
    print("\n".join(rows))


if __name__ == "__main__":
    main()
