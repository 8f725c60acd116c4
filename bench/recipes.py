#!/usr/bin/env python3
"""Holds what `weft plan` finds against public recipes of the same model, devices and batch, simulated alike.

    bench/recipes.py WEFT [--budget TIME] [CASE...]

A case's recipe is the layout that its source publishes, or a usual one where none is named. What a source leaves open
(batches that are no multiple of the pipeline, modules to recompute) is set to what fits. Prints a row of a table for
each case, with the terms of the iteration in which the faster one gains (best_gains of weft compare), and fails where
the plan found is slower than the recipe by more than 0.5 %.
"""
import json
import os
import subprocess
import sys
import tempfile

STATE = "--software megatron-core-0.16 --policy bf16-moments"
NODES = STATE.replace("0.16", "0.16,dispatch=nodes")
CASES = {
    # a usual layout: tp and half of the sequence within a node
    "long": ("llama3.1-8b dgx-h100:2 --seq 131072 --global-batch 16", "--tp 4 --cp 4 --sp --zero 1"),
    # DeepSeek-V3, section 3.2: 2,048 devices, pp 16 with two pieces, ep 64, ZeRO-1, fp8, tokens once to each node and
    # beside another micro-batch's pass; what is recomputed there does not fit here, so whole layers are
    "deepseek": (f"deepseek-v3 dgx-h100:256 --dtype fp8 --global-batch 16384 {NODES}",
                 "--pp 16 --virtual 2 --ep 64 --zero 1 --recompute full --overlap all,experts"),
    # Megatron-Bridge 26.08 on GB200: pp 4 of 4 pieces, ep 64, 256 devices of 4 racks
    "racks": (f"deepseek-v3 gb200-nvl72:256gpus --dtype fp8 --global-batch 4096 {STATE}-gradients",
              "--pp 4 --virtual 4 --ep 64 --zero 1 --recompute mla_up_proj,moe_act"),
    # Megatron-Bridge's recipe (perf_recipes/qwen/h100/qwen3_moe.py): plain all-to-alls over four nodes, beside another
    # micro-batch's pass; nothing recomputed; its batch is 8,192, 2,048 here
    "qwen": (f"qwen3-235b-a22b dgx-h100:32 --global-batch 2048 {STATE}",
             "--tp 2 --sp --pp 8 --virtual 4 --ep 32 --etp 1 --zero 1 --overlap all,experts"),
    # the same with DeepEP, which the recipe does not use
    "qwen-deepep": (f"qwen3-235b-a22b dgx-h100:32 --global-batch 2048 {NODES}",
                    "--tp 2 --sp --pp 8 --virtual 4 --ep 32 --etp 1 --zero 1 --overlap all,experts"),
}


def ask(weft, command, words):
    done = subprocess.run([weft, command, *words.split(), "--json"], capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"weft {command} {words}: {done.stderr}")
    return json.loads(done.stdout)


def hold(weft, question, recipe, found):
    """What the recipe is predicted to do beside the plan found, and the words about which of them gains where."""
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("recipe.json", "found.json")]
        subprocess.run([weft, "show", *f"{question} {recipe}".split(), "-o", files[0]], check=True,
                       stdout=subprocess.DEVNULL)
        with open(files[1], "w") as file:
            json.dump(found["plan"], file)
        rows = ask(weft, "compare", " ".join(files))["rows"]
    slower = next((row for row in rows if row["best_gains"]), None)
    better = "the recipe" if slower is rows[1] else "it"
    return rows[0]["prediction"], f"{better} {slower['best_gains']['words']}" if slower else "nothing"


def main():
    weft, rest, budget = sys.argv[1], sys.argv[2:], ""
    if rest[:1] == ["--budget"]:
        budget, rest = f"--budget {rest[1]}", rest[2:]
    print("| question | recipe | s | plan found | s | gain | most of it |\n|---|---|---|---|---|---|---|")
    slower = []
    for name in rest or CASES:
        question, recipe = CASES[name]
        found = ask(weft, "plan", f"{question} --quick {budget}")
        own, words = hold(weft, question, recipe, found)
        own_s, best_s = own["iteration_s"], found["iteration_s"]
        fits = "" if own["fits"] else " (does not fit)"
        print(f"| `{question}` | `{recipe}` | {own_s:.2f}{fits} | {found['summary']} | {best_s:.2f} | "
              f"{100 * (1 - best_s / own_s):.1f} % | {words} |", flush=True)
        if best_s > 1.005 * own_s and not fits:
            slower.append(name)
    if slower:
        sys.exit(f"slower than its recipe: {', '.join(slower)}")


if __name__ == "__main__":
    main()
