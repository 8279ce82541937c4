"""The causes, one file each, found by listing this folder.

A cause's module has `NAME` (the problem, never the remedy), `TITLE`, `ORDER` (lower is asked first: the more special
ones come before those that fit many errors), its page as docstring, and `find(evidence) -> Finding | None`.
Modules whose names start with an underscore are what several causes share.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from ..types import Cause


@cache
def modules() -> tuple[ModuleType, ...]:
    """The cause modules in the order in which they are asked."""
    found = []
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_"):
            found.append(importlib.import_module(f"{__name__}.{info.name}"))
    return tuple(sorted(found, key=lambda m: (m.ORDER, m.NAME)))


def cause_of(module: ModuleType) -> Cause:
    """The published data of a cause module."""
    return Cause(module.NAME, module.TITLE, (module.__doc__ or "").strip())


def all_causes() -> list[Cause]:
    """Every cause, by name."""
    return sorted((cause_of(m) for m in modules()), key=lambda c: c.name)


def by_name(name: str) -> Cause | None:
    """The cause with this name, or None."""
    return next((c for c in all_causes() if c.name == name), None)
