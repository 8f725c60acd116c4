#!/usr/bin/env python3
"""Fold3D's Tables 2 to 4 component by component: `bench/fold3d_components.py build/weft [words]`.

Prints which printed components other numbers of the same paper contradict by more than 8 %, with the arithmetic, and how many of
the others `weft validate` predicts within 8 %. What contradicts what is worked out from what is printed alone, by these rules, which
were written with all rows in view:

  passes    TFLOP/s times time over the FLOPs of the shape in Table 1, by the formula that the paper names (Megatron's): other
            models than those were run. Bubbles are made of passes
  bubble    Equation 3 of the paper, (p - 1) / (m v) of the printed passes, with the segments v or the whole number that is nearest
  dp_sync   gradients of the same system on as many replicas, stages and the same network take time in proportion to weights
  pp_sync   tensors of the same system, stages and micro-batches take time in proportion to their size, and in inverse proportion to
            the rate of the network, which the two clusters' DP.sync gives
  copies    checkpoints out and back (Table 4) are no faster than the rate of the host that section 6.4 prints

Rows of ZeRO-3, and of T5, whose shape nobody knows, are left alone: nothing is predicted of their parts.

With `words` the rows run as section 6 says in words, in place of as `weft validate` reads the printed times: sequence parallelism in
all systems, with the overlap of Megatron-LM 3.0's linear layers, whose code for it is; sends of a part each; and V100 at the clock that
they have unless somebody raises it.
"""
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile

TOLERANCE = 0.08
FOLDER = pathlib.Path(__file__).resolve().parents[1] / "data/validation"
# Table 1: layers, hidden size.
SHAPES = {"GPT-3 18B": (40, 6144), "GPT-3 39B": (48, 8192), "BERT": (72, 7344), "T-NLG": (80, 4256), "CPM": (48, 5120)}
VOCABULARY = 51200  # Megatron's formula; it matters by 1 to 2 %
MICRO_BATCH, SEQUENCE = 4, 1024  # section 6; sequences of 1024 are what the TFLOP/s of GPT-3 imply
HOST_BYTES_PER_S = 13.6e9  # section 6.4, eight V100
# Megatron-PTD and Megatron-SP differ in their degrees, not in how they send.
FAMILY = {"Megatron-PTD": "Megatron", "Megatron-SP": "Megatron"}


def read(table):
    text = (FOLDER / f"fold3d_table{table}.csv").read_text()
    reader = csv.DictReader(io.StringIO(text))
    return [dict(row, table=table, line=number) for number, row in enumerate(reader, 2)]


def value(row, column):
    return float(row[column])


def passes(row):
    return value(row, "fwd_ms") + value(row, "bwd_ms")


def micro_batches(row):
    return int(row["global_batch"]) // int(row["dp"]) // MICRO_BATCH


def weights(row):
    layers, hidden = SHAPES[row["model"]]
    return 12 * layers * hidden**2 / int(row["pp"]) + VOCABULARY * hidden


def off(printed, other):
    return abs(printed / other - 1) > TOLERANCE


def system(row):
    return FAMILY.get(row.get("system"), row.get("system"))


def judged(row):
    return row["model"] in SHAPES and row.get("system") != "DeepSpeed-Z3"


def check_work(row):
    ratio = value(row, "tflops_per_gpu") / value(row, "megatron_formula_tflops_seq1024")
    if abs(ratio - 1) > TOLERANCE:
        return ["passes", "bubble"], f"its TFLOP/s times its time are {ratio:.2f} times the FLOPs of Table 1's shape"
    return [], ""


def check_bubble(row):
    once = (int(row["pp"]) - 1) * passes(row) / micro_batches(row)
    pieces = int(row["segments"]) if row["segments"] else max(1, round(once / value(row, "bubble_ms")))
    if off(value(row, "bubble_ms"), once / pieces):
        return ["bubble"], f"by Equation 3 its passes have a bubble of {once / pieces:.0f} ms (v = {pieces})"
    return [], ""


def reference(row, rows, same):
    """The first row before it of the same system with another model, stages and replicas by the columns in `same`."""
    for other in rows[:next(i for i, r in enumerate(rows) if r is row)]:
        if (judged(other) and system(other) == system(row) and other["model"] != row["model"]
                and all(other[c] == row[c] for c in same)):
            return other
    return None


