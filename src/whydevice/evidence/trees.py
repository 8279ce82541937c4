"""A module tree, read in one pass: its modules, what they registered, and what else they hold."""

from __future__ import annotations

import collections
import types
from typing import Any, NamedTuple

from .bounds import at_most, cut, kept
from .passive import instance_dict, named, type_name
from .tensors import is_module, is_tensor

MOST_MODULES = 12_000
MOST_TENSORS = 8_000  # parameters and buffers of one tree

# By id, for `in` would ask the `__eq__` of a metaclass. These types of Python's own live as long as the process.
_PLAIN = {id(kind) for kind in (type(None), bool, int, float, str, types.FunctionType)}
_CONTAINERS = {id(kind) for kind in (dict, list, tuple, set, collections.OrderedDict)}
# DataParallel's replicas hold their parameters as plain attributes, and list them in `_former_parameters`.
STATE = {"_parameters": "parameter", "_former_parameters": "parameter", "_buffers": "buffer"}


class Tree(NamedTuple):
    """The parts of a module tree, breadth first, each module once. Paths are dotted; the root's is empty."""

    modules: list[tuple[str, Any]]  # (path, module)
    registered: list[tuple[str, Any, str, Any, str]]
    """(path of the module, module, name, tensor, `parameter` or `buffer`)"""
    plain: list[tuple[str, Any, str, Any]]
    """(path of the module, module, name, value) of the rest; numbers, text and empty containers are left out."""


def tree(module: object) -> Tree:
    """What a module tree holds; of a very large one, what is nearest to its root."""
    return kept("tree", module, _read)


def _read(module: object) -> Tree:
    found = Tree([], [], [])
    if not is_module(module):
        found.modules.append(("", module))
        return found
    modules, tensors = at_most(MOST_MODULES), at_most(MOST_TENSORS)
    seen = {id(module)}
    queue: collections.deque[tuple[str, Any]] = collections.deque([("", module)])
    while queue:
        path, here = queue.popleft()
        found.modules.append((path, here))
        if len(found.modules) >= modules:
            cut(f"of `{type_name(module)}`, the first {modules:,} modules were looked at")
            break
        _read_one(path, here, found, seen, queue)
        if len(found.registered) >= tensors:
            cut(f"of `{type_name(module)}`, the first {tensors:,} parameters and buffers were looked at")
            del found.registered[tensors:]
            break
    return found


def _read_one(
    path: str, here: Any, found: Tree, seen: set[int], queue: collections.deque[tuple[str, Any]]
) -> None:
    own = instance_dict(here)
    former = {name for name, _ in named(own.get("_former_parameters"))}
    entries = [
        (key, value)
        for key, value in own.items()
        if (kind := id(type(value))) not in _PLAIN and not (kind in _CONTAINERS and not value)
    ]
    for key, value in entries:
        name = key if type(key) is str else str.__str__(key) if issubclass(type(key), str) else ""
        if name == "_modules":
            for child_name, child in named(value):
                if id(child) not in seen and is_module(child):
                    seen.add(id(child))
                    queue.append((f"{path}.{child_name}" if path else child_name, child))
        elif name in STATE:
            for entry, tensor in named(value):
                if tensor is not None and is_tensor(tensor):
                    found.registered.append((path, here, entry, tensor, STATE[name]))
        elif name and name not in former:
            found.plain.append((path, here, name, value))
