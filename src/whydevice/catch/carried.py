"""An explanation that goes where an exception's frames cannot: to another thread, or another process.

torch hands the errors of DataLoader workers, DataParallel replicas and its pinning thread on as text
(`ExceptionWrapper`), and makes a new exception of it in the thread that waits. Pools of processes pickle the
exception. The explanation is made where the frames are, and travels beside the text as bytes, which load in
a process without whydevice too.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from types import TracebackType
from typing import Any

from .. import guard, messages
from ..types import Explanation
from .prune import linked

_MODULE = "torch._utils"
_OURS = "__whydevice__"
_TRACEBACK = BaseException.__dict__["__traceback__"]
_ARGS = BaseException.__dict__["args"]
_DICT = BaseException.__dict__["__dict__"]


class _Unpickler(pickle.Unpickler):
    """Makes the types of an explanation, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if module != Explanation.__module__:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of an explanation")
        return super().find_class(module, name)


def pack(explanation: Explanation) -> bytes:
    return pickle.dumps(explanation)


def unpack(data: object) -> Explanation | None:
    """The explanation in the bytes; None when they hold none, perhaps one of another version of ours."""
    if type(data) is not bytes:
        return None
    made, _ = guard.attempt(_Unpickler(io.BytesIO(data)).load)
    return made if isinstance(made, Explanation) else None


def find(exc: BaseException) -> Explanation | None:
    """The explanation that came with an exception, or with one that it was raised from."""
    for each in linked(exc, everything=False):
        found = unpack(_DICT.__get__(each).get(_OURS)) or _of_wrapper(each)
        if found is not None:
            return found
    return None


def install() -> None:
    """Explain what torch wraps, where it wraps it. torch is loaded by now."""
    wrapper: Any = getattr(sys.modules.get(_MODULE), "ExceptionWrapper", None)
    if wrapper is not None and not hasattr(wrapper.__init__, _OURS):
        wrapper.__init__ = _explaining(wrapper.__init__)


def uninstall() -> None:
    wrapper: Any = getattr(sys.modules.get(_MODULE), "ExceptionWrapper", None)
    previous = getattr(getattr(wrapper, "__init__", None), _OURS, None)
    if previous is not None:
        wrapper.__init__ = previous


def _explaining(init: Any) -> Any:
    """ExceptionWrapper's `__init__`, which is called where the error was caught."""

    @functools.wraps(init)
    def explaining(self: Any, exc_info: Any = None, *args: Any, **kwargs: Any) -> None:
        info = sys.exc_info() if exc_info is None else exc_info
        try:
            init(self, info, *args, **kwargs)
            guard.attempt(_load, self, info[1])
        finally:
            del exc_info, info

    setattr(explaining, _OURS, init)
    return explaining


def _load(wrapper: Any, exc: BaseException) -> None:
    explanation = guard.explain(exc)
    if explanation is not None:
        vars(wrapper)[_OURS] = pack(explanation)


def _of_wrapper(exc: BaseException) -> Explanation | None:
    """What the ExceptionWrapper brought that raised `exc`; the error is the one that it raised."""
    trace: TracebackType | None = _TRACEBACK.__get__(exc)
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_name != "reraise":
        return None
    wrapper = trace.tb_frame.f_locals.get("self")
    if type(wrapper) is not getattr(sys.modules.get(_MODULE), "ExceptionWrapper", None):
        return None
    explanation = unpack(vars(wrapper).get(_OURS))
    args = _ARGS.__get__(exc)
    if explanation is None or not args or type(args[0]) is not str:
        return explanation
    error = messages.read(type(exc).__name__, messages.own_text(args[0]))
    return explanation if error is None else explanation._replace(error=error)
