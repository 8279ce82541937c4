"""The one place that catches BaseException, and the switches.

Everything that whydevice does after an error goes through here. The original traceback is printed first, by
whoever would have printed it; what goes wrong in our own code ends here in one line and changes no exit
status. An error that is not about devices costs a walk over its text, without any import.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock, get_ident

from .catch.prune import linked, prune

TYPE_CHECKING = False  # typing itself takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeGuard

    from .types import Explanation

_MARK = "__whydevice__"
_TEXT = 20_000
"""Characters of a message that are looked at from each end."""
_WORDS = (
    "device", "cuda", "cpu", "gpu", "backend", "meta tensor", "tensor type", "different type",
    "data location", "xla", "npu", "hpu", "xpu", "mps",
)  # fmt: skip
_ROOM = 500
"""Calls that an explanation may be deep, whatever is below it."""
_DICT = BaseException.__dict__["__dict__"]
_ARGS = BaseException.__dict__["args"]
_LAUNCHED = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
"""What a launcher of ranks sets: torchrun and accelerate, Open MPI, MPICH, Slurm."""
_IN_TRACEBACKS = ("whydevice.run", "whydevice.simulate", "whydevice.catch.watch")
"""The modules of ours that call the user's code."""
_TRACEBACK = BaseException.__dict__["__traceback__"]

listeners: list[Callable[[Explanation], None]] = []
"""Called with each explanation when it is shown first: `--json` and `--fix` collect them so."""


class Settings:
    """What the command line chose for this process."""

    color: str = "auto"


settings = Settings()
_writing = allocate_lock()
_explaining: set[int] = set()
"""Threads at work: an object that dies meanwhile, and fails in its finalizer, must not start us again."""


class Mark:
    """What we know of an exception, kept on it: plain data, so that it holds no frame alive.

    It pickles as bytes or None: an exception that travels to a process without whydevice must load there.
    """

    __slots__ = ("explained", "explanation", "shown")

    def __init__(self) -> None:
        self.explained = False
        self.explanation: Explanation | None = None
        self.shown = False

    def __reduce__(self) -> tuple[Any, ...]:
        if self.explanation is None:
            return (type(None), ())
        from .catch.carried import pack

        return (bytes, (pack(self.explanation),))


def enabled() -> bool:
    """False when the environment turns whydevice off: WHYDEVICE=0."""
    return os.environ.get("WHYDEVICE", "").strip().lower() not in ("0", "off", "false", "no")


def mark_of(exc: BaseException) -> Mark | None:
    mark = _DICT.__get__(exc).get(_MARK)
    return mark if type(mark) is Mark else None


def _marked(exc: BaseException) -> Mark:
    mark = mark_of(exc)
    if mark is None:
        brought = _DICT.__get__(exc).get(_MARK)
        mark = _DICT.__get__(exc)[_MARK] = Mark()
        if type(brought) is bytes:
            from .catch.carried import unpack

            mark.explanation = unpack(brought)
            mark.explained = mark.explanation is not None
    return mark


def _shown(exc: BaseException) -> bool:
    """True when `exc`, or one that it is tied to, was explained to the user already."""
    marks = (_DICT.__get__(each).get(_MARK) for each in linked(exc, everything=False))
    return any(type(mark) is Mark and mark.shown for mark in marks)


def _brings_block(exc: BaseException) -> bool:
    """True when the text of `exc` holds our block, from the process that it comes from."""
    for each in linked(exc, everything=False):
        notes = _DICT.__get__(each).get("__notes__", ())
        for text in (*_ARGS.__get__(each), *(notes if type(notes) is list else ())):
            if type(text) is str and "\nwhydevice: " in text:
                return True
    return False


def launched() -> bool:
    """True when a launcher says that this process is one of several ranks, or may be."""
    return any(name in os.environ for name in _LAUNCHED)


def _silent(explanation: Explanation) -> None:
    """A writer for what can be read already."""


def _is_exception(exc: object) -> TypeGuard[BaseException]:
    """`isinstance`, without asking for a `__class__` that an object may define."""
    return issubclass(type(exc), BaseException)


def suspect(exc: object, *, alone: bool = False) -> bool:
    """True when `exc` may be a device error: torch is loaded and a word in its text hints at a device.

    With `alone`, the exceptions that it is tied to do not count. Reads `args` only; a user's `__str__` is
    not called.
    """
    if not _is_exception(exc) or "torch" not in sys.modules:
        return False
    for each in (exc,) if alone else linked(exc, everything=False):
        for text in _ARGS.__get__(each):
            if type(text) is str:
                low = (text if len(text) <= 2 * _TEXT else text[:_TEXT] + text[-_TEXT:]).lower()
                if any(word in low for word in _WORDS):
                    return True
        if type(each) is AssertionError and _asks_for_device(each):
            return True
    return False


def _asks_for_device(exc: AssertionError) -> bool:
    """True when the code that failed an `assert` reads a `.device`: such an `assert` has no text."""
    trace = _TRACEBACK.__get__(exc)
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and "device" in trace.tb_frame.f_code.co_names


