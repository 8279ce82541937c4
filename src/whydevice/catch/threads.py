"""threading.excepthook and sys.unraisablehook: errors that never reach sys.excepthook."""

from __future__ import annotations

import _thread
import sys

from .. import guard
from .prune import traceback_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _thread_hook(previous: Any) -> Any:
    def excepthook(args: Any) -> None:
        exc = args.exc_value
        try:
            if issubclass(type(exc), BaseException) and traceback_of(exc) is args.exc_traceback:
                guard.tidy(exc)
                args = type(args)((args.exc_type, exc, traceback_of(exc), args.thread))
            previous(args)
        finally:
            guard.show(exc)
            del args, exc

    excepthook.__whydevice__ = previous  # type: ignore[attr-defined]
    return excepthook


def _unraisable_hook(previous: Any) -> Any:
    def unraisablehook(unraisable: Any) -> None:
        try:
            previous(unraisable)
        finally:
            # What it was raised while handling is not printed here, and not its cause.
            if guard.suspect(unraisable.exc_value, alone=True):
                guard.show(unraisable.exc_value)
            del unraisable

    unraisablehook.__whydevice__ = previous  # type: ignore[attr-defined]
    return unraisablehook


def _home() -> tuple[Any, str]:
    """Where the hook of threads is kept: threading takes its own from _thread when it is imported.

    Importing threading here would cost more than all the rest of `import whydevice`.
    """
    threading = sys.modules.get("threading")
    if threading is None and hasattr(_thread, "_excepthook"):
        return _thread, "_excepthook"
    import threading

    return threading, "excepthook"


def install() -> None:
    home, name = _home()
    if not hasattr(getattr(home, name), "__whydevice__"):
        setattr(home, name, _thread_hook(getattr(home, name)))
    if not hasattr(sys.unraisablehook, "__whydevice__"):
        sys.unraisablehook = _unraisable_hook(sys.unraisablehook)


def uninstall() -> None:
    home, name = _home()
    if (previous := getattr(getattr(home, name), "__whydevice__", None)) is not None:
        setattr(home, name, previous)
    if (previous := getattr(sys.unraisablehook, "__whydevice__", None)) is not None:
        sys.unraisablehook = previous
