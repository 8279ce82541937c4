"""Explains PyTorch device mismatches: which variable, from where, and the edit that mends it.

`import whydevice` installs the hooks, unless WHYDEVICE=0. It imports neither torch nor rich.
"""

from __future__ import annotations

import sys

from . import guard
from .catch import install, uninstall, wants_everywhere

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from .catch.watch import watch
    from .evidence.modules import audit
    from .simulate import simulate_cuda
    from .types import Explanation
else:
    ModuleType = type(sys)  # an empty Python has not loaded `types`, which takes as long as all that we load

__version__ = "0.1.0"

__all__ = [
    "Explanation",
    "audit",
    "explain",
    "install",
    "load_ipython_extension",
    "simulate_cuda",
    "uninstall",
    "unload_ipython_extension",
    "watch",
    "why",
]

_ELSEWHERE = {
    "Explanation": ".types",
    "audit": ".evidence.modules",
    "load_ipython_extension": ".catch.notebook",
    "simulate_cuda": ".simulate",
    "unload_ipython_extension": ".catch.notebook",
    "watch": ".catch.watch",
}


def explain(exc: BaseException) -> Explanation | None:
    """Explain a caught exception. None when it is not a device error. Raises nothing."""
    return guard.explain(exc)


def why() -> None:
    """Explain the last uncaught error again, as `pdb.pm()` does. Raises RuntimeError when there is none."""
    exc = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if exc is None:
        raise RuntimeError("no uncaught error to explain: sys.last_exc is not set")
    if not guard.show(exc, again=True):
        print(f"whydevice: the last error, {type(exc).__name__}, is not a device error", file=sys.stderr)


def __getattr__(name: str) -> Any:
    """Public names whose modules are loaded when they are first asked for."""
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ELSEWHERE[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps `whydevice.explain` the function when the module of that name is loaded below the package."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name == "explain" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

if guard.enabled():
    install(everywhere=wants_everywhere())
