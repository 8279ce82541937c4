"""The way from a container to a tensor in it, and the place that let the tensor through when the container was moved."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import values
from .passive import OF_PYTHON, class_module
from .scopes import MISSING, Scope

MOST_LEVELS = 5


@dataclass(repr=False, eq=False)
class Link:
    """One level of the way from a container to the tensor in it: the value there and the key that leads on."""

    value: Any
    key: object = None


@dataclass(repr=False, eq=False)
class Gap:
    """The place that let a tensor through unmoved.

    `kind`: element (an item of a literal or call), condition (a test that left it out), names (a literal of the keys to
    move), statement (the assignments that move the others), keyword (a copy with some fields replaced), branch (a test
    of types that has no case for the container). `sibling` is a move that stands beside it.
    """

    kind: str
    node: ast.AST
    scope: Scope
    way: list[Link]
    sibling: ast.Call | None = None
    owner: ast.expr | None = None
    known: dict[str, Any] = field(default_factory=dict)
    function: str = ""


def way_to(
    root: Any, tensor: Any, levels: int = MOST_LEVELS, seen: dict[int, int] | None = None
) -> list[Link] | None:
    """The way from a value to a tensor in it, by identity; the tensor itself is the last link."""
    if root is tensor:
        return [Link(root)]
    if levels == 0 or root is MISSING or values.is_tensor(root) or values.is_module(root):
        return None
    # What was looked through before, with as many levels to go, has no way: containers may be shared, or cyclic.
    seen = {} if seen is None else seen
    if seen.get(id(root), 0) >= levels:
        return None
    seen[id(root)] = levels
    for key, item in parts(root):
        found = way_to(item, tensor, levels - 1, seen)
        if found is not None:
            return [Link(root, key), *found]
    return None


def parts(value: Any) -> Iterator[tuple[object, Any]]:
    """The items of a container, or the attributes of a plain object (a namedtuple's under both)."""
    kind = type(value)
    if values.is_tensor(value) or values.is_module(value) or values.is_class(value):
        return
    fields = values.class_attribute(kind, "_fields") if issubclass(kind, tuple) else None
    if type(fields) is tuple:
        yield from zip(fields, tuple.__iter__(value), strict=False)
        return
    yield from values.items(value)
    if kind is types.SimpleNamespace or class_module(kind) not in OF_PYTHON:
        yield from values.named(values.instance_dict(value))