def check_volume(row, rows):
    other = reference(row, rows, ("gpu", "dp", "pp", "global_batch"))
    if not other or row["table"] == 2:
        return [], ""
    due = value(other, "dp_sync_ms") * weights(row) / weights(other)
    if off(value(row, "dp_sync_ms"), due):
        return ["dp_sync"], f"by {other['model']}'s DP.sync its weights take {due:.0f} ms"
    return [], ""


def check_sends(row, rows):
    pair = [o for o in rows if o["table"] == row["table"] == 2 and o["model"] == row["model"] and o["gpu"] != row["gpu"]
            and judged(o) and system(o) == system(row)]
    if pair:
        a100, v100 = sorted((row, pair[0]), key=lambda r: r["gpu"])
        volume = [2 * (int(r["dp"]) - 1) / int(r["dp"]) for r in (a100, v100)]
        # Of Megatron and DeepSpeed nothing is hidden; Fold3D has the same network as Megatron.
        whole = [next(o for o in rows if o["gpu"] == r["gpu"] and o["model"] == r["model"] and system(o) == "Megatron")
                 for r in (a100, v100)]
        slower = (value(whole[1], "dp_sync_ms") / volume[1]) / (value(whole[0], "dp_sync_ms") / volume[0])
        ratio = value(v100, "pp_sync_ms") / value(a100, "pp_sync_ms")
        if off(ratio, slower):
            return ["pp_sync"], (f"the same tensors take {ratio:.2f} times as long on V100 as on A100, "
                                 f"gradients {slower:.2f} times")
    other = reference(row, rows, ("gpu", "pp", "global_batch", "dp"))
    if not other or row["table"] == 2:
        return [], ""
    due = value(other, "pp_sync_ms") * SHAPES[row["model"]][1] / SHAPES[other["model"]][1]
    if off(value(row, "pp_sync_ms"), due):
        return ["pp_sync"], f"by {other['model']}'s PP.sync its tensors take {due:.0f} ms"
    return [], ""


def check_copies(row):
    layers, hidden = SHAPES[row["model"]]
    each = MICRO_BATCH * SEQUENCE * hidden * 2
    bytes_moved = 2 * each * layers / int(row["pp"]) * micro_batches(row)
    rate = bytes_moved / (value(row, "copies_ms") / 1e3)
    if rate > HOST_BYTES_PER_S * (1 + TOLERANCE):
        return ["copies"], f"its checkpoints would go at {rate / 1e9:.1f} GB/s, above the 13.6 of section 6.4"
    return [], ""


def findings(row, rows):
    if not judged(row):
        return []
    if row["table"] == 4:
        found = [check_copies(row)]
        runs = [check_work(o) for o in rows if o["table"] == 3 and o["model"] == row["model"] and judged(o)]
        if runs and all(parts for parts, _ in runs):
            found.append((["passes"], "its shape is not Table 1's, as in Table 3"))
    else:
        found = [check_work(row), check_bubble(row), check_volume(row, rows), check_sends(row, rows)]
    return [(parts, why) for parts, why in found if parts]


# Of a component, what is summed of a prediction; passes of the tables have the communication of tensor parallelism in them.
PARTS = {"passes": ("forward", "backward", "tp_comm"), "bubble": ("bubble",), "dp_sync": ("dp_comm",), "pp_sync": ("pp_comm",),
         "copies": ("copies",)}


def predictions(weft, table):
    answer = subprocess.run([weft, "validate", f"fold3d_table{table}", "--rows", "--json"], check=True, capture_output=True)
    return {r["line"]: r for r in json.loads(answer.stdout)["datasets"][0]["results"] if r.get("predicted")}


# ---- in the words of section 6 ----

OPTIONS = {"GPT-3 18B": ["gpt3-18b", "--set", "seq=1024"], "BERT": ["fold3d-bert"], "T-NLG": ["t-nlg", "--set", "heads=32"],
           "GPT-3 39B": ["gpt3-39b", "--set", "seq=1024", "--set", "vocab=51200"], "CPM": ["cpm"]}
OVERLAP = {"Megatron-PTD": "pipeline,tensor", "Megatron-SP": "pipeline,tensor", "DeepSpeed-3D": "tensor"}
# nvidia-smi on a Tesla V100-SXM2-32GB: 1,290 MHz, its default, of 1,530 (NVIDIA/nvidia-docker, issue 1076). Who wants 1,530 on a P3dn
# sets it (`nvidia-smi -ac 877,1530`, AWS's guide to optimizing GPU settings). Aceso's V100, whose measured products Weft goes by, had
# more than 1,290: up to 109.6 TFLOP/s, where 1,290 MHz allow 125 * 1290 / 1530 = 105.4.
V100_CLOCK = 1290 / 1530


