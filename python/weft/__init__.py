"""Weft from Python: plans and simulates the parallel training of neural networks.

    import weft
    plan = weft.find(model="gpt3-13b", cluster="dgx-a100:4", global_batch=64)
    print(plan.simulate().iteration_s)

One file over libweft.so by ctypes, with nothing but the standard library. The shared library is looked
for where WEFT_LIBRARY says, in the folders above this file (an installation, a build), then where the
system keeps libraries. What goes wrong is a weft.Error with the message, the hint and the status.
"""

import ctypes
import ctypes.util
import json
import os
import pathlib

__all__ = ["Error", "Model", "Cluster", "Plan", "Prediction", "find", "version"]

OK, NO_ANSWER, BAD_INPUT, FAILURE = range(4)


class _LastError(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char_p), ("hint", ctypes.c_char_p)]


class Error(Exception):
    """What Weft says is wrong; `hint` says what to do about it. When nothing fits, `plan` is the nearest miss."""

    def __init__(self, status, message, hint, plan=None):
        super().__init__(f"{message} ({hint})" if hint else message)
        self.status, self.message, self.hint, self.plan = status, message, hint, plan


def _library_path():
    named = os.environ.get("WEFT_LIBRARY")
    if named:
        return named
    for folder in pathlib.Path(__file__).resolve().parents[:4]:
        for place in (folder, folder / "build", folder / "lib"):
            if (place / "libweft.so").exists():
                return str(place / "libweft.so")
    found = ctypes.util.find_library("weft")
    if not found:
        raise ImportError("libweft.so was not found: build Weft, or set WEFT_LIBRARY to its path")
    return found


_HANDLE, _OUT = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
_TEXT, _REAL, _COUNT, _FLAG = ctypes.c_char_p, ctypes.c_double, ctypes.c_int64, ctypes.c_int
# The functions of weft.h: result, arguments.
_FUNCTIONS = {
    "weft_version": (_TEXT, ()),
    "weft_last_error": (ctypes.POINTER(_LastError), ()),
    "weft_model_open": (_FLAG, (_TEXT, _OUT)),
    "weft_model_close": (None, (_HANDLE,)),
    "weft_model_parameters": (_REAL, (_HANDLE,)),
    "weft_model_flops_per_sample": (_REAL, (_HANDLE,)),
    "weft_cluster_open": (_FLAG, (_TEXT, _OUT)),
    "weft_cluster_close": (None, (_HANDLE,)),
    "weft_cluster_devices": (_COUNT, (_HANDLE,)),
    "weft_plan_find": (_FLAG, (_TEXT, _TEXT, _OUT)),
    "weft_plan_open": (_FLAG, (_TEXT, _OUT)),
    "weft_plan_read": (_FLAG, (_TEXT, _OUT)),
    "weft_plan_close": (None, (_HANDLE,)),
    "weft_plan_text": (_TEXT, (_HANDLE,)),
    "weft_simulate": (_FLAG, (_HANDLE, _OUT)),
    "weft_prediction_close": (None, (_HANDLE,)),
    "weft_prediction_iteration_s": (_REAL, (_HANDLE,)),
    "weft_prediction_samples_per_s": (_REAL, (_HANDLE,)),
    "weft_prediction_tflops_per_device": (_REAL, (_HANDLE,)),
    "weft_prediction_fits": (_FLAG, (_HANDLE,)),
    "weft_prediction_peak_bytes": (_COUNT, (_HANDLE,)),
    "weft_prediction_json": (_TEXT, (_HANDLE,)),
}


def _load():
    library = ctypes.CDLL(_library_path())
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_weft = _load()


def _error(status, plan=None):
    last = _weft.weft_last_error().contents
    hint = last.hint.decode() if last.hint else None
    return Error(status, (last.message or b"unknown error").decode(), hint, plan)


