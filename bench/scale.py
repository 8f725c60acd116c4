#!/usr/bin/env python3
"""What planning and simulating cost as a cluster grows from 1,024 to 131,072 devices, and where it grows faster than they do.

    bench/scale.py WEFT [--nodes N,...] [--full]

The question grows with the cluster: a mixture of experts of 1, 2.6, 5 and 10T parameters with a sample for every eight devices.
Each row runs `weft plan --quick` (--full: without --quick) and then `weft simulate` of the plan that was found. CPU is user and
system time of the command, memory its largest resident set. "us/device" is CPU time per simulated device; a power above 1
between two rows (the last columns: log of the costs' ratio over log of the devices' ratio) is growth faster than linear.
"""
import argparse
import json
import math
import os
import pathlib
import resource
import subprocess
import tempfile

SIZES = [(128, 61, 7168, 384), (512, 61, 8192, 768), (2048, 80, 9216, 640), (4096, 96, 10240, 640), (12288, 96, 12288, 640),
         (16384, 96, 12288, 640)]


def config(layers, hidden, experts):
    return {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": hidden, "intermediate_size": 4096 if hidden > 9000 else 2048,
            "num_attention_heads": hidden // 128, "num_key_value_heads": 8, "num_hidden_layers": layers, "num_local_experts": experts,
            "num_experts_per_tok": 8, "vocab_size": 131072, "max_position_embeddings": 8192, "hidden_act": "silu", "torch_dtype": "bfloat16"}


def run(command):
    """Exit code, standard output, CPU seconds and MiB of a command."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        out.seek(0)
        return os.waitstatus_to_exitcode(status), out.read(), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def power(before, now, key):
    if not before:
        return "     -"
    return f"{math.log(now[key] / before[key]) / math.log(now['devices'] / before['devices']):6.2f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft")
    parser.add_argument("--nodes")
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    wanted = [int(n) for n in options.nodes.split(",")] if options.nodes else [128, 512, 2048, 12288, 16384]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(f"{'':>7} {'':>7}  {'plan':>7} {'':>7} {'':>9}   {'simulate':>8} {'':>7} {'':>9}   growth, as a power of devices")
    print(f"{'devices':>7} {'model':>7}  {'CPU s':>7} {'MiB':>7} {'us/device':>9}   {'CPU s':>8} {'MiB':>7} {'us/device':>9}   "
          f"{'plan s':>6} {'plan B':>6} {'sim s':>6} {'sim B':>6}")
    before = None
    with tempfile.TemporaryDirectory() as folder:
        for nodes, layers, hidden, experts in SIZES:
            if nodes not in wanted:
                continue
            model, plan = pathlib.Path(folder, "model.json"), pathlib.Path(folder, "plan.yaml")
            model.write_text(json.dumps(config(layers, hidden, experts)))
            cluster = f"dgx-h100:{nodes}"
            _, text, _, _ = run([options.weft, "inspect", str(model), "--json"])
            quick = [] if options.full else ["--quick"]
            code, _, plan_s, plan_mib = run([options.weft, "plan", str(model), cluster, "--global-batch", str(nodes), "-o", str(plan), *quick])
            code2, _, sim_s, sim_mib = run([options.weft, "simulate", str(plan)]) if plan.exists() else (1, "", 1e-9, 1e-9)
            now = {"devices": 8 * nodes, "plan_s": plan_s, "plan_mib": plan_mib, "sim_s": sim_s, "sim_mib": sim_mib}
            trillions = json.loads(text)["parameters"] / 1e12
            print(f"{8 * nodes:>7,} {trillions:6.2f}T  {plan_s:7.2f} {plan_mib:7.0f} {1e6 * plan_s / (8 * nodes):9.1f}   "
                  f"{sim_s:8.2f} {sim_mib:7.0f} {1e6 * sim_s / (8 * nodes):9.1f}   {power(before, now, 'plan_s')} {power(before, now, 'plan_mib')} "
                  f"{power(before, now, 'sim_s')} {power(before, now, 'sim_mib')}{'' if code == code2 == 0 else '   does not fit'}", flush=True)
            before = now


main()
