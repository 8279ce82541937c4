"""`install(everywhere=True)`: explain where an error leaves a module's call, as a note on the exception.

Many frameworks only ever print `traceback.format_exc()`, and some change the evidence before any hook
runs (Lightning moves the module back to the CPU). PyTorch runs a forward hook that is registered with
`always_call=True` on the way out of every module's call, with sys.exc_info() set; there the devices are
still true. The explanation becomes a note of the exception (`add_note`), which every later printer of
the traceback shows.

Errors outside of any module's call get their note when a traceback is formatted (formatting.py).

It costs about a microsecond a module call and makes torch.compile warn about global hooks, so it is not
the default.
"""

from __future__ import annotations

import functools
import sys
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from .. import guard
from . import formatting
from .loading import forget, when_loaded
from .prune import linked

if TYPE_CHECKING:
    from ..types import Explanation

_MODULE = "torch.nn.modules.module"
_OURS = "\nwhydevice: "
_TRACEBACK = BaseException.__dict__["__traceback__"]
_DICT = BaseException.__dict__["__dict__"]
_ARGS = BaseException.__dict__["args"]
_handles: list[Any] = []


def install() -> None:
    """Register the hook, now or when torch is imported. torch itself is not imported here."""
    formatting.before(_note)
    if not _handles:
        when_loaded(_MODULE, _register)


def uninstall() -> None:
    formatting.forget(_note)
    forget(_register)
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
        guard.show(exc, functools.partial(note, exc))
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


def _note(exc: BaseException) -> None:
    """Put the note on a device error that is about to be formatted."""
    guard.attempt(drop_repeated, exc)
    guard.show(exc, functools.partial(note, exc))


def drop_repeated(exc: BaseException) -> None:
    """Take our note from what is printed with `exc` where the text of another that is printed has it.

    A pool sends its parent the exception and, as its cause, the text; Ray the text, and as its cause the
    exception.
    """
    printed = list(linked(exc, everything=False))
    said = [text for each in printed for text in _ARGS.__get__(each) if type(text) is str and _OURS in text]
    for each in printed if said else ():
        notes = _DICT.__get__(each).get("__notes__")
        if type(notes) is not list:
            continue
        notes[:] = [one for one in notes if not _repeats(one, said)]
        if not notes:
            del _DICT.__get__(each)["__notes__"]


def _repeats(text: object, said: list[str]) -> bool:
    return type(text) is str and text.startswith(_OURS) and any(text in other for other in said)


def note(exc: BaseException, explanation: Explanation) -> None:
    text = str(explanation)
    if guard.launched():
        from . import ranks

        text = ranks.note(explanation)
    BaseException.add_note(exc, "\n" + text.strip("\n"))
