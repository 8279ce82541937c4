"""sys.excepthook: the hook before us prints the traceback, then we add our block."""

from __future__ import annotations

import atexit
import sys

from .. import guard
from .prune import traceback_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


class ExceptHook:
    """A hook that calls the one before it and then explains. `__whydevice__` is the one before."""

    def __init__(self, previous: Hook) -> None:
        self.__whydevice__ = previous
        self.__name__ = self.__qualname__ = "excepthook"

    def __call__(self, type_: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        begun = False
        try:
            if issubclass(type(value), BaseException) and trace is traceback_of(value):
                guard.tidy(value)
                trace = traceback_of(value)
            begun = True
            self.__whydevice__(type_, value, trace)
            guard.show(value)
        except BaseException as failure:
            if begun and self.__whydevice__ is not sys.__excepthook__:
                guard.show(value)
                raise
            # The interpreter's own hook raises nothing: this came from outside, a Ctrl-C, between two steps. Raised
            # on, it would have the traceback printed a second time.
            if not begun:
                self.__whydevice__(type_, value, trace)
            guard.complain(failure)
        finally:
            del value, trace

    def __eq__(self, other: object) -> bool:
        # wandb prints the traceback itself and calls the hook before it only if that is not the interpreter's
        # own: over the interpreter's own we must count as it, or an ordinary error is printed twice.
        return other is self or (other is sys.__excepthook__ and self.__whydevice__ is other)

    __hash__ = object.__hash__


def install() -> None:
    """Put our hook on top, unless it is there already. One that was replaced meanwhile goes on top again."""
    if not hasattr(sys.excepthook, "__whydevice__"):
        sys.excepthook = ExceptHook(sys.excepthook)
        atexit.unregister(_at_exit)
        atexit.register(_at_exit)


def _at_exit() -> None:
    _, failure = guard.attempt(_explain_last)
    if failure is not None:
        guard.complain(failure)


def _explain_last() -> None:
    """Explain what ended the process, where a tool has put a hook over ours that never calls it."""
    if hasattr(getattr(sys, "excepthook", None), "__whydevice__"):
        return
    if "IPython" in sys.modules:
        from . import notebook

        # What the last cell raised did not end the process. After an embedded shell IPython's hook stays.
        if notebook.running_shell() is not None:
            return
    guard.show(getattr(sys, "last_exc", None) or getattr(sys, "last_value", None))


def uninstall() -> None:
    """Put back what was there, if ours is still on top; a hook put over ours keeps the chain it has."""
    atexit.unregister(_at_exit)
    previous = getattr(sys.excepthook, "__whydevice__", None)
    if previous is not None:
        sys.excepthook = previous
