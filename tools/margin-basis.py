#!/usr/bin/env python3
"""Prints the basis of the margin of memory: by how much less than measured was predicted, run by run.

    tools/margin-basis.py WEFT [PERCENT]

Every run whose allocator's memory is known counts once: for the bytes that it allocated, or reserved where the source
gives these alone (torchtitan). A run is covered where what is missing is below PERCENT (3) of its device's memory. The
datasets of Fold3D are left out: their memory is what the device reported, with other things than tensors.
"""
import functools
import json
import subprocess
import sys

DATASETS = ("simumax_b200", "torchtitan", "weft_h200", "weft_h200_ranks", "megatron_golden")


def answer(weft, *words):
    return json.loads(subprocess.run([weft, *words, "--json"], capture_output=True, text=True, check=True).stdout)


def main():
    weft, percent = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 3
    device_bytes = functools.cache(lambda cluster: answer(weft, "clusters", cluster)["device"]["memory_bytes"])
    all_runs, all_covered = 0, 0
    print("| dataset | runs | covered | most that was missing, of the device |\n|---|---|---|---|")
    for name in DATASETS:
        rows = [row for dataset in answer(weft, "validate", name, "--rows")["datasets"] for row in dataset.get("results", [])
                if "memory_bytes" in row.get("measured", {}) and "memory_bytes" in row.get("predicted", {})]
        missing = [100 * (row["measured"]["memory_bytes"] - row["predicted"]["memory_bytes"]) / device_bytes(row["cluster"])
                   for row in rows]
        covered = sum(share < percent for share in missing)
        print(f"| {name} | {len(missing)} | {covered} | {max(missing):.1f} % |", flush=True)
        all_runs += len(missing)
        all_covered += covered
    print(f"| all | {all_runs} | {all_covered}, {100 * all_covered / all_runs:.0f} % | |")


if __name__ == "__main__":
    main()
