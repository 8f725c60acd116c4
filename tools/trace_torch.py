#!/usr/bin/env python3
"""trace_torch.py FILE:FUNCTION [-o MODEL.yaml] - writes a PyTorch module as a model file of Weft.

FUNCTION of the Python file returns (module, example inputs); the inputs have a batch of 2 or more as their first dim, and the module
may be on the device "meta", without weights. torch.export traces it; each operator of the graph becomes one of Weft's kinds
(docs/reference/model-file.md), sizes per sample, in the modules that it comes from. Alike modules in a row, each reading the one before
it, become a repeat. What moves no data (views, transpositions, splits of queries, keys and values) disappears; an operator that Weft does
not know becomes `opaque`, and is named on standard error."""
import argparse
import importlib.util
import json
import sys

import torch

VIEWS = {"view", "_unsafe_view", "reshape", "transpose", "permute", "contiguous", "clone", "unsqueeze", "squeeze", "expand", "getitem",
         "split", "split_with_sizes", "chunk", "unbind", "select", "slice", "alias", "detach", "detach_", "to", "_to_copy", "t", "flatten",
         "unflatten", "type_as", "lift_fresh_copy", "numpy_T", "movedim"}
SAME = {"relu": "relu", "relu_": "relu", "gelu": "gelu", "silu": "silu", "silu_": "silu", "dropout": "dropout", "dropout_": "dropout",
        "layer_norm": "layer_norm", "rms_norm": "rms_norm", "batch_norm": "batch_norm", "hardtanh": "relu", "hardtanh_": "relu"}
CONSTANTS = {"arange", "zeros", "ones", "full", "empty", "scalar_tensor", "tril", "triu", "eq", "ne", "lt", "gt", "le", "ge", "bitwise_and",
             "logical_not", "masked_fill", "masked_fill_", "_assert_tensor_metadata", "sym_size", "zeros_like", "ones_like", "full_like"}


def size(node):
    """The shape of what a node computes; () if that is not one tensor."""
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


