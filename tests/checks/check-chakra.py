#!/usr/bin/env python3
"""Holds the traces of `weft export --to chakra` against the published schema and against each other.

    check-chakra.py WEFT

    I1  Files are messages after their lengths: one GlobalMetadata, then Nodes; every field has a number of the schema
        (mlcommons/chakra, schema/protobuf/et_def.proto) and the wire type of its type there.
    I2  Node numbers are unique in a file; a node depends on nodes before it.
    I3  The ranks of a group do the same collectives in the same order, of the same type and size.
    I4  Every send has its receive on the other rank, of the same tag and size.
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

# Field number: (name, type), as published.
METADATA = {1: ("version", "string"), 2: ("attr", "attribute")}
NODE = {1: ("id", "number"), 2: ("name", "string"), 3: ("type", "number"), 4: ("ctrl_deps", "number"),
        5: ("data_deps", "number"), 6: ("start_time_micros", "number"), 7: ("duration_micros", "number"),
        8: ("inputs", "bytes"), 9: ("outputs", "bytes"), 10: ("attr", "attribute")}
ATTRIBUTE = {1: ("name", "string"), 2: ("doc_string", "string"), 7: ("int32_val", "number"), 9: ("int64_val", "number"),
             11: ("uint32_val", "number"), 13: ("uint64_val", "number"), 27: ("bool_val", "number"),
             29: ("string_val", "string")}
WIRE = {"number": 0, "string": 2, "bytes": 2, "attribute": 2}
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
NODE_TYPES, COLLECTIVES = range(1, 11), range(10)

CASES = [
    "gpt3-350m dgx-a100:1 --set layers=4 --tp 2 --pp 2 --sp --zero 1 --global-batch 8",
    "gpt3-350m dgx-a100:1 --set layers=4 --pp 2 --schedule interleaved --virtual 2 --global-batch 16",
    "gpt3-350m dgx-a100:1 --set layers=4 --zero 3 --global-batch 16",
]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def message(data, schema):
    """Its fields by name, as lists; anything that the schema does not have is an error."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        name, kind = schema[key >> 3]
        assert key & 7 == WIRE[kind], f"{name} has wire type {key & 7}"
        value, at = varint(data, at)
        if kind != "number":
            length, value = value, data[at : at + value]
            assert len(value) == length, f"{name} is cut off"
            at += length
        if kind == "string":
            value = value.decode()
        if kind == "attribute":
            fields = message(value, ATTRIBUTE)
            (attribute,) = fields.pop("name")
            ((value,),) = fields.values()
            value = (attribute, value)
        found[name].append(value)
    return found


def messages(path):
    data, at = path.read_bytes(), 0
    while at < len(data):
        length, at = varint(data, at)
        yield data[at : at + length]
        at += length


def check_rank(path):
    """Its nodes, with attributes as a dictionary (I1, I2)."""
    first, *rest = messages(path)
    assert message(first, METADATA)["version"], "no version"
    nodes, seen = [], set()
    for data in rest:
        node = message(data, NODE)
        (number,), (kind,) = node["id"], node["type"]
        assert kind in NODE_TYPES and number not in seen, f"node {number}"
        assert set(node["data_deps"]) <= seen, f"node {number} depends on {set(node['data_deps']) - seen}"
        seen.add(number)
        nodes.append((kind, dict(node["attr"])))
    return nodes


def check(folder):
    groups = json.loads((folder / "comm_group.json").read_text())
    ranks = sorted(folder.glob("weft.*.et"), key=lambda path: int(path.name.split(".")[1]))
    order, sends, receives = {}, collections.Counter(), collections.Counter()
    for rank, path in enumerate(ranks):
        for kind, attr in check_rank(path):
            if kind == COLLECTIVE:
                group = attr["pg_name"]
                assert rank in groups[group] and attr["comm_type"] in COLLECTIVES, attr
                order.setdefault((group, rank), []).append((attr["comm_type"], attr["comm_size"]))
            elif kind in (SEND, RECEIVE):
                assert rank == attr["comm_src" if kind == SEND else "comm_dst"], attr
                words = tuple(attr[key] for key in ("comm_src", "comm_dst", "comm_tag", "comm_size"))
                (sends if kind == SEND else receives)[words] += 1
    for (group, rank), done in order.items():
        first = order[group, groups[group][0]]
        assert done == first, f"group {group}: rank {rank}"
    assert sends == receives, "sends and receives differ"
    return sum(map(len, order.values())), sum(sends.values())


def main(program):
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder) / "traces"
            subprocess.run([program, "export", *case.split(), "--to", "chakra", "-o", str(folder)], check=True,
                           stderr=subprocess.DEVNULL)
            collectives, sends = check(folder)
            assert collectives, "no collectives"
            print(f"{case}: {collectives} collectives, {sends} sends")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
