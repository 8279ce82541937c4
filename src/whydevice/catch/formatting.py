"""What is done to an exception before it is formatted: our entries go, and with `everywhere` the note comes.

Every printer of the standard library, and logging, asyncio, multiprocessing, torch's `@record` and most web
frameworks with it, makes a `traceback.TracebackException` first. It is wrapped while something is to be done.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Any

from .. import guard
from .prune import traceback_of, without_ours

_Formatted = traceback.TracebackException
_steps: list[Callable[[BaseException], object]] = []


def before(step: Callable[[BaseException], object]) -> None:
    """Call `step(exc)` before an exception is formatted. A second time does no harm."""
    if step not in _steps:
        _steps.append(step)
    if not hasattr(_Formatted.__init__, "__whydevice__"):
        _Formatted.__init__ = _prepared(_Formatted.__init__)  # type: ignore[method-assign]


def forget(step: Callable[[BaseException], object]) -> None:
    """Take `step` back, and with the last one the wrapper, unless another tool's lies over it."""
    if step in _steps:
        _steps.remove(step)
    previous = getattr(_Formatted.__init__, "__whydevice__", None)
    if not _steps and previous is not None:
        _Formatted.__init__ = previous  # type: ignore[method-assign]


def tidy() -> None:
    """From now on our entries are taken out of what is formatted, as they are before a hook prints."""
    before(guard.tidy)


def uninstall() -> None:
    for step in tuple(_steps):
        forget(step)


def _prepared(init: Any) -> Any:
    """TracebackException's `__init__` that does the steps first."""

    @functools.wraps(init)
    def prepared(self: Any, exc_type: Any, exc_value: Any, exc_traceback: Any, **options: Any) -> None:
        # With `_seen` it is made for the cause or context of another, which was looked at already.
        if _steps and options.get("_seen") is None and isinstance(exc_value, BaseException):
            whole = traceback_of(exc_value)
            for step in tuple(_steps):
                guard.attempt(step, exc_value)
            kept = traceback_of(exc_value)
            # What is given is the whole of it, or the part that a caller wants to be seen.
            exc_traceback = kept if exc_traceback is whole else guard.attempt(without_ours, exc_traceback)[0]
            whole = kept = None
        try:
            init(self, exc_type, exc_value, exc_traceback, **options)
        finally:
            del exc_value, exc_traceback

    prepared.__whydevice__ = init  # type: ignore[attr-defined]
    return prepared
