#!/usr/bin/env python3
"""Prediction against a real GPU: step time and peak memory of `weft train --device cuda` beside `weft simulate`.

  bench/reality_gpu.py build/weft --cluster one-h200.yaml             30 models and plans on one GPU
  bench/reality_gpu.py build/weft --cluster one-h200.yaml --others    models of other families

Every row is predicted and trained twice: from the shipped data alone, and after `weft profile measure --device cuda` has measured
its kernels, by the algorithms of products that it chose. The median of the last steps counts; the first ones warm up. Prints the
table (`chosen`: how much quicker the second run is), and the means.
"""
import argparse
import json
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile

GPT = ["gpt2", "gpt3-350m", "gpt3-1.3b"]
LLAMA = [["llama3.2-1b"], ["llama3-8b", "--set", "layers=4"], ["llama3-8b", "--set", "layers=8"]]


def cases():
    """Model and flags: sequences of 512 to 4096, one to 32 samples, with and without recomputation."""
    rows = []
    for name in GPT:
        for seq, batch, micro in ((1024, 8, 8), (512, 16, 16), (1024, 16, 4), (2048, 4, 4)):
            rows.append(([name, "--seq", str(seq)], batch, micro, []))
        rows.append(([name, "--seq", "1024"], 16, 8, ["--recompute", "full"]))
    for model in LLAMA:
        for seq, batch, micro in ((2048, 4, 4), (1024, 8, 8), (4096, 2, 1), (512, 16, 16)):
            rows.append((model + ["--seq", str(seq)], batch, micro, []))
        rows.append((model + ["--seq", "2048"], 4, 2, ["--recompute", "full"]))
    return rows


def others():
    """Encoders, images, experts, scans, fp8: what a sample counts in the log of `train`, and what feeds it."""
    models = pathlib.Path(__file__).resolve().parent.parent / "data/models"
    return [
        (["bert-large"], 16, 16, [], 512, "text"), (["bert-large"], 32, 8, [], 512, "text"),
        (["t5-base"], 8, 8, [], 1024, "text"), (["t5-base"], 16, 4, ["--recompute", "full"], 1024, "text"),
        (["vit-base"], 64, 64, [], 1, "images"), (["resnet-50"], 32, 32, [], 1, "images"), (["resnet-50"], 128, 64, [], 1, "images"),
        (["gpt2", "--seq", "1024"], 16, 16, ["--dtype", "fp8"], 1024, "text"),
        (["llama3.2-1b", "--seq", "2048"], 4, 4, ["--dtype", "fp8"], 2048, "text"),
        ([str(models / "small-moe.yaml")], 4, 4, [], 2048, "text"), ([str(models / "small-hybrid.yaml")], 1, 1, [], 4096, "text"),
    ]


def write_images(path, count=256, pixels=3 * 224 * 224, classes=1000):
    """Records of an image's bytes and its label (docs/guide/training.md)."""
    draw = random.Random(1)
    with open(path, "wb") as file:
        file.write(b"WEFTRECS" + struct.pack("<IIQ", 1, 2, count) + struct.pack("<IIQ", 0, 0, pixels) + struct.pack("<IIQ", 2, 0, 1))
        for _ in range(count):
            file.write(draw.randbytes(pixels) + struct.pack("<i", draw.randrange(classes)))


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)
        self.database = str(self.folder / "gpu.sqlite")
        self.data = {"text": self.folder / "text.txt", "images": self.folder / "images.records"}
        self.data["text"].write_text("the quick brown fox jumps over the lazy dog\n" * 20000)
        if options.others:
            write_images(self.data["images"])

    def weft(self, *words):
        done = subprocess.run([self.options.weft, *words], capture_output=True, text=True, timeout=500, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-300:])
        return done.stdout

    def predict(self, plan, *more):
        answer = json.loads(self.weft("simulate", *plan, *more, "--json"))
        return answer["iteration_s"]

    def run(self, plan, data, *more):
        log = self.folder / "log.tsv"
        log.unlink(missing_ok=True)
        answer = json.loads(self.weft("train", *plan, "--device", "cuda", "--data", str(self.data[data]), "--steps",
                                      str(self.options.steps), "--log", str(log), "--rate", "0.0001", "--json", *more))
        lines = [line.split("\t") for line in log.read_text().splitlines()]
        at = lines[0].index("tokens_per_s")
        rates = [float(line[at]) for line in lines[1:]][self.options.steps // 2:]
        return statistics.median(rates), answer

    def row(self, model, batch, micro, flags, seq, data):
        dtype = [] if "--dtype" in flags else ["--dtype", "bf16"]
        plan = [model[0], self.options.cluster, *model[1:], *dtype, "--policy", "mixed-fp32-gradients",
                "--software", "weft-cuda", "--global-batch", str(batch), "--micro-batch", str(micro), *flags]
        before = self.predict(plan)
        rate, answer = self.run(plan, data)
        self.weft("profile", "measure", *plan, "--device", "cuda", "--db", self.database)
        after = self.predict(plan, "--profile", self.database)
        chosen, _ = self.run(plan, data, "--profile", self.database)
        took, took_chosen = batch * seq / rate, batch * seq / chosen
        held, predicted = (max(rank[key] for rank in answer["ranks"]) for key in ("peak", "predicted"))
        return took, before / took - 1, after / took_chosen - 1, held, predicted / held - 1, took / took_chosen - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--cluster", required=True, help="a cluster of one such GPU")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--most", type=int, default=1000, help="rows")
    parser.add_argument("--others", action="store_true", help="models of other families in place of the 30")
    options = parser.parse_args()
    errors, gains = [], []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        print("  measured    shipped   profiled     chosen       memory   predicted  plan")
        rows = others() if options.others else [(*row, int(row[0][row[0].index("--seq") + 1]), "text") for row in cases()]
        for model, batch, micro, flags, seq, data in rows[:options.most]:
            what = " ".join([pathlib.Path(model[0]).name, *model[1:], "batch", str(batch), "micro-batch", str(micro), *flags])
            try:
                took, before, after, held, memory, chosen = bench.row(model, batch, micro, flags, seq, data)
            except (RuntimeError, subprocess.TimeoutExpired, KeyError, TypeError) as error:
                print(f"failed: {what}: {error}", flush=True)
                continue
            errors.append((abs(before), abs(after), abs(memory)))
            gains.append(chosen)
            print(f"{1e3 * took:8.2f} ms {before:+10.1%} {after:+10.1%} {chosen:+10.1%} {held / 2**30:8.2f} GiB {memory:+10.1%}  {what}",
                  flush=True)
    for name, column in zip(("shipped data", "after measuring", "memory"), zip(*errors)):
        print(f"{name}: {statistics.mean(column):.1%} in the mean, {max(column):.1%} at worst, of {len(column)}")
    print(f"by measured algorithms of products: {statistics.mean(gains):+.1%} in the mean, {min(gains):+.1%} to {max(gains):+.1%}")


if __name__ == "__main__":
    main()
