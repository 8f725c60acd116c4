#!/usr/bin/env python3
"""Writes data/validation/peers.csv: what Calculon and SimuMax predict for the published runs that they can express.

  peer-predictions.py VALIDATION CALCULON SIMUMAX > peers.csv

VALIDATION is data/validation; CALCULON and SIMUMAX are checkouts of calculon-ai/calculon (caa4b11f) and
MooreThreads/SimuMax (4dcaae51), both Apache-2.0, of which nothing but these numbers is kept.

Calculon is run with its own files for A100 and H100, in which two facts are changed: memory is without limit, so that a run
which it takes for too large has a time all the same, and Fold3D's network has its 200 Gb/s a node in place of eight times that.
(vTrain's 800 Gb/s a node would make it worse, 18.9 % off in place of 15.7, so its own file stands there.) It has dense models
with as many key-value heads as heads and without gates, fp16 and fp8, tensor, pipeline and data parallelism, and sharded
optimizers; every row of such a model on such a device is asked. What overlaps, and what is recomputed, is what sources.yaml says
of the dataset. Where micro-batch and pieces of a stage are open, the ones that Calculon itself says are fastest are taken, which
is the rule for Weft.

SimuMax has measured operators of an A100 on PCIe, which no run had, and of a B200 in bf16. Its authors publish what it
predicts for their own runs there (docs/b200/b200_release_v1.2_summary.json); those of simumax_b200 are taken from it.
"""
import csv
import json
import logging
import pathlib
import sys

NODE = 8  # devices of a node, of all machines here
DEVICES = {"A100-SXM4-80GB": "a100_80g", "A100": "a100_80g", "H100-SXM5-80GB": "h100_80g_nvl8", "NVIDIA H100-SXM5-80GB": "h100_80g_nvl8"}
RATES = {"fold3d_table2": 3.125, "fold3d_table3": 3.125}  # GB/s of a device between nodes, where not that of Calculon's file
# Fold3D's Table 1: layers, hidden, heads (T-NLG's 28 cannot be split by 8: 32, as in sources.yaml).
FOLD3D = {"GPT-3 18B": (40, 6144, 48), "GPT-3 39B": (48, 8192, 64), "BERT": (72, 7344, 48), "T-NLG": (80, 4256, 32),
          "CPM": (48, 5120, 64)}
OPEN = {"megatron_core_h100"}  # micro-batch and pieces are not published


def run(dataset, row, **other):
    """A row as Calculon needs it; `other` replaces fields."""
    number = lambda name: int(row.get(name) or 0)
    case = dict(dataset=dataset, gpu=row.get("gpu"), gpus=number("gpus"), layers=number("layers"), hidden=number("hidden"),
                ffn=number("ffn") or 4 * number("hidden"), heads=number("heads"), seq=number("seq_len"), tp=number("tp"),
                pp=number("pp"), dp=number("dp"), pieces=number("vpp") or 1, micro=number("mbs"), batch=number("gbs"),
                recompute=(row.get("recompute") or "none").split("(")[0], sequence=row.get("seq_parallel") == "1",
                sharded=row.get("zero") == "1", type="float16", overlap_data=False, overlap_tensor=False,
                seconds=row.get("iter_time_s"))
    case.update(other)
    return case


def plain(row):
    """Calculon has neither experts, nor fewer key-value heads, nor gates, nor context parallelism."""
    words = row.get("notes") or ""
    return (not row.get("experts") and row.get("kv_heads") in ("", None, row.get("heads")) and (row.get("cp") or "1") == "1"
            and not any(word in words for word in ("swiglu", "group-query-attention", "fp8-format", "custom-fsdp"))
            and row.get("precision") in ("fp16", "bf16"))


def mlperf(row):
    wanted = row["benchmark"] == "gpt3" and row["accelerator"] in DEVICES and int(row["config_score"] or 0) >= 4
    return run("mlperf", row, gpu=row["accelerator"], layers=96, hidden=12288, ffn=49152, heads=96, seq=2048,
               pieces=int(row["vp"] or 1), recompute="none", sequence=True, sharded=True, type="float8", overlap_data=True,
               overlap_tensor=row["tp_overlap"] in ("True", "1"), seconds=row["step_s"]) if wanted else None


def fold3d(dataset, row):
    if row["model"] not in FOLD3D or row["gpu"] != "A100" or row["system"] not in ("Megatron-PTD", "Megatron-SP", "DeepSpeed-3D"):
        return None
    layers, hidden, heads = FOLD3D[row["model"]]
    return run(dataset, row, gpus=int(row["n_gpus"]), layers=layers, hidden=hidden, ffn=4 * hidden, heads=heads, seq=1024, micro=4,
               batch=int(row["global_batch"]), pieces=1 if row["system"] == "DeepSpeed-3D" else 2, recompute="full",
               seconds=float(row["total_ms"]) / 1e3)


