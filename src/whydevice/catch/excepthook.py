"""sys.excepthook: the hook before us prints the traceback, then we add our block."""

from __future__ import annotations

import sys

from .. import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def make(previous: Hook) -> Hook:
    """A hook that calls `previous` and then explains."""

    def excepthook(type_: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        try:
            if isinstance(value, BaseException) and trace is value.__traceback__:
                guard.tidy(value)
                trace = value.__traceback__
            previous(type_, value, trace)
        finally:
            guard.show(value)
            del value, trace

    excepthook.__whydevice__ = previous  # type: ignore[attr-defined]
    return excepthook


def install() -> None:
    """Put our hook on top, unless it is there already. One that was replaced meanwhile goes on top again."""
    if not hasattr(sys.excepthook, "__whydevice__"):
        sys.excepthook = make(sys.excepthook)


def uninstall() -> None:
    """Put back what was there, if ours is still on top; a hook put over ours keeps the chain it has."""
    previous = getattr(sys.excepthook, "__whydevice__", None)
    if previous is not None:
        sys.excepthook = previous