def attempt(function: Callable[..., Any], *args: Any) -> tuple[Any, BaseException | None]:
    """What `function(*args)` returned, and what it raised instead of returning, whatever it was."""
    try:
        return function(*args), None
    except BaseException as exc:
        return None, exc


def _with_room(function: Callable[..., Any], *args: Any) -> tuple[Any, BaseException | None]:
    """`attempt`, with calls to spare: `watch` and hooks on calls explain where the stack may be nearly full."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + _ROOM)
    try:
        return attempt(function, *args)
    finally:
        sys.setrecursionlimit(limit)


def tidy(exc: BaseException) -> None:
    """Take our entries out of the traceback of `exc`, before the hook that prints it runs. Raises nothing."""
    _, failure = attempt(_tidy, exc)
    if failure is not None:
        complain(failure)


def _tidy(exc: BaseException) -> None:
    notes = sys.modules.get("whydevice.catch.everywhere")
    if notes is not None:
        attempt(notes.drop_repeated, exc)
    if any(name in sys.modules for name in _IN_TRACEBACKS):
        prune(exc)


def explain(exc: BaseException) -> Explanation | None:
    """The explanation of `exc`, made once and kept on it; None when it is no device error or we failed."""
    if not suspect(exc):
        return None
    mark = _marked(exc)
    thread = get_ident()
    if not mark.explained and thread not in _explaining:
        mark.explained = True
        _explaining.add(thread)
        try:
            mark.explanation, failure = _with_room(_pipeline, exc)
            if failure is not None:
                complain(failure)
        finally:
            _explaining.discard(thread)
            failure = None
            del exc
    return mark.explanation


def _pipeline(exc: BaseException) -> Explanation | None:
    from .catch.carried import find
    from .explain import explain

    explanation: Explanation | None = find(exc) or explain(exc)
    return explanation


def show(exc: object, writer: Callable[[Explanation], None] | None = None, *, again: bool = False) -> bool:
    """Write what explains `exc`, on sys.stderr or as `writer` does; once, unless `again`. True if written.

    Raises nothing: who calls this has an error of the user's to print or to pass on.
    """
    try:
        return _show(exc, writer, again)
    except BaseException as failure:  # a Ctrl-C between two steps
        complain(failure)
        return False
    finally:
        del exc


def _show(exc: object, writer: Callable[[Explanation], None] | None, again: bool) -> bool:
    if not _is_exception(exc) or not suspect(exc):
        return False
    if not again and (not enabled() or _shown(exc)):
        return False
    mark = _marked(exc)
    if writer is None and launched():
        attempt(_listen)
    explanation = explain(exc)
    if explanation is None:
        return False
    first, mark.shown = not mark.shown, True
    if _brings_block(exc) and not again:
        writer = _silent
    _, failure = _with_room(_publish, explanation, writer or write, first)
    if failure is not None:
        complain(failure)
    return failure is None


def _listen() -> None:
    from .catch import ranks

    ranks.listen()


def _publish(explanation: Explanation, writer: Callable[[Explanation], None], first: bool) -> None:
    if first:
        for listener in listeners:
            listener(explanation)
    # Two threads may fail at once: a block is written whole. The wait is bounded, a hook must not hang.
    locked = _writing.acquire(timeout=2)
    try:
        writer(explanation)
    finally:
        if locked:
            _writing.release()


def write(explanation: Explanation) -> None:
    """Write the block on the current sys.stderr; in a distributed run, one line for all but one rank."""
    stream = sys.stderr
    if stream is None:
        return
    if launched():
        from .catch import ranks

        ranks.write(explanation, stream, lambda: _write_in_full(explanation, stream))
    else:
        _write_in_full(explanation, stream)


def _write_in_full(explanation: Explanation, stream: Any) -> None:
    from .render import terminal

    terminal.write(explanation, stream, settings.color)


def complain(failure: BaseException) -> None:
    """Say in one line that whydevice failed, and how; the failure's message may hold user values."""
    try:
        stream = sys.stderr
        if stream is None:
            return
        # Python's own code, which a script may have broken.
        debug, _ = attempt(os.environ.get, "WHYDEVICE_DEBUG")
        if debug not in (None, "", "0"):
            import traceback

            traceback.print_exception(failure, file=stream)
        if (
            type(failure) is KeyboardInterrupt
        ):  # a script may have put an `isinstance` of its own in its place
            # Python notes one that leaves an `exec` of text (a dataclass is made by it), and would end by SIGINT. The
            # next `exec` of text takes that back.
            exec("")
            line = "whydevice: interrupted while explaining the error above"
        else:
            line = (
                f"whydevice: failed while explaining the error above ({type(failure).__name__}); "
                "please report it with what WHYDEVICE_DEBUG=1 prints"
            )
        print(line, file=stream, flush=True)
    except BaseException:
        # Nothing is left to say it on: a closed pipe, a full disk, no stderr at all.
        pass
    finally:
        del failure
