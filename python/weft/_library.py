"""libweft.so by ctypes: where it is, the functions of weft.h, errors, and what it opens and closes.

The shared library is looked for where WEFT_LIBRARY says, in this folder (a wheel), in the folders above it (an
installation, a build), then where the system keeps libraries.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
from typing import Any, ClassVar, Optional, TypeVar

OK, NO_ANSWER, BAD_INPUT, FAILURE = range(4)


class _LastError(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char_p), ("hint", ctypes.c_char_p)]


class Error(Exception):
    """What Weft says is wrong; `hint` says what to do about it. When nothing fits, `plan` is the nearest miss."""

    def __init__(self, status: int, message: str, hint: Optional[str], plan: Any = None) -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.status, self.message, self.hint, self.plan = status, message, hint, plan


def _library_path() -> str:
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
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
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


def _load() -> ctypes.CDLL:
    loaded = ctypes.CDLL(_library_path())
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


library = _load()


def _error(status: int, plan: Any = None) -> Error:
    last = library.weft_last_error().contents
    hint = last.hint.decode() if last.hint else None
    return Error(status, (last.message or b"unknown error").decode(), hint, plan)


_Own = TypeVar("_Own", bound="Handle")


class Handle:
    """Something that the library opened and closes with this object."""

    _close: ClassVar[str] = ""  # the function's name
    _pointer: Optional[ctypes.c_void_p] = None

    @classmethod
    def _of(cls: type[_Own], pointer: ctypes.c_void_p) -> _Own:
        made = cls.__new__(cls)
        made._pointer = pointer
        return made

    @classmethod
    def _opened(cls: type[_Own], function: str, *arguments: Any) -> _Own:
        out = ctypes.c_void_p()
        status: int = getattr(library, function)(*arguments, ctypes.byref(out))
        if status != OK:
            raise _error(status, cls._of(out) if out else None)
        return cls._of(out)

    def _take(self, other: Handle) -> None:
        """Takes over what another object opened."""
        self._pointer, other._pointer = other._pointer, None

    def __del__(self) -> None:
        if self._pointer:
            getattr(library, self._close)(self._pointer)
            self._pointer = None
