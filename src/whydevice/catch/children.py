"""Child processes of multiprocessing: what the parent chose holds in them, and their errors are explained.

A child prints the error of its target itself (`Process Process-1:` and the traceback); our block
follows. A spawned child starts anew: a script that imports whydevice installs it again when the child
imports the script, and under `python -m whydevice` the parent's choices come along with the
authentication key, which each child is sent first. DataLoader workers and `torch.multiprocessing.spawn`
hand the text of the error to the parent, and pools the exception; the explanation goes with them.
"""

from __future__ import annotations

import functools
import sys
import traceback
from typing import Any

from .. import guard
from .loading import when_loaded


class _Registered:
    """What multiprocessing's registry of after-fork callbacks holds us by; it keeps weak references."""


_registered = _Registered()
_planted: list[str] = []


def watch() -> None:
    """Explain what the child process prints, in this process if it is one, or in those that it forks."""
    process: Any = sys.modules.get("multiprocessing.process")
    if process is None:
        return
    if getattr(process.current_process(), "_inheriting", False):
        _begin(_registered)  # a spawned child that is being prepared; it runs no after-fork callback
    else:
        from multiprocessing import util

        util.register_after_fork(_registered, _begin)


def _begin(_: _Registered) -> None:
    wrappers = {"print_exc": _explaining, "format_exc": _appending, "format_exception": _preparing}
    for name, wrap in wrappers.items():
        function = getattr(traceback, name)
        if not hasattr(function, "__whydevice__"):
            wrapped = wrap(function)
            wrapped.__whydevice__ = function
            setattr(traceback, name, wrapped)
            if name in vars(executor := sys.modules.get("concurrent.futures.process", traceback)):
                setattr(executor, name, wrapped)  # it has taken the function by its name


def _explaining(print_exc: Any) -> Any:
    """`traceback.print_exc`, by which a child prints the error of its target."""

    @functools.wraps(print_exc)
    def explaining(*args: Any, **kwargs: Any) -> None:
        exc = sys.exc_info()[1]
        try:
            print_exc(*args, **kwargs)
        finally:
            guard.show(exc)
            del exc

    return explaining


def _appending(format_exc: Any) -> Any:
    """`traceback.format_exc`, by which torch.multiprocessing.spawn tells its parent."""

    @functools.wraps(format_exc)
    def appending(*args: Any, **kwargs: Any) -> Any:
        exc = sys.exc_info()[1]
        try:
            parts = [format_exc(*args, **kwargs)]
            guard.show(exc, lambda explanation: parts.append(f"\n{explanation}\n"))
        finally:
            del exc
        return "".join(parts)

    return appending


def _preparing(format_exception: Any) -> Any:
    """`traceback.format_exception`, by which pools begin to hand an exception to their parent.

    It is explained while its frames are there; the pickled exception brings the explanation along.
    """

    @functools.wraps(format_exception)
    def preparing(exc: Any, *args: Any, **kwargs: Any) -> Any:
        value = args[0] if args else kwargs.get("value", exc)
        try:
            if isinstance(value, BaseException):
                guard.explain(value)
            return format_exception(exc, *args, **kwargs)
        finally:
            del exc, value, args, kwargs

    return preparing


def plant(settings: dict[str, Any]) -> None:
    """Send the command line's choices to the children that will be spawned, and to theirs."""
    _planted[:] = [repr(settings)]
    when_loaded("multiprocessing.process", _plant)


def _plant(process: Any) -> None:
    config = process.current_process()._config
    if _planted and "authkey" in config:
        config["authkey"] = _key(process, bytes(config["authkey"]))


def _key(process: Any, key: bytes) -> Any:
    class Key(process.AuthenticationString):  # type: ignore[misc]
        """An authentication key that brings the settings along. It loads in a child without whydevice too."""

        def __reduce__(self) -> tuple[Any, ...]:
            super().__reduce__()  # refuses to be pickled for anything but a child
            plain = f"__import__('multiprocessing.process').process.AuthenticationString({key!r})"
            ours = f"__import__('whydevice.catch.children').catch.children.arrive({_planted[0]}, {key!r})"
            found = "__import__('importlib.util').util.find_spec('whydevice')"
            return eval, (f"{ours} if {found} else {plain}",)

    return Key(key)


def arrive(settings: dict[str, Any], key: bytes) -> Any:
    """Take up the parent's choices, in a spawned child, before it imports the script. Returns the key."""
    _planted[:] = [repr(settings)]
    guard.settings.color = settings["color"]
    watch()
    if settings["overlay"]:
        from ..source import overlay

        overlay.load(settings["overlay"])
    if settings["devices"]:
        from ..simulate import active, simulate_cuda

        if not active():
            simulate_cuda(settings["devices"]).__enter__()
    return _key(sys.modules["multiprocessing.process"], key)