def cluster(row, folder):
    if row["gpu"] == "A100":
        return "fold3d-a100:16"
    path = pathlib.Path(folder) / "v100.yaml"
    path.write_text(f"base: fold3d-v100\nnodes: 8\ncalibration: {{products: {V100_CLOCK:.4f}}}\n")
    return str(path)


def schedule(row):
    system = row.get("system") or "Fold3D"
    if system == "Fold3D":
        return ["--schedule", "aiao", "--segments", row["segments"] or "4", "--offload", "--overlap", "all"]
    pieces = ["--schedule", "interleaved", "--virtual", "2"] if system in FAMILY else []
    return pieces + ["--overlap", OVERLAP[system]]


def simulated(weft, row, folder, batch):
    model, *options = OPTIONS[row["model"]]
    degrees = [word for name in ("tp", "pp", "dp") for word in ("--" + name, row[name])]
    answer = subprocess.run(
        [weft, "simulate", model, cluster(row, folder), *options, "--set", "attention=fused", *degrees, "--global-batch", str(batch),
         "--microbatch", str(MICRO_BATCH), "--dtype", "fp16", "--recompute", "full", "--bucket", "whole", "--sp", *schedule(row),
         "--json"], capture_output=True)  # an exit code of 1: it does not fit, and is simulated all the same
    return json.loads(answer.stdout)["breakdown"]


def in_words(weft, row, folder):
    """What `weft validate --json` would say of the row. Weft counts a wait for another stage's tensor parallelism with this stage's own,
    the paper with the bubble, which Equation 3 makes of whole passes: it is what does not grow with the number of micro-batches."""
    batch = int(row["global_batch"])
    found, twice = (simulated(weft, row, folder, samples) for samples in (batch, 2 * batch))
    own = twice["tp_comm"] - found["tp_comm"]
    found["bubble"] += found["tp_comm"] - own
    found["tp_comm"] = own
    found["backward"] += found.pop("recompute")
    return found


def said_in_words(weft, rows, results):
    with tempfile.TemporaryDirectory() as folder:
        for row in filter(judged, rows):
            result = results[row["table"]].get(row["line"])
            if result:
                copies = result["predicted"]["breakdown"].get("copies")
                result["predicted"]["breakdown"] = {**in_words(weft, row, folder), "copies": copies}


def error(result, part):
    """Of a component; None: it is not printed."""
    measured, predicted = ([b[name] or 0 for name in PARTS[part] if name in b]
                           for b in (result["measured"]["breakdown"], result["predicted"]["breakdown"]))
    return sum(predicted) / sum(measured) - 1 if sum(measured) else None


def main():
    weft, rows, sums = sys.argv[1], [row for table in (2, 3, 4) for row in read(table)], {}
    results = {table: predictions(weft, table) for table in (2, 3, 4)}
    if sys.argv[2:] == ["words"]:
        said_in_words(weft, rows, results)
    for row in filter(judged, rows):
        result, found = results[row["table"]].get(row["line"]), findings(row, rows)
        contradicted = {part for parts, _ in found for part in parts}
        for part in PARTS if result else ():
            off_by = error(result, part)
            if off_by is None:
                continue
            tally = sums.setdefault((row["table"], part), [0, 0, 0, 0])
            good, clean = abs(off_by) <= TOLERANCE, part not in contradicted
            for i, yes in enumerate((True, good, clean, good and clean)):
                tally[i] += yes
            print(f"Table {row['table']} {row['gpu']} {row['model']:9} {row.get('system') or 'Fold3D':12} {part:7} "
                  f"{100 * off_by:+6.1f} %{'' if clean else '  contradicted'}")
        for _, why in found if result else ():
            print(f"    {why}")
    for (table, part), (printed, good, clean, both) in sums.items():
        print(f"Table {table} {part:7}: {good:2} of {printed:2} within 8 %; {both:2} of {clean:2} that nothing contradicts")
    for without in ((), ("pp_sync",)):
        all_four = [sum(t[i] for (_, part), t in sums.items() if part not in without) for i in range(4)]
        print(f"all{' but pp_sync' if without else ''}: {all_four[1]} of {all_four[0]} within 8 %; "
              f"{all_four[3]} of {all_four[2]} that nothing contradicts")


if __name__ == "__main__":
    main()
