#!/usr/bin/env python3
"""What Fold3D's text says of its Figures 7 to 13, beside predictions.

    bench/fold3d_figures.py WEFT [7 8 9 10 11 12 13]

The figures print no numbers; the text of sections 6.1 to 6.3 prints some, and says in words what the others show. Each line is a
statement of that text, the prediction, and whether it holds: a gain in percent holds within 8 points, as the printed components
of a table within 8 %. Systems run as the text says: GPT-3 39B, whole layers recomputed, micro-batches of 4, sequence parallelism in
all of them (sections 1 and 6); Fold3D offloads checkpoints; Megatron-SP has 2 pieces per stage, which are not printed.

    I1  A gain is how much more a device computes per second: time of the other system over that of Fold3D, less 1.
    I2  Degrees that the text does not print are named in the line that assumes them.
    I3  Figure 12a and 12c are about loss curves, which no simulation has. The 48.2 and 27.2 % over DeepSpeed ZeRO-3 of Figure 12b
        are left out: at the same batch of 256, Table 2 prints 18.0 s for ZeRO-3 and 5.36 s for Fold3D, a gain of 236 %.
    I4  Fold3D finds its number of segments itself (section 4); here the best of 2 to 4 is taken, which it says were best mostly.
"""
import argparse
import json
import subprocess

COMMON = ["--micro-batch", "4", "--recompute", "full", "--dtype", "fp16", "--policy", "mixed", "--bucket", "whole"]
MODEL = {
    "39B": ["gpt3-39b", "--set", "seq=1024", "--set", "vocab=51200", "--set", "attention=fused"],
    "18B": ["gpt3-18b", "--set", "seq=1024"],
    "14B": ["gpt3-14b", "--set", "seq=1024"],
    "81B": ["gpt3-81b", "--set", "seq=1024", "--set", "vocab=51200", "--set", "attention=fused"],
}
FOLD3D, MEGATRON, DEEPSPEED = "Fold3D", "Megatron-SP", "DeepSpeed-3D"
WITHIN = 8  # points of a gain
SEGMENTS = (2, 3, 4)


def flags(system, pp, segments):
    if system == FOLD3D:
        return ["--segments", str(segments), "--schedule", "aiao", "--sp", "--offload"] if pp > 1 or segments > 1 else ["--sp"]
    if system == MEGATRON and pp > 1:
        return ["--virtual", "2", "--sp", "--overlap", "pipeline,tensor"]
    return ["--sp", "--overlap", "none" if system == DEEPSPEED else "pipeline,tensor"]


