"""`--trace`: notes, while the script runs, the line of the user's that made each tensor or last moved it.

A function mode sees what Python calls on tensors; entered above the simulation, it sees the devices that the
simulation gives. What is noted is a file and a line, never a tensor: the entry goes when the tensor dies.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from . import values
from .libraries import is_library, is_ours

# id of a tensor -> (a weak reference that proves it is still that one, its device then, file, line)
_noted: dict[int, tuple[weakref.ref[Any], str, str, int]] = {}
_foreign: dict[str, bool] = {}


class Tracing(TorchFunctionMode):
    """Notes the results of torch's functions and of tensors' methods while it is entered."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if issubclass(type(out), tuple | list):  # also the named tuples of torch.max and its like
            for each in tuple.__iter__(out) if issubclass(type(out), tuple) else list.__iter__(out):
                _note(each)
        else:
            _note(out)
        return out


def _note(value: Any) -> None:
    if not issubclass(type(value), Tensor):
        return
    device = values.device_of(value) or ""
    key = id(value)
    before = _noted.get(key)
    if before is not None and before[0]() is value and before[1] == device:
        return
    place = _user_line()
    if place is not None:
        _noted[key] = (weakref.ref(value, lambda _: _noted.pop(key, None)), device, *place)


def _user_line() -> tuple[str, int] | None:
    frame = sys._getframe(3)
    while frame is not None:
        path = frame.f_code.co_filename
        if path not in _foreign:
            _foreign[path] = path.startswith("<") or is_ours(path) or is_library(path)
        if not _foreign[path]:
            return path, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None


def place_of(value: Any) -> tuple[str, int] | None:
    """(file, line) where a tensor was made or last moved, when that was noted.

    None for one that is elsewhere by now: a module's `.to()` moves its parameters in place, which is not seen here.
    """
    found = _noted.get(id(value))
    if found is None or found[0]() is not value or found[1] != values.device_of(value):
        return None
    return found[2], found[3]
