"""Take our own entries out of tracebacks, so that they read as if whydevice had not been there.

`python -m whydevice` puts frames outside the script, simulated CUDA and `watch` inside it. The entries are
unlinked in place: the exception object, its type and every other entry stay what they were.
"""

from __future__ import annotations

from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_FOLDER = __file__.rpartition("catch")[0]
_LINKED = 100
"""Exceptions looked at when following causes, contexts and groups."""

# The C slots: a user's class can define properties of these names, and no code of the user may run here.
_CAUSE = BaseException.__dict__["__cause__"]
_CONTEXT = BaseException.__dict__["__context__"]
_HIDES_CONTEXT = BaseException.__dict__["__suppress_context__"]
_TRACEBACK = BaseException.__dict__["__traceback__"]
_MEMBERS = BaseExceptionGroup.__dict__["exceptions"]


def is_ours(filename: str) -> bool:
    """True for the code of this package. Takes a code object's `co_filename`."""
    return str.startswith(filename, _FOLDER)  # of a subclass too, as some libraries have for paths


def linked(exc: BaseException, *, everything: bool = True) -> Iterator[BaseException]:
    """`exc` and the exceptions tied to it by cause, context and group, each once, at most `_LINKED`.

    With `everything` false, a context that `raise ... from` hides is left out.
    """
    todo = [exc]
    seen: set[int] = set()
    while todo and len(seen) < _LINKED:
        current = todo.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if issubclass(type(current), BaseExceptionGroup):
            todo.extend(_MEMBERS.__get__(current))
        context = _CONTEXT.__get__(current)
        if context is not None and (everything or not _HIDES_CONTEXT.__get__(current)):
            todo.append(context)
        cause = _CAUSE.__get__(current)
        if cause is not None:
            todo.append(cause)


def traceback_of(exc: BaseException) -> TracebackType | None:
    """`exc.__traceback__`, whatever the class of `exc` says it is."""
    trace: TracebackType | None = _TRACEBACK.__get__(exc)
    return trace


def prune(exc: BaseException) -> None:
    """Unlink our entries from the traceback of `exc` and of every exception tied to it."""
    for each in linked(exc):
        trace = _TRACEBACK.__get__(each)
        kept = without_ours(trace)
        if kept is not trace:
            _TRACEBACK.__set__(each, kept)


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The first entry of `trace` once ours are unlinked; None when there were none but ours."""
    entries: list[TracebackType] = []
    changed = False
    while trace is not None:
        if is_ours(trace.tb_frame.f_code.co_filename):
            changed = True
            if _was_dispatched(entries):
                del entries[-2:]
        else:
            entries.append(trace)
        trace = trace.tb_next
    if not entries:
        return None
    if changed:
        for entry, following in pairwise(entries):
            entry.tb_next = following
        entries[-1].tb_next = None
    return entries[0]


def _was_dispatched(before: list[TracebackType]) -> bool:
    """True when the last two entries are a torch function that handed the call to our mode.

    A Python function of torch (`F.cross_entropy`) begins with `return handle_torch_function(...)` when a mode
    is active, and is entered a second time from the mode. On a real device only the second entry exists.
    """
    if len(before) < 2:
        return False
    handler = before[-1].tb_frame.f_code
    return handler.co_name == "handle_torch_function" and str.endswith(handler.co_filename, "overrides.py")
