"""Act on a module once it is loaded, without loading it.

A finder that finds nothing sees the imports go by, and looks whether a module that is waited for has run by
now. So no import takes another way than without us, and none of its tracebacks has a frame of ours.
"""

from __future__ import annotations

import sys

from .. import guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Callback = Callable[[ModuleType], object]


class _Finder:
    """In `sys.meta_path` while something is waited for. Told of each import, it finds nothing."""

    def __init__(self) -> None:
        self.waiting: list[tuple[str, Callback]] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        for one in tuple(self.waiting):
            module = _loaded(one[0])
            # Each is called once: another thread may import at the same time.
            if module is not None and one in self.waiting:
                self.waiting = [other for other in self.waiting if other is not one]
                guard.attempt(one[1], module)


_finder = _Finder()


def when_loaded(name: str, callback: Callback) -> None:
    """Call `callback(module)` now, if the module `name` is loaded, or else at an import soon after it was."""
    module = _loaded(name)
    if module is not None:
        guard.attempt(callback, module)
    elif not waiting(callback):
        _finder.waiting.append((name, callback))
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)


def forget(callback: Callback) -> None:
    """Take back what `when_loaded` has not yet done."""
    _finder.waiting = [one for one in _finder.waiting if one[1] != callback]
    if not _finder.waiting and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def waiting(callback: Callback) -> bool:
    """True when `callback` waits for its module."""
    return any(one[1] == callback for one in _finder.waiting)


def _loaded(name: str) -> ModuleType | None:
    """The module, if its code has run to the end."""
    module = sys.modules.get(name)
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module