class Tracer:
    def __init__(self, program, name):
        self.program, self.name = program, name
        self.parameters = {**dict(program.named_parameters()), **dict(program.named_buffers())}
        signature = program.graph_signature
        self.owned = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        self.inputs, self.items, self.tensor, self.tables, self.skipped = {}, [], {}, {}, []
        self.values, self.batch = {}, None

    def own(self, node):
        """Elements of the weights that a node reads, each once."""
        weights = {self.owned[a.name] for a in node.all_input_nodes if a.name in self.owned}
        return sum(self.parameters[w].numel() for w in weights if isinstance(self.parameters[w], torch.nn.Parameter))

    def data(self, node):
        """Its inputs that depend on the sample, as tensors of the model file."""
        return [self.tensor[a] for a in node.all_input_nodes if a in self.tensor]

    def sample(self, shape):
        """A shape without the batch: a sequence's features are its last dim, whatever dims are before."""
        return [int(d) for d in shape[1:]] if shape and shape[0] == self.batch else [int(d) for d in shape]

    def path(self, node):
        stack = list(node.meta.get("nn_module_stack", {}).values())
        return stack[-1][0].split(".") if stack and stack[-1][0] else []

    def emit(self, node, kind, inputs=None, **keys):
        inputs = self.data(node) if inputs is None else inputs
        self.items.append({"kind": kind, "path": self.path(node), "id": node.name, "inputs": inputs, "keys": keys})
        self.tensor[node] = node.name

    def opaque(self, node, kind):
        self.skipped.append(kind)
        self.emit(node, "opaque", type=kind, shape=self.sample(size(node)), parameters=self.own(node))

    # ---- kinds with sizes of their own ----

    def linear(self, node, weight, bias):
        name = self.owned.get(weight.name)
        if name in self.tables:  # the table of an embedding
            return self.emit(node, "linear", self.data(node)[:1], tied=self.tables[name])
        return self.emit(node, "linear", self.data(node)[:1], out=int(size(weight)[0]), bias=bias is not None)

    def product(self, node, a, b):
        """Scores or context of attention: the second input of scores is transposed."""
        if size(a) and size(b) and len(size(a)) == 4:
            heads, inner = size(a)[1], size(a)[3]
            if self.kind_of(a) != "softmax":
                read = self.apart(self.tensor[a], int(heads * inner)) if self.tensor[a] == self.tensor[b] else self.data(node)
                return self.emit(node, "score", read, heads=int(heads), depth=int(inner), causal=False)
            return self.emit(node, "context", [self.tensor[a], self.values.get(self.tensor[b], self.tensor[b])], heads=int(heads))
        if b.name in self.owned:
            return self.emit(node, "linear", self.data(node)[:1], out=int(size(b)[-1]), bias=False)
        return self.opaque(node, "matmul")

    def apart(self, joined, width):
        """A product of queries, keys and values as three, for kinds that read them one by one: queries and keys."""
        at = next(n for n, i in enumerate(self.items) if i["id"] == joined)
        item = self.items[at]
        other = (item["keys"]["out"] - width) // 2
        three = [{**item, "id": f"{joined}_part{n}", "keys": {**item["keys"], "out": out}} for n, out in enumerate([width, other, other])]
        self.items[at:at + 1] = three
        self.values[joined] = three[2]["id"]
        return [three[0]["id"], three[1]["id"]]

    def kind_of(self, node):
        found = [i["kind"] for i in self.items if i["id"] == self.tensor.get(node)]
        return found[-1] if found and found[-1] != "dropout" else self.before_dropout(node, found)

    def before_dropout(self, node, found):
        if not found:
            return None
        item = next(i for i in self.items if i["id"] == self.tensor[node])
        return next((i["kind"] for i in self.items if i["id"] == item["inputs"][0]), None)

    def attention(self, node, args):
        q, k = args[0], args[1]
        inputs = list(dict.fromkeys(self.tensor[a] for a in args[:3]))
        causal = bool(node.kwargs.get("is_causal", False) or (len(args) > 5 and args[5]))
        keys = {"heads": int(size(q)[1]), "causal": causal}
        if size(k)[1] != size(q)[1]:
            keys["kv_heads"] = int(size(k)[1])
        self.emit(node, "attention", inputs if len(inputs) in (1, 3) else [self.tensor[a] for a in args[:3]], **keys)

    def conv(self, node, args):
        weight = size(args[1])
        stride, pad = list(args[3] if len(args) > 3 else [1]), list(args[4] if len(args) > 4 else [0])
        groups = args[6] if len(args) > 6 else 1
        if isinstance(pad[0], str) or stride[0] != stride[-1]:
            return self.opaque(node, "conv2d")
        return self.emit(node, "conv", self.data(node)[:1], out=int(weight[0]), kernel=[int(weight[2]), int(weight[3])], stride=int(stride[0]),
                         pad=[int(pad[0]), int(pad[-1])], groups=int(groups), bias=len(args) > 2 and args[2] is not None)

    def pool(self, node, args):
        kernel = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
        stride = args[2] if len(args) > 2 and args[2] else kernel
        pad = args[3] if len(args) > 3 else 0
        pad = pad if isinstance(pad, (list, tuple)) else [pad]
        self.emit(node, "pool", kernel=int(kernel[0]), stride=int(stride[0]), pad=int(pad[0]))

    def multiply(self, node, args):
        """silu(gate) * up of two products of one input is one product and its gate."""
        tensors = self.data(node)
        found = [next((i for i in self.items if i["id"] == t), None) for t in tensors]
        if len(found) == 2 and all(found):
            gate = next((i for i in found if i["kind"] in ("silu", "gelu")), None)
            up = next((i for i in found if i["kind"] == "linear"), None)
            down = next((i for i in self.items if gate and i["id"] == gate["inputs"][0] and i["kind"] == "linear"), None)
            if gate and up and down and down["inputs"] == up["inputs"] and down["keys"]["out"] == up["keys"]["out"]:
                down["keys"]["out"] *= 2
                self.items = [i for i in self.items if i is not gate and i is not up]
                return self.emit(node, "gated", [down["id"]], gate=gate["kind"])
        if len(tensors) == 1:  # by a number or by a weight, as a norm's scale
            self.tensor[node] = tensors[0]
            return None
        return self.opaque(node, "mul")

    # ---- the walk ----

    def visit(self, node):
        kind = node.target if isinstance(node.target, str) else node.target.__name__.split(".")[0]
        args = node.args
        tensors = self.data(node)
        if not tensors:  # positions, masks: alike for all samples
            return
        if kind in CONSTANTS:
            self.tensor[node] = tensors[0]
        elif kind in VIEWS:
            self.view(node, kind, tensors[0])
        elif kind == "linear":
            self.linear(node, args[1], args[2] if len(args) > 2 else None)
        elif kind == "addmm":
            self.linear(node, args[2], args[0])
        elif kind in ("matmul", "mm", "bmm"):
            self.product(node, args[0], args[1])
        elif kind == "scaled_dot_product_attention":
            self.attention(node, args)
        elif kind in ("conv2d", "convolution"):
            self.conv(node, args)
        elif kind in ("max_pool2d", "avg_pool2d", "max_pool2d_with_indices"):
            self.pool(node, args)
        elif kind == "adaptive_avg_pool2d" or (kind == "mean" and len(size(args[0])) == 4):
            out = size(node)[-1] if kind != "mean" else 1
            if out == 1:
                self.emit(node, "pool", **{"global": True})
            elif size(args[0])[-1] == out:
                self.tensor[node] = tensors[0]
            else:
                step = size(args[0])[-1] // out
                self.emit(node, "pool", kernel=int(step), stride=int(step), pad=0)
        elif kind == "embedding":
            self.tables[self.owned[args[0].name]] = node.name
            self.emit(node, "embedding", vocab=int(size(args[0])[0]), width=int(size(args[0])[1]))
        elif kind in ("softmax", "_softmax"):
            self.emit(node, "softmax")
        elif kind in ("add", "add_"):
            self.add(node, args, tensors)
        elif kind in ("mul", "mul_"):
            self.multiply(node, args)
        elif kind in ("div", "div_", "sub", "neg", "rsub") and len(tensors) == 1:
            self.tensor[node] = tensors[0]
        elif kind == "cat":
            self.concatenate(node, args, tensors)
        elif kind in SAME:
            self.emit(node, SAME[kind], tensors[:1])
        else:
            self.opaque(node, kind)

    def view(self, node, kind, source):
        """Images become features by a view of Weft's own; anything else stays what it is."""
        before = size(node.args[0]) if isinstance(node.args[0], torch.fx.Node) else ()
        after = size(node)
        if len(before) == 4 and len(after) == 2 and kind in ("view", "reshape", "flatten", "_unsafe_view"):
            return self.emit(node, "flatten", [source])
        if len(before) == 4 and len(after) == 3 and kind in ("view", "reshape", "flatten", "_unsafe_view") and \
                self.is_image(source):
            shape = [after[2], after[1]]  # (channels, positions) is a sequence of patches
            return self.emit(node, "view", [source], shape=[int(s) for s in shape])
        if kind in ("select", "getitem", "slice") and before and len(before) == 3 and len(after) == 2 and before[1] > 1:
            return self.emit(node, "opaque", [source], type="select", shape=self.sample(after), parameters=0)
        self.tensor[node] = source
        return None

    def is_image(self, tensor):
        item = next((i for i in self.items if i["id"] == tensor), None)
        return bool(item) and item["kind"] in ("conv", "pool", "batch_norm", "relu") or tensor in self.inputs

    def add(self, node, args, tensors):
        if len(tensors) == 2 and all(isinstance(a, torch.fx.Node) and size(a) == size(node) for a in args[:2]):
            return self.emit(node, "add", tensors)
        table = [a for a in args[:2] if isinstance(a, torch.fx.Node) and a not in self.tensor]
        item = next((i for i in self.items if i["id"] == tensors[0]), None)
        if table and item and item["kind"] == "embedding" and "positions" not in item["keys"]:
            item["keys"]["positions"] = self.rows_of(table[0])
        elif table and self.own(node):
            return self.opaque(node, "add")
        self.tensor[node] = tensors[0]
        return None

    def rows_of(self, node):
        """Rows of the table of positions that an addition reads, directly or by an embedding of constants."""
        while node.op == "call_function" and node.all_input_nodes:
            node = node.all_input_nodes[0]
        return int(size(node)[-2])

    def concatenate(self, node, args, tensors):
        dim = args[1] if len(args) > 1 else 0
        dim = dim + len(size(node)) if dim < 0 else dim
        if len(tensors) < len(args[0]):  # with a learned token
            return self.opaque(node, "cat")
        return self.emit(node, "concat", tensors, axis=int(dim))

    def trace(self):
        users = set(self.program.graph_signature.user_inputs)
        for node in self.program.graph.nodes:
            if node.op == "placeholder" and node.name in users:
                shape = size(node)
                self.batch = self.batch or shape[0]
                index = not node.meta["val"].is_floating_point()
                self.inputs[node.name] = {"shape": self.sample(shape), "element": "index"} if index else self.sample(shape)
                self.tensor[node] = node.name
            elif node.op == "call_function":
                self.visit(node)
        return self


