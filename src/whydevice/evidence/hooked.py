"""What PyTorch gives a hook: the inputs, outputs and gradients of the module that it is registered on."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from ..patterns import pattern
from . import values
from .passive import instance_dict
from .scopes import Scope
from .sources import ScopeNode, Source

_REGISTERS = pattern(r"register_(?:forward_|(?:full_)?backward_)(?:pre_)?hook")


def in_hook(node: ast.AST, scope: Scope) -> bool:
    """Whether an expression is an argument of the hook that it stands in, an item of one, or a method's result on it."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute) or node.args:
                return False
            node = node.func
        node = node.value
    if not isinstance(node, ast.Name) or scope.frame is not None:
        return False
    names = [p.arg for p in scope.parameters()]
    owned = scope.source.enclosing_class(scope.node) is not None
    return node.id in names[1 if owned else 0 :] and registered(scope.node, scope.source)


def registered(function: ScopeNode, source: Source) -> bool:
    """Whether its file registers a function as a hook, by its name: `layer.register_forward_hook(self._keep)`."""
    around = source.enclosing_class(function) or source.scope(function) if source.long else source.tree
    for node in ast.walk(around) if around is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            given = node.args[0]
            if isinstance(given, ast.Call) and given.args:
                given = given.args[0]  # a partial of it
            name = given.attr if isinstance(given, ast.Attribute) else getattr(given, "id", None)
            if name == getattr(function, "name", "") and _REGISTERS.fullmatch(node.func.attr):
                return True
    return False


def modules_at_hand(scopes: Iterable[Scope]) -> Iterator[Any]:
    """The modules that the user's live frames hold, and those that their objects keep."""
    for scope in scopes:
        if scope.frame is None or scope.live is None or scope.live.library:
            continue
        for held in list(scope.locals.values())[:200]:
            if values.is_module(held):
                yield held
        for held in list(instance_dict(scope.receiver).values())[:40]:
            if values.is_module(held):
                yield held


def all_on(scopes: Iterable[Scope], device: str | None) -> bool:
    """Whether all the modules at hand that have state are on one device, so that what goes through them is."""
    found = [d for module in modules_at_hand(scopes) for d in values.module_devices(module)]
    return device is not None and bool(found) and set(found) == {device}
