"""Act on a module when it is loaded, without loading it; only where the user asked for more than hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class _Finder:
    """Sees one module being imported, steps aside, and calls back once it has run."""

    def __init__(self, name: str, callback: Callable[[ModuleType], object]) -> None:
        self.name, self.callback = name, callback

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.callback(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def when_loaded(name: str, callback: Callable[[ModuleType], object]) -> None:
    """Call `callback(module)` now, if the module `name` is loaded, or else right after it is."""
    module = sys.modules.get(name)
    if module is not None:
        callback(module)
    else:
        sys.meta_path.insert(0, _Finder(name, callback))


def forget(callback: Callable[[ModuleType], object]) -> None:
    """Take back what `when_loaded` has not yet done."""
    sys.meta_path[:] = [
        finder
        for finder in sys.meta_path
        if not (isinstance(finder, _Finder) and finder.callback == callback)
    ]


def waiting(callback: Callable[[ModuleType], object]) -> bool:
    """True when `callback` waits for its module."""
    return any(isinstance(finder, _Finder) and finder.callback == callback for finder in sys.meta_path)