# ---- the file ----


def nest(items, depth=0):
    """Items by the modules that they are in, as far as one module's items are together."""
    out = []
    for item in items:
        key = item["path"][depth] if len(item["path"]) > depth else None
        if key is not None and out and out[-1].get("module") == key:
            out[-1]["items"].append(item)
        elif key is not None:
            out.append({"module": key, "items": [item]})
        else:
            out.append(item)
    for entry in out:
        if "module" in entry:
            entry["operators"] = nest(entry.pop("items"), depth + 1)
    return out


def flat(entry):
    return [entry] if "kind" in entry else [i for e in entry["operators"] for i in flat(e)]


def form(entry, before):
    """A module as text, with its own results by number: two with the same text are alike. None: it reads more than what is before it."""
    items = flat(entry)
    number = {i["id"]: n for n, i in enumerate(items)}
    text = []
    for item in items:
        reads = []
        for tensor in item["inputs"]:
            if tensor not in number and tensor != before:
                return None
            reads.append(number.get(tensor, -1))
        if "tied" in item["keys"]:
            return None
        text.append([item["kind"], item["path"][-1:], reads, item["keys"]])
    return json.dumps(text)


def fold(entries, names):
    """Alike modules in a row as one repeat; what is after them reads the repeat."""
    out, at = [], 0
    for entry in entries:
        if "module" in entry:
            entry["operators"] = fold(entry["operators"], names)
    while at < len(entries):
        entry, count = entries[at], 1
        start = next((t for i in flat(entry) for t in i["inputs"] if t not in {x["id"] for x in flat(entry)}), None)
        shape = form(entry, start) if "module" in entry else None
        while shape and at + count < len(entries) and "module" in entries[at + count] and \
                form(entries[at + count], flat(entries[at + count - 1])[-1]["id"]) == shape:
            count += 1
        if count > 1 and not any(repeats(e) for e in entry["operators"]):
            entry = {"repeat": count, "name": "r" + str(len(names)), "input": start, "operators": entry["operators"]}
            names[flat(entries[at + count - 1])[-1]["id"]] = entry["name"]
            entry["carry"] = start
        else:
            count = 1
        out.append(entry)
        at += count
    return out