def runs(dataset, row):
    if not plain(row) or row["gpu"] not in DEVICES or not row["gpus"] or row["model"] in ("t5", "hybrid", "mimo", "moe"):
        return None
    everything = dataset == "megatron_core_h100"
    return run(dataset, row, overlap_data=everything, overlap_tensor=everything)


READERS = {"megatron_sc21_table1": runs, "megatron_seqsel_table5": runs, "megatron_core_h100": runs, "vtrain_multi": runs,
           "vtrain_single": runs, "megatron_golden": runs, "mlperf": lambda dataset, row: mlperf(row), "fold3d_table2": fold3d, "fold3d_table3": fold3d}


def execution(case):
    """Ranks are numbered tensor first, then data, then pipeline: what is within a node follows."""
    inside = lambda degree: 0 if degree <= NODE else 1
    tp, dp, pp = case["tp"], case["dp"], case["pp"]
    recompute = {"full": "full", "selective": "attn_only"}.get(case["recompute"], "none")
    sequence = case["sequence"] and tp > 1
    return {"num_procs": tp * dp * pp, "tensor_par": tp, "pipeline_par": pp, "data_par": dp, "tensor_par_net": inside(tp),
            "pipeline_par_net": inside(tp * dp * pp), "data_par_net": inside(tp * dp), "batch_size": case["batch"],
            "microbatch_size": case["micro"], "datatype": case["type"], "fused_activation": False, "attention_type": "multihead",
            "activation_recompute": recompute, "pipeline_interleaving": case["pieces"] if pp > 1 else 1,
            "optimizer_sharding": case["sharded"] and dp > 1, "tensor_par_comm_type": "rs_ag" if sequence else "ar",
            "tensor_par_overlap": "ring" if case["overlap_tensor"] and tp > 1 else "none",
            "seq_par_ag_redo": sequence and recompute != "full", "data_par_overlap": case["overlap_data"] and dp > 1,
            "weight_offload": False, "activations_offload": False, "optimizer_offload": False, "training": True}


def calculon_seconds(calculon, folder, case):
    """None if Calculon refuses the run."""
    system = json.loads((folder / "systems" / (DEVICES[case["gpu"]] + ".json")).read_text())
    system["mem1"]["GiB"] = 1 << 20
    system["networks"][1]["bandwidth"] = RATES.get(case["dataset"], system["networks"][1]["bandwidth"])
    llm = calculon.llm.Llm
    model = {"hidden": case["hidden"], "feedforward": case["ffn"], "seq_size": case["seq"], "attn_heads": case["heads"],
             "attn_size": case["hidden"] // case["heads"], "num_blocks": case["layers"]}
    try:
        program = llm(llm.Application(model), logging.getLogger())
        machine = calculon.System(system)
        program.compile(machine, llm.Execution.from_json(execution(case)))
        program.run(machine)
    except (llm.Error, AssertionError, ZeroDivisionError) as why:
        print(f"{case['dataset']}: refused: {why}", file=sys.stderr)
        return None
    return program.get_total_time()


def choices(case):
    """The case, or with every micro-batch and number of pieces that it may have had."""
    if case["dataset"] not in OPEN:
        return [case]
    layers = case["layers"] // case["pp"]
    return [dict(case, micro=micro, pieces=pieces) for micro in (1, 2, 4, 8) for pieces in range(1, layers + 1)
            if case["batch"] % (case["dp"] * micro) == 0 and layers % pieces == 0 and (case["pp"] > 1 or pieces == 1)]


def calculon_rows(validation, folder):
    sys.path.insert(0, str(folder))
    import calculon
    import calculon.llm
    for dataset, read in READERS.items():
        for line, row in enumerate(csv.DictReader(open(validation / f"{dataset}.csv")), 2):
            case = read(dataset, row)
            times = [calculon_seconds(calculon, folder, choice) for choice in choices(case)] if case else []
            if any(times):
                yield dataset, line, case["seconds"], "Calculon", min(time for time in times if time)


def simumax_rows(validation, folder):
    published = json.loads((folder / "docs/b200/b200_release_v1.2_summary.json").read_text())
    predicted = {row["case"]: row["perf_ms"] / 1e3 for row in published["rows"]}
    for line, row in enumerate(csv.DictReader(open(validation / "simumax_b200.csv")), 2):
        if row["case"] in predicted:
            yield "simumax_b200", line, row["iter_time_s"], "SimuMax", predicted[row["case"]]


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    validation, calculon, simumax = (pathlib.Path(name) for name in sys.argv[1:])
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["dataset", "line", "measured_s", "peer", "predicted_s"])
    for *row, seconds in (*calculon_rows(validation, calculon), *simumax_rows(validation, simumax)):
        out.writerow([*row, f"{seconds:.6g}"])


if __name__ == "__main__":
    main()