class Predictions:
    """Iteration times in seconds; None where no plan can be made or it does not fit."""

    def __init__(self, weft):
        self.weft = weft

    def seconds(self, system, model="39B", nodes=16, dp=4, pp=4, tp=8, batch=256, segments=4, network=1.0, cluster="fold3d-a100"):
        name, *options = MODEL[model]
        command = [self.weft, "simulate", name, f"{cluster}:{nodes}", *options, *COMMON, "--dp", str(dp), "--pp", str(pp),
                   "--tp", str(tp), "--global-batch", str(batch), *flags(system, pp, segments), "--json"]
        if network != 1:
            command += ["--what-if", f"network={network:g}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.stdout:
            return None
        return json.loads(done.stdout)["iteration_s"]

    def best(self, **case):
        """Fold3D with the segments that are best (I4)."""
        times = [self.seconds(FOLD3D, segments=n, **case) for n in SEGMENTS]
        return min((t for t in times if t is not None), default=None)

    def gain(self, over, **case):
        """In percent (I1)."""
        ours, theirs = self.best(**case), self.seconds(over, **case)
        return None if ours is None or theirs is None else 100 * (theirs / ours - 1)


def say(figure, statement, predicted, holds):
    print(f"Fig. {figure:<4} {statement:<72} {predicted:<44} {'holds' if holds else 'differs'}", flush=True)


def say_gain(figure, statement, gain, least, most):
    holds = gain is not None and least - WITHIN <= gain <= most + WITHIN
    say(figure, statement, "no plan" if gain is None else f"{gain:.1f} %", holds)


def figure_7(p):
    for model, nodes, dp, pp, batch in (("18B", 8, 4, 2, 128), ("39B", 16, 4, 4, 256), ("81B", 32, 4, 8, 512)):
        gain = p.gain(MEGATRON, model=model, nodes=nodes, dp=dp, pp=pp, batch=batch)
        assumed = f"(assumed: dp {dp}, pp {pp}, batch {batch})"
        say_gain("7", f"about 31 % over Megatron-SP, {model} on {8 * nodes} {assumed}", gain, 31, 31)


def best(times):
    known = {k: v for k, v in times.items() if v is not None}
    return min(known, key=known.get) if known else None


def listed(times):
    return ", ".join(f"{k}: {v:.1f} s" if v else f"{k}: none" for k, v in times.items())


def figure_8(p):
    for cluster, nodes, batch in (("fold3d-a100", 16, 256), ("fold3d-v100", 8, 128)):
        times = {pp: p.best(cluster=cluster, nodes=nodes, batch=batch, pp=pp, dp=nodes // pp) for pp in (2, 4, 8, 16) if pp <= nodes}
        say("8", f"neither pp nor dp is largest at the best pp, tp 8, {8 * nodes} {cluster[-4:].upper()}", listed(times),
            2 < best(times) < nodes)


def figure_9(p):
    for cluster, dp, batch in (("fold3d-a100", 4, 256), ("fold3d-v100", 2, 128)):
        nodes = 4 * dp
        times = {tp: p.best(cluster=cluster, nodes=nodes, batch=batch, dp=dp, tp=tp, pp=32 // tp) for tp in (4, 8, 16)}
        say("9", f"tp rather than pp within a host, dp {dp}, {8 * nodes} {cluster[-4:].upper()}: best tp 8", listed(times),
            best(times) == 8)


def figure_10(p):
    for cluster, nodes, batch in (("fold3d-a100", 16, 256), ("fold3d-v100", 8, 128)):
        times = {tp: p.best(cluster=cluster, nodes=nodes, batch=batch, tp=tp, dp=2 * nodes // tp) for tp in (2, 4, 8)}
        say("10", f"tp rather than dp within a host, pp 4, {8 * nodes} {cluster[-4:].upper()}: best tp 8", listed(times),
            best(times) == 8)


def figure_11(p):
    for model, dp, pp in (("39B", 4, 4), ("14B", 8, 2)):
        counts = [n for n in (1, 2, 3, 4, 6) if (48 if model == "39B" else 32) % (n * pp) == 0]
        times = {n: p.seconds(FOLD3D, model=model, dp=dp, pp=pp, segments=n) for n in counts}
        say("11", f"2 to 4 segments are best, {model} on 128 A100", listed(times), best(times) in (2, 3, 4))


def figure_12(p):
    for batch, printed in ((256, 31.5), (1024, 10.7)):
        say_gain("12b", f"{printed} % over Megatron-SP with a batch of {batch}", p.gain(MEGATRON, batch=batch), printed, printed)


def figure_13(p):
    for over, least, most in ((MEGATRON, 30.4, 36.7), (DEEPSPEED, 38.2, 45.6)):
        for gbits, batch in ((25, 1024), (40, 1024), (100, 512), (200, 256)):
            gain = p.gain(over, batch=batch, network=gbits / 200)
            say_gain("13", f"{least} to {most} % over {over} with {gbits} Gb/s and a batch of {batch}", gain, least, most)


FIGURES = {7: figure_7, 8: figure_8, 9: figure_9, 10: figure_10, 11: figure_11, 12: figure_12, 13: figure_13}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weft")
    parser.add_argument("figures", nargs="*", type=int, choices=[[], *FIGURES], default=[])
    arguments = parser.parse_args()
    for number in arguments.figures or FIGURES:
        FIGURES[number](Predictions(arguments.weft))


if __name__ == "__main__":
    main()
