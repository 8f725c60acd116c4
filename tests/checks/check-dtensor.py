#!/usr/bin/env python3
"""check-dtensor.py WEFT [PYTHON] - runs scripts of `weft export --to dtensor` on processors: with tensor parallelism, sequence
parallelism and replicas their losses are those of one process. PYTHON has torch (default: this one); without it nothing is
checked, and the exit code is 77."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CLUSTER = """name: cores
nodes: 1
device: {name: core, arch: cpu, memory: 4GiB, tflops: {fp32: 0.08}, vector_tflops: 0.08, memory_bandwidth: 6.4GB/s,
  host_bandwidth: 6.4GB/s, units: 1}
node:
  devices: %d
  vertices: {socket: socket0}
  links:
    - {between: [%s, socket0], kind: socket, bandwidth: 6.4GB/s}
"""
LLAMA = ["llama3.2-1b", "layers=2", "hidden=32", "heads=4", "kv_heads=2", "ffn=64", "seq=16", "vocab=64"]
GPT = ["gpt2", "layers=2", "hidden=32", "heads=4", "seq=16", "vocab=64", "dropout=0"]
CASES = [(LLAMA, 1, ""), (LLAMA, 2, "--tp 2"), (LLAMA, 4, "--tp 2 --sp --zero 3 --recompute full"),
         (GPT, 1, ""), (GPT, 2, "--tp 2 --sp")]
TOLERANCE = 2e-4  # of losses that are printed to four digits


def losses(weft, python, folder, case):
    (name, *options), devices, degrees = case
    cluster = folder / f"{devices}.yaml"
    cluster.write_text(CLUSTER % (devices, "dev0" if devices == 1 else f"dev0..dev{devices - 1}"))
    script = folder / "train.py"
    asked = [weft, "export", name, str(cluster), "--dtype", "fp32", "--microbatch", "1", "--global-batch", "4",
             "--to", "dtensor", "--nearest", "-o", str(script), *degrees.split()]
    for option in options:
        asked += ["--set", option]
    made = subprocess.run(asked, capture_output=True, text=True)
    if made.returncode:
        sys.exit(f"{' '.join(asked)}: {made.stderr}")
    ran = subprocess.run([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(devices),
                          str(script), "--device", "cpu", "--steps", "3", "--lr", "0.01"],
                         capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if ran.returncode:
        sys.exit(f"{name} {degrees}: {ran.stderr[-2000:]}")
    return [float(loss) for loss in re.findall(r"loss ([0-9.]+)", ran.stdout)]


def main():
    weft, python = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else sys.executable
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
        sys.exit(77)
    alone = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            found = losses(weft, python, pathlib.Path(folder), case)
            first = alone.setdefault(case[0][0], found)
            if len(found) != 3 or any(abs(a - b) > TOLERANCE for a, b in zip(found, first)):
                sys.exit(f"{case[0][0]} {case[2]}: losses {found}, alone {first}")
            print(f"{case[0][0]} on {case[1]} {case[2]}: {found}")


if __name__ == "__main__":
    main()
