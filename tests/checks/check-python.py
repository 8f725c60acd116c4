#!/usr/bin/env python3
"""The Python binding, with Debian's python3 and the library that was just built.

    check-python.py SOURCE LIBRARY WEFT
"""
import json
import os
import subprocess
import sys
from xml.etree import ElementTree

source, library, program = sys.argv[1:4]
os.environ["WEFT_LIBRARY"] = library
sys.path.insert(0, os.path.join(source, "python"))
import weft  # noqa: E402


def closed(text):
    return text.replace("<br>", "<br/>")


def simulated(arguments):
    return json.loads(subprocess.run([program, *arguments, "--json"], check=True, capture_output=True).stdout)


def refused(call, status, *words):
    try:
        call()
    except weft.Error as error:
        assert error.status == status, error.status
        assert all(word in str(error) for word in words), str(error)
        return error
    raise AssertionError("nothing was refused")


assert subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout == f"weft {weft.version()}\n"
assert 12.5e9 < weft.Model("gpt3-13b").parameters < 13.5e9
assert weft.Cluster("dgx-a100:4").devices == 32

# A plan says what the program says of the same one.
plan = weft.Plan.open(os.path.join(source, "data/plans/gpt3-13b.yaml"))
prediction = plan.simulate()
told = simulated(["simulate", os.path.join(source, "data/plans/gpt3-13b.yaml")])
assert abs(prediction.iteration_s - told["iteration_s"]) < 1e-9
assert prediction.details["memory"] == told["memory"]
assert prediction.fits == told["fits"]
assert prediction.peak_bytes == max(stage["peak"] for stage in told["memory"])
again = weft.Plan.read(plan.fields)
assert again.text == plan.text
del plan, again
assert prediction.samples_per_s > 0 and prediction.tflops_per_device > 0  # outlives its plan

# A search finds what the program finds; what is given stays.
small = {"layers": 4, "seq": 512}
found = weft.find("gpt3-1.3b", "dgx-a100:1", 16, planner="megatron", options=small, degrees={"tp": 2, "micro": 2})
told = simulated(["plan", "gpt3-1.3b", "dgx-a100:1", "--set", "layers=4", "--seq", "512", "--global-batch", "16",
                  "--planner", "megatron", "--tp", "2", "--microbatch", "2"])
assert abs(found.simulate().iteration_s - told["iteration_s"]) < 1e-9
assert found.fields == told["plan"]

refused(lambda: weft.Model("gpt3-13x"), 2, "gpt3-13x")
refused(lambda: weft.Plan.read("model: gpt3-13b"), 2, "cluster")
refused(lambda: weft.Plan.read({"model": "gpt3-13b", "cluster": "dgx-a100:4", "degrees": {"tp": 7}}), 2, "tp")
refused(lambda: weft.find("gpt3-1.3b", "dgx-a100:1", 16, planner="nobody"), 2, "no planner is called 'nobody'")
refused(lambda: weft.find("gpt3-1.3b", "dgx-a100:1", 16, stages=[]), 2, "that is for the planner to find")
miss = refused(lambda: weft.find("gpt3-13b", "dgx-a100:1", 8, planner="megatron", memory="2GiB"), 1, "nothing fits")
assert not miss.plan.simulate().fits

# In a notebook: what is drawn is well formed, its bar is as wide as the iteration is long, and text stays text.
plan = weft.Plan.open(os.path.join(source, "data/plans/gpt3-13b.yaml"))
both = weft.compare({"<b>": plan, "again": plan.simulate()})
for drawn in (plan, both.predictions["again"], both):
    root = ElementTree.fromstring(f"<div>{closed(drawn._repr_html_())}</div>")
    assert root.find(".//table") is not None and root.find(".//script") is None
bar = ElementTree.fromstring(both.predictions["again"]._repr_svg_())
widths = sum(float(part.get("width")) for part in bar if part.tag.endswith("rect"))
assert abs(widths - float(bar.get("width"))) < 1, widths
assert "<b>" not in both._repr_html_() and "&lt;b&gt;" in both._repr_html_()
assert both.best in both.predictions
full = {"model": "gpt3-13b", "cluster": "dgx-a100:4", "batch": {"global": 64}, "degrees": {"tp": 4}}
chosen = weft.compare({"full": weft.Plan.read({**full, "memory": "8GiB"}), "slow": weft.Plan.read({**full, "degrees": {"tp": 8, "pp": 4}})})
assert [one.fits for one in chosen.predictions.values()] == [False, True]
assert chosen.predictions["full"].samples_per_s > chosen.predictions["slow"].samples_per_s and chosen.best == "slow"
low, high = both.predictions["again"].interval_s
assert low < high
assert "13b" in repr(plan) and "fits" in repr(both)
assert "2 stages of 16 and 16 devices" in repr(plan), repr(plan)
assert "1 device>" in repr(weft.Cluster("piz-daint:1"))
assert (weft._draw.duration(1234.6), weft._draw.count(12.345e3), weft._draw.count(999.7)) == ("1235 s", "12.3 K", "1000")