def repeats(entry):
    return "repeat" in entry or any(repeats(e) for e in entry.get("operators", []))


def lines(entries, names, known, carry=None, indent="  "):
    """Text of items; `known` maps a tensor to its name where it is read."""
    for entry in entries:
        if "kind" in entry:
            keys = {"kind": entry["kind"], "name": entry["id"]}
            reads = ["carry" if t == carry else names.get(t, t) for t in entry["inputs"]]
            if reads:
                keys["input" if len(reads) == 1 else "inputs"] = reads[0] if len(reads) == 1 else reads
            yield indent + "- " + json.dumps({**keys, **entry["keys"]})
        elif "repeat" in entry:
            read = "carry" if entry["input"] == carry else names.get(entry["input"], entry["input"])
            yield f"{indent}- repeat: {entry['repeat']}\n{indent}  name: {entry['name']}\n{indent}  input: {read}\n{indent}  operators:"
            yield from lines(entry["operators"], names, known, entry["carry"], indent + "    ")
        else:
            yield from lines(entry["operators"], names, known, carry, indent)


def write(tracer, dtype):
    names = {}
    entries = fold(nest(tracer.items), names)
    last = names.get(tracer.items[-1]["id"], tracer.items[-1]["id"])
    text = [f"name: {tracer.name}", f"dtype: {dtype}", "inputs:"]
    text += [f"  {name}: {json.dumps(shape)}" for name, shape in tracer.inputs.items()]
    text += ["operators:", *lines(entries, names, {})]
    text.append("  - " + json.dumps({"kind": "loss", "name": "loss", "input": last}))
    return "\n".join(text) + "\n"


def trace(module, inputs, name="traced", dtype="bf16"):
    """The text of a model file, and the kinds that became opaque."""
    program = torch.export.export(module, tuple(inputs), strict=False)
    tracer = Tracer(program, name).trace()
    return write(tracer, dtype), sorted(set(tracer.skipped))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", metavar="FILE:FUNCTION")
    parser.add_argument("-o", "--output")
    parser.add_argument("--dtype", default="bf16")
    options = parser.parse_args()
    file, _, function = options.what.rpartition(":")
    spec = importlib.util.spec_from_file_location("traced", file)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    module, inputs = getattr(loaded, function)()
    text, skipped = trace(module, inputs, function, options.dtype)
    if skipped:
        print(f"note: opaque: {', '.join(skipped)}", file=sys.stderr)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as out:
            out.write(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