class _Handle:
    """Something that the library opened and closes with this object."""

    _close = None  # the function's name

    def __init__(self, pointer):
        self._pointer = pointer

    @classmethod
    def _opened(cls, function, *arguments):
        out = ctypes.c_void_p()
        status = getattr(_weft, function)(*arguments, ctypes.byref(out))
        if status != OK:
            raise _error(status, cls(out) if out else None)
        return cls(out)

    def __del__(self):
        if getattr(self, "_pointer", None):
            getattr(_weft, self._close)(self._pointer)
            self._pointer = None


class Model(_Handle):
    """A preset ("gpt3-13b"), a model file, a Hugging Face config.json, or an ONNX file."""

    _close = "weft_model_close"

    def __init__(self, name):
        if isinstance(name, ctypes.c_void_p):
            super().__init__(name)
        else:
            opened = self._opened("weft_model_open", os.fsencode(name))
            super().__init__(opened._pointer)
            opened._pointer = None

    @property
    def parameters(self):
        return _weft.weft_model_parameters(self._pointer)

    @property
    def flops_per_sample(self):
        return _weft.weft_model_flops_per_sample(self._pointer)


class Cluster(_Handle):
    """A preset with a number of nodes ("dgx-a100:16"), a cluster file, or an NCCL topology."""

    _close = "weft_cluster_close"

    def __init__(self, name):
        if isinstance(name, ctypes.c_void_p):
            super().__init__(name)
        else:
            opened = self._opened("weft_cluster_open", os.fsencode(name))
            super().__init__(opened._pointer)
            opened._pointer = None

    @property
    def devices(self):
        return _weft.weft_cluster_devices(self._pointer)


class Prediction(_Handle):
    """What a plan takes; `details` are the fields of `weft simulate --json`."""

    _close = "weft_prediction_close"

    @property
    def iteration_s(self):
        return _weft.weft_prediction_iteration_s(self._pointer)

    @property
    def samples_per_s(self):
        return _weft.weft_prediction_samples_per_s(self._pointer)

    @property
    def tflops_per_device(self):
        return _weft.weft_prediction_tflops_per_device(self._pointer)

    @property
    def fits(self):
        return bool(_weft.weft_prediction_fits(self._pointer))

    @property
    def peak_bytes(self):
        return _weft.weft_prediction_peak_bytes(self._pointer)

    @property
    def details(self):
        return json.loads(_weft.weft_prediction_json(self._pointer))


class Plan(_Handle):
    """How a model is laid over a cluster: Plan.open(path), Plan.read(text or dict), or weft.find."""

    _close = "weft_plan_close"

    @classmethod
    def open(cls, path):
        return cls._opened("weft_plan_open", os.fsencode(path))

    @classmethod
    def read(cls, plan):
        text = plan if isinstance(plan, str) else json.dumps(plan)
        return cls._opened("weft_plan_read", text.encode())

    @property
    def text(self):
        """The plan as a plan file."""
        return _weft.weft_plan_text(self._pointer).decode()

    @property
    def fields(self):
        return json.loads(self.text)

    def save(self, path):
        pathlib.Path(path).write_text(self.text, encoding="utf-8")

    def simulate(self):
        return Prediction._opened("weft_simulate", self._pointer)


def find(model, cluster, global_batch, planner=None, options=None, degrees=None, **more):
    """The best plan. `degrees` are what stays as it is, {"tp": 8}; `options` change the model, {"seq": 4096};
    further keywords are those of a plan file: dtype, policy, memory, overlap, bucket."""
    question = {"model": os.fspath(model), "cluster": os.fspath(cluster), "batch": {"global": global_batch}, **more}
    if options:
        question["options"] = options
    if degrees:
        question["degrees"] = {key: value for key, value in degrees.items() if key != "micro"}
        if "micro" in degrees:
            question["batch"]["micro"] = degrees["micro"]
    name = planner.encode() if planner else None
    return Plan._opened("weft_plan_find", json.dumps(question).encode(), name)


def version():
    return _weft.weft_version().decode()
