"""`install(everywhere=True)`: explain where an error leaves a module's call, as a note on the exception.

Many frameworks only ever print `traceback.format_exc()`, and some change the evidence before any hook
runs (Lightning moves the module back to the CPU). PyTorch runs a forward hook that is registered with
`always_call=True` on the way out of every module's call, with sys.exc_info() set; there the devices are
still true. The explanation becomes a note of the exception (`add_note`), which every later printer of
the traceback shows.

It costs about a microsecond a module call and makes torch.compile warn about global hooks, so it is not
the default.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from .. import guard

if TYPE_CHECKING:
    from ..types import Explanation

_MODULE = "torch.nn.modules.module"
_TRACEBACK = BaseException.__dict__["__traceback__"]
_handles: list[Any] = []


class _WhenTorchLoads:
    """Sees torch's module being imported, steps aside, and registers our hook after it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _register(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Register the hook, now or when torch is imported. torch itself is not imported here."""
    if _handles or any(isinstance(finder, _WhenTorchLoads) for finder in sys.meta_path):
        return
    module = sys.modules.get(_MODULE)
    if module is not None:
        _register(module)
    else:
        sys.meta_path.insert(0, _WhenTorchLoads())


def uninstall() -> None:
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _WhenTorchLoads)]
    while _handles:
        _handles.pop().remove()


def _register(module: ModuleType) -> None:
    try:
        handle = module.register_module_forward_hook(_leaving, always_call=True)
    except TypeError:
        # torch 2.0 has no always_call: errors pass its hooks by.
        return
    _handles.append(handle)


def _leaving(module: Any, args: Any, output: Any) -> None:
    exc = sys.exc_info()[1]
    if exc is None:
        return
    try:
        if guard.suspect(exc) and guard.mark_of(exc) is None:
            guard.attempt(_explain_here, exc, sys._getframe(1))
    finally:
        del exc


def _explain_here(exc: BaseException, frame: FrameType) -> None:
    """Explain `exc` with the frames that it has not reached yet, and put the text on it."""
    trace = _TRACEBACK.__get__(exc)
    try:
        _TRACEBACK.__set__(exc, _with_callers(trace, frame))
        guard.show(exc, partial(_note, exc))
    finally:
        _TRACEBACK.__set__(exc, trace)
        del exc, frame, trace


def _with_callers(trace: TracebackType | None, frame: FrameType | None) -> TracebackType | None:
    """`trace` with the frames before it that are still running: unwinding adds them only later."""
    if trace is None:
        return None
    while frame is not None and frame is not trace.tb_frame:
        frame = frame.f_back
    caller = frame.f_back if frame is not None else None
    while caller is not None:
        trace = TracebackType(trace, caller, caller.f_lasti, caller.f_lineno or 0)
        caller = caller.f_back
    return trace


def _note(exc: BaseException, explanation: Explanation) -> None:
    BaseException.add_note(exc, "\n" + str(explanation).strip("\n"))
