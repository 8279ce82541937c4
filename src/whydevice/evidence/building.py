"""Which methods run while an object is built, and at no other time: before anybody can have moved it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from . import attributes, values
from .libraries import is_library
from .passive import class_entries
from .scopes import Scope, own_nodes, position
from .sources import Sources
from .vocabulary import MOVES

_FIRST = ("__init__", "__post_init__", "__new__")


def built_by(owner: Any, method: str | None, sources: Sources) -> bool:
    """Whether a method of an object runs while that is built, as what `__init__` calls, and nothing calls it later."""
    if method is None or method in _FIRST:
        return method is not None
    if method not in _builders(owner, sources):
        return False
    return not any(_calls_later(owner, method, source, sources) for source in sources.users())


def while_built(scope: Scope, sources: Sources) -> bool:
    """Whether a function that has returned ran as a part of building its `self`, a module."""
    if scope.function in _FIRST:
        return True
    return (
        scope.frame is None
        and values.is_module(scope.receiver)
        and built_by(scope.receiver, scope.function, sources)
    )


def setters(owner: Any, name: str, sources: Sources) -> list[attributes.Assignment]:
    """The methods other than those that build the object that give an attribute a value: it may not be there before."""
    places = attributes.assignments(owner, name, sources)
    names = {a.method.name for a in places if a.method is not None}
    early = {name for name in names if attributes.builds(name) or built_by(owner, name, sources)}
    return [a for a in places if a.method is not None and a.method.name not in early]


def held_before(owner: Any, name: str, method: str | None, sources: Sources) -> bool:
    """Whether an attribute holds something by the time that a method first runs: where building the object leads to that
    method, `__init__` has to have given it above the first call of a method of the object's own."""
    if method not in _builders(owner, sources):
        return True
    places = attributes.assignments(owner, name, sources)
    return any(
        isinstance(a.method, ast.FunctionDef)
        and a.method.name == "__init__"
        and a.stmt in a.method.body  # in an `if`, it may not have run
        and not isinstance(a.node, ast.Constant)
        and all(position(a.stmt) < position(call) for call in _own_calls(a.method, owner, a.cls, sources))
        for a in places
    )


def _own_calls(init: ast.FunctionDef, owner: Any, cls: type, sources: Sources) -> Iterator[ast.Attribute]:
    """Where an `__init__` names what building the object leads to; the `__init__` of torch's own classes leads nowhere."""
    mro = attributes.classes(owner)
    bases = mro[mro.index(cls) + 1 :] if cls in mro else mro
    led = _builders(owner, sources) - {"__init__"}
    if any("__init__" in class_entries(base) for base in bases):
        led |= {"__init__"}
    for node in own_nodes(init):
        if isinstance(node, ast.Attribute) and node.attr in led and _is_own(node.value, init):
            yield node


def _builders(owner: Any, sources: Sources) -> set[str]:
    """The names of the methods that building the object leads to: what `__init__` names of `self` and `super()`, what
    those name, and so on."""
    cls = owner if values.is_class(owner) else type(owner)
    known = sources.builders.get(cls)
    if known is not None:
        return known
    members: dict[str, list[ast.FunctionDef]] = {}
    for member in _members(owner, sources):
        members.setdefault(member.name, []).append(member)
    found: set[str] = set()
    todo = list(_FIRST)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [n for member in members.get(name, ()) for n in _named(member) if n in members]
    sources.builders[cls] = found
    return found


def _members(owner: Any, sources: Sources) -> Iterator[ast.FunctionDef]:
    for cls in attributes.classes(owner):
        located = attributes.class_source(cls, sources)
        for member in located[1].body if located is not None else ():
            if isinstance(member, ast.FunctionDef):
                yield member


def _named(member: ast.FunctionDef) -> Iterator[str]:
    """The x of `self.x` and `super().x` in a method."""
    for node in own_nodes(member):
        if isinstance(node, ast.Attribute) and _is_own(node.value, member):
            yield node.attr


def _is_own(node: ast.expr, member: ast.FunctionDef) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in [p.arg for p in member.args.args[:1]]


def _calls_later(owner: Any, method: str, source: Any, sources: Sources) -> bool:
    """Whether a file names the method anywhere but in what builds the object."""
    names = {values.class_name(cls) for cls in attributes.classes(owner)}
    builders = _builders(owner, sources)
    for node in source.nodes_with(f".{method}"):
        if not isinstance(node, ast.Attribute) or node.attr != method:
            continue
        function = source.scope(node)
        cls = source.enclosing_class(node)
        if not isinstance(function, ast.FunctionDef) or cls is None or not _is_own(node.value, function):
            return True
        if cls.name in names and function.name not in builders:
            return True
    return False


def asks_unmoved(device: ast.expr | None, scope: Scope, sources: Sources) -> bool:
    """Whether `self.fc.weight.device` is asked for in code that built the module, of a part that was made without a word
    about its device: before the module could be moved, that was the default device."""
    names = [p.arg for p in scope.parameters()[:1]]
    own = (
        next((n for n in ast.walk(device) if isinstance(n, ast.Name) and n.id in names), None)
        if device
        else None
    )
    if own is None or scope.frame is not None or not values.is_module(scope.receiver):
        return False
    part = next((n.attr for n in ast.walk(device) if isinstance(n, ast.Attribute) and n.value is own), "")  # type: ignore[arg-type]
    if attributes.kind_in(scope.receiver, part) not in ("parameter", "buffer", "module"):
        return False
    places = attributes.assignments(scope.receiver, part, sources)
    plain = bool(places) and not any(is_library(p.source.path) or _says_device(p.node) for p in places)
    return plain and while_built(scope, sources)


def _says_device(node: ast.expr) -> bool:
    """Whether an expression that made a part may have told it a device."""
    return any(
        (isinstance(n, ast.keyword) and n.arg in (None, "device"))
        or (isinstance(n, ast.Attribute) and n.attr in ("device", *MOVES))
        for n in ast.walk(node)
    )
