"""Weft from Python: plans and simulates the parallel training of neural networks.

    import weft
    plan = weft.find(model="gpt3-13b", cluster="dgx-a100:4", global_batch=64)
    print(plan.simulate().iteration_s)

Over libweft.so by ctypes, with nothing but the standard library. What goes wrong is a weft.Error with the message,
the hint and the status. In a notebook plans, predictions and comparisons draw themselves.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Optional, Union, cast

from . import _draw
from ._library import BAD_INPUT, FAILURE, NO_ANSWER, OK, Error, Handle, library

__all__ = ["Error", "Model", "Cluster", "Plan", "Prediction", "Comparison", "find", "compare", "version",
           "OK", "NO_ANSWER", "BAD_INPUT", "FAILURE"]

Path = Union[str, "os.PathLike[str]"]


class Model(Handle):
    """A preset ("gpt3-13b"), a model file, a Hugging Face config.json, or an ONNX file."""

    _close = "weft_model_close"

    def __init__(self, name: Path) -> None:
        self.name = os.fspath(name)
        self._take(self._opened("weft_model_open", os.fsencode(name)))

    @property
    def parameters(self) -> float:
        return cast(float, library.weft_model_parameters(self._pointer))

    @property
    def flops_per_sample(self) -> float:
        """Of the matrix products of a forward pass."""
        return cast(float, library.weft_model_flops_per_sample(self._pointer))

    def __repr__(self) -> str:
        return f"<weft.Model {self.name}: {_draw.count(self.parameters)} parameters>"


class Cluster(Handle):
    """A preset with a number of nodes ("dgx-a100:16"), a cluster file, or an NCCL topology."""

    _close = "weft_cluster_close"

    def __init__(self, name: Path) -> None:
        self.name = os.fspath(name)
        self._take(self._opened("weft_cluster_open", os.fsencode(name)))

    @property
    def devices(self) -> int:
        return cast(int, library.weft_cluster_devices(self._pointer))

    def __repr__(self) -> str:
        return f"<weft.Cluster {self.name}: {_draw.counted(self.devices, 'device')}>"


class Prediction(Handle):
    """What a plan takes; `details` are the fields of `weft simulate --json` (docs/reference/json.md)."""

    _close = "weft_prediction_close"

    @property
    def iteration_s(self) -> float:
        return cast(float, library.weft_prediction_iteration_s(self._pointer))

    @property
    def samples_per_s(self) -> float:
        return cast(float, library.weft_prediction_samples_per_s(self._pointer))

    @property
    def tflops_per_device(self) -> float:
        """Of the model, without recomputation."""
        return cast(float, library.weft_prediction_tflops_per_device(self._pointer))

    @property
    def fits(self) -> bool:
        return bool(library.weft_prediction_fits(self._pointer))

    @property
    def peak_bytes(self) -> int:
        """Allocated on the fullest device."""
        return cast(int, library.weft_prediction_peak_bytes(self._pointer))

    @property
    def details(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(library.weft_prediction_json(self._pointer)))

    @property
    def breakdown(self) -> dict[str, float]:
        """Seconds of an iteration by what they are for, on the busiest stage."""
        return cast("dict[str, float]", self.details["breakdown"])

    @property
    def interval_s(self) -> Optional[tuple[float, float]]:
        """Between which times eight of ten runs like this one lie; None: too few are known."""
        found = self.details.get("interval")
        return (found["low_s"], found["high_s"]) if found else None

    def __repr__(self) -> str:
        return (f"<weft.Prediction {_draw.duration(self.iteration_s)} an iteration, "
                f"{'fits' if self.fits else 'does not fit'}>")

    def _repr_svg_(self) -> str:
        return _draw.bar(self.breakdown, self.iteration_s)

    def _repr_html_(self) -> str:
        told = self.details
        parts = {name: value for name, value in told["breakdown"].items() if value > 0}
        text = (f"{told['model']} on {_draw.counted(told['devices'], 'device')}: {_draw.duration(self.iteration_s)} an iteration, "
                f"{_draw.count(self.samples_per_s)} samples/s, {_draw.digits(self.tflops_per_device)} TFLOP/s per device")
        return "".join((_draw.heading(text), _draw.bar(parts, self.iteration_s), "<br>", _draw.legend(parts),
                        _memory_table(told["memory"])))


_HELD = ("weights", "gradients", "optimizer", "activations", "workspace")
_BESIDES = ("communicators", "context", "margin")


def _memory_table(stages: list[dict[str, Any]]) -> str:
    """A bar for each stage: what is held at its peak, and what the device needs besides, against its memory."""
    most = max(max(stage["needed"], stage["limit"]) for stage in stages)
    rows = []
    for stage in stages:
        parts = {name: float(stage[name]) for name in _HELD}
        parts["fragments"] = float(stage["reserved"] - stage["peak"])
        parts.update({name: float(stage[name]) for name in _BESIDES})
        rows.append((str(stage["stage"]), _draw.bar(parts, most, stage["limit"]),
                     f"{_draw.gibibytes(stage['needed'])} of {_draw.gibibytes(stage['limit'])}"))
    return _draw.table(("stage", "memory", ""), rows) + _draw.legend((*_HELD, "fragments", *_BESIDES))


class Plan(Handle):
    """How a model is laid over a cluster: Plan.open(path), Plan.read(text or dict), or weft.find."""

    _close = "weft_plan_close"

    @classmethod
    def open(cls, path: Path) -> Plan:
        return cls._opened("weft_plan_open", os.fsencode(path))

    @classmethod
    def read(cls, plan: Union[str, Mapping[str, Any]]) -> Plan:
        text = plan if isinstance(plan, str) else json.dumps(plan)
        return cls._opened("weft_plan_read", text.encode())

    @property
    def text(self) -> str:
        """The plan as a plan file."""
        return cast(bytes, library.weft_plan_text(self._pointer)).decode()

    @property
    def fields(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self.text))

    def save(self, path: Path) -> None:
        pathlib.Path(path).write_text(self.text, encoding="utf-8")

    def simulate(self) -> Prediction:
        return Prediction._opened("weft_simulate", self._pointer)

    def __repr__(self) -> str:
        fields = self.fields
        return f"<weft.Plan {fields['model']} on {fields['cluster']}: {_words(fields)}>"

    def _repr_html_(self) -> str:
        fields = self.fields
        rows = [(key, _value(value)) for key, value in fields.items() if key not in ("stages", "choices")]
        if "stages" in fields:
            rows.append(("stages", _words(fields)))
        return _draw.heading(f"{fields['model']} on {fields['cluster']}") + _draw.table(("field", "value"), rows)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(each)}" for key, each in value.items())
    return str(value)


def _words(fields: Mapping[str, Any]) -> str:
    """Its degrees, or the devices of its stages."""
    if "degrees" in fields:
        return _value(fields["degrees"])
    stages = fields.get("stages", [])
    each = [stage["devices"] for stage in stages]
    few = ", ".join(str(number) for number in each[:-1])
    last = _draw.counted(each[-1], "device") if each else "no devices"
    return f"{_draw.counted(len(each), 'stage')} of {few + ' and ' if few else ''}{last}"


class Comparison:
    """Predictions side by side, in the order given."""

    def __init__(self, predictions: Mapping[str, Prediction]) -> None:
        self.predictions = dict(predictions)

    @property
    def best(self) -> Optional[str]:
        """The name of the fastest that fits; None: none does. Plans of different batches are compared by sample."""
        fitting = {name: one.samples_per_s for name, one in self.predictions.items() if one.fits}
        return max(fitting, key=lambda name: fitting[name]) if fitting else None

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {_draw.duration(one.iteration_s)}, {_draw.count(one.samples_per_s)} samples/s, "
                         f"{'fits' if one.fits else 'does not fit'}" for name, one in self.predictions.items())

    def _repr_html_(self) -> str:
        most = max((one.iteration_s for one in self.predictions.values()), default=0.0)
        used: dict[str, None] = {}
        rows = []
        for name, one in self.predictions.items():
            parts = {key: value for key, value in one.breakdown.items() if value > 0}
            used.update(dict.fromkeys(parts))
            rows.append((name, _draw.bar(parts, most), _draw.duration(one.iteration_s), _draw.count(one.samples_per_s),
                         _draw.gibibytes(one.peak_bytes), "fits" if one.fits else "does not fit"))
        return _draw.table(("plan", "where time goes", "iteration", "samples/s", "peak", ""), rows) + _draw.legend(used)


def compare(plans: Mapping[str, Union[Plan, Prediction]]) -> Comparison:
    """Simulates plans, by their names, and lays them side by side."""
    return Comparison({name: one.simulate() if isinstance(one, Plan) else one for name, one in plans.items()})


def find(model: Path, cluster: Path, global_batch: int, planner: Optional[str] = None,
         options: Optional[Mapping[str, Any]] = None, degrees: Optional[Mapping[str, Any]] = None,
         **more: Any) -> Plan:
    """The best plan. `degrees` are what stays as it is, {"tp": 8}; `options` change the model, {"seq": 4096};
    further keywords are those of a plan file: dtype, policy, memory, overlap, bucket."""
    batch: dict[str, Any] = {"global": global_batch}
    question: dict[str, Any] = {"model": os.fspath(model), "cluster": os.fspath(cluster), "batch": batch, **more}
    if options:
        question["options"] = dict(options)
    if degrees:
        question["degrees"] = {key: value for key, value in degrees.items() if key != "micro"}
        if "micro" in degrees:
            batch["micro"] = degrees["micro"]
    name = planner.encode() if planner else None
    return Plan._opened("weft_plan_find", json.dumps(question).encode(), name)


def version() -> str:
    return cast(bytes, library.weft_version()).decode()
