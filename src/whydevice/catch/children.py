"""Child processes of multiprocessing: what the parent chose holds in them, and their errors are explained.

A child prints the error of its target itself (`Process Process-1:` and the traceback), so the
explanation travels on the exception as a note. A spawned child starts anew: a script that imports
whydevice installs it again when the child imports the script, and under `python -m whydevice` the
parent's choices come along with the authentication key, which each child is sent before anything else.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from .. import guard
from .loading import when_loaded


class _Registered:
    """What multiprocessing's registry of after-fork callbacks holds us by; it keeps weak references."""


_registered = _Registered()
_planted: list[str] = []


def watch() -> None:
    """Act in a child just before its target runs, once multiprocessing is in use. Twice does no harm."""
    if "multiprocessing.process" in sys.modules:
        from multiprocessing import util

        util.register_after_fork(_registered, _begin)


def _begin(_: _Registered) -> None:
    """Called in the child, just before its target runs."""
    process = sys.modules["multiprocessing.process"].current_process()
    process.run = functools.partial(_run, process.run)
    if _planted:
        plant(*_planted)


def _run(run: Any) -> None:
    try:
        run()
    except Exception as exc:
        from .everywhere import note

        guard.show(exc, functools.partial(note, exc))
        raise


def plant(settings: str) -> None:
    """Send the command line's choices, the text of a dict, to the children that will be spawned."""
    _planted[:] = [settings]
    when_loaded("multiprocessing.process", _plant)


def _plant(process: Any) -> None:
    if not _planted:
        return
    [settings] = _planted
    config = process.current_process()._config
    if "authkey" in config:
        config["authkey"] = _key(process, settings)(bytes(config["authkey"]))


def _key(process: Any, settings: str) -> Any:
    class Key(process.AuthenticationString):  # type: ignore[misc]
        """An authentication key that brings the settings along. It loads in a child without whydevice too."""

        def __reduce__(self) -> tuple[Any, ...]:
            super().__reduce__()  # refuses to be pickled for anything but a child
            plain = f"__import__('multiprocessing.process').process.AuthenticationString({bytes(self)!r})"
            ours = f"__import__('whydevice.catch.children').catch.children.arrive({settings})"
            found = "__import__('importlib.util').util.find_spec('whydevice')"
            return eval, (f"({found} and {ours}, {plain})[1]",)

    return Key


def arrive(settings: dict[str, Any]) -> None:
    """Take up the parent's choices, in a spawned child, before it imports the script. Twice does no harm."""
    if _planted:
        return
    _planted[:] = [repr(settings)]
    guard.settings.color = settings["color"]
    watch()
    if settings["devices"]:
        from ..simulate import active, simulate_cuda

        if not active():
            simulate_cuda(settings["devices"]).__enter__()
