#!/usr/bin/env python3
"""check-dtensor.py WEFT [PYTHON] - runs scripts of `weft export --to dtensor` on processors: with tensor parallelism, sequence
parallelism and replicas, and with a split of its own for every operator, their losses are those of one process. PYTHON has torch (default: this one); without it nothing is
checked, and the exit code is 77."""
import json
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

# Plans whose layers are split otherwise than each other and than what stands around them: for four devices, as AutoDDL mixes samples,
# features, heads and positions. A word for what stands around the layers and one for each layer; see ROLES.
MIXED = [(GPT, 2, "T batch T"), (GPT, 4, "batch.T T.batch batch.batch"), (LLAMA, 4, "T.batch batch.T batch.batch")]
ROLES = {"embedding": "vocab", "loss": "vocab", "head": "out", "norm": "copy",
         "attn.norm": "seq", "attn.qkv": "out", "attn.rotary": "hidden", "attn.attention": "head", "attn.proj": "in",
         "attn.dropout_add": "seq", "attn.add": "seq", "mlp.norm": "copy", "mlp.up": "out", "mlp.gate_up": "out",
         "mlp.gelu": "hidden", "mlp.gated": "hidden", "mlp.down": "in", "mlp.dropout_add": "copy", "mlp.add": "copy"}


def asked(command):
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        sys.exit(f"{' '.join(command)}: {made.stderr}")


def mixed_split(word, role, devices):
    parts = [role if part == "T" else part for part in word.split(".")]
    return " ".join(f"{part}:{4 // len(parts) if devices == 4 else devices}" for part in parts).replace("batch:2 batch:2", "batch:4")


def mix(plan, words, devices):
    """Gives each operator of a plan file the split that `words` say."""
    around, *layers = words.split()
    made = json.loads(plan.read_text())
    made["choices"] = [{"split": mixed_split(around, ROLES[name], devices), "at": [name]}
                       for name in ("embedding", "norm", "head", "loss")]
    made["batch"] = {"global": 8, "step": 4}
    for i, word in enumerate(layers):
        names = [at.split(".", 2)[2] for choice in json.loads(plan.read_text())["choices"] for at in choice["at"]
                 if at.startswith("layers.")]
        made["choices"] += [{"split": mixed_split(word, ROLES[name], devices), "recompute": i == 1, "at": [f"layers.{i}.{name}"]}
                            for name in names]
    plan.write_text(json.dumps(made))


def losses(weft, python, folder, case, words=""):
    (name, *options), devices, degrees = case
    cluster = folder / f"{devices}.yaml"
    cluster.write_text(CLUSTER % (devices, "dev0" if devices == 1 else f"dev0..dev{devices - 1}"))
    script, plan = folder / "train.py", folder / "plan.json"
    model = [name, str(cluster), *(word for option in options for word in ("--set", option))]
    asked([weft, "show", *model, "--dtype", "fp32", "--microbatch", "1", "--global-batch", "8", "-o", str(plan),
           *degrees.split()])
    if words:
        mix(plan, words, devices)
    asked([weft, "export", str(plan), "--to", "dtensor", *([] if words else ["--nearest"]), "-o", str(script)])
    ran = subprocess.run([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(devices),
                          str(script), "--device", "cpu", "--steps", "3", "--lr", "0.01"],
                         capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if ran.returncode:
        sys.exit(f"{name} {degrees}{words}: {ran.stderr[-2000:]}")
    return [float(loss) for loss in re.findall(r"loss ([0-9.]+)", ran.stdout)]


def main():
    weft, python = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else sys.executable
    if subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
        sys.exit(77)
    alone = {}
    with tempfile.TemporaryDirectory() as folder:
        for model, devices, degrees, words in [*((*case, "") for case in CASES), *((*case[:2], "", case[2]) for case in MIXED)]:
            found = losses(weft, python, pathlib.Path(folder), (model, devices, degrees), words)
            first = alone.setdefault(model[0], found)
            if len(found) != 3 or any(abs(a - b) > TOLERANCE for a, b in zip(found, first)):
                sys.exit(f"{model[0]} {degrees}{words}: losses {found}, alone {first}")
            print(f"{model[0]} on {devices} {degrees}{words}: {found}", flush=True)


if __name__ == "__main__":
    main()
