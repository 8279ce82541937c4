"""Facts about the live objects of the frames that several causes ask for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.passive import class_module
from ..evidence.scopes import Scope, own_nodes


class Unregistered(NamedTuple):
    """A module that its owner keeps in a plain container, where `.to()` does not reach it."""

    owner: Any
    attribute: str
    kind: str  # list | dict
    container: str  # the name of the container's type
    expression: str  # what the user's frame calls the owner
    scope: Scope


def owners(evidence: Evidence) -> Iterator[tuple[Any, str, Scope]]:
    """The objects that the user's frames can see, innermost first: (object, its name, scope)."""
    seen: set[int] = set()
    for scope in reversed(evidence.scopes):
        if scope.frame is None:
            continue
        for name, value in list(scope.locals.items())[:200]:
            if id(value) in seen or class_module(type(value)) in ("builtins", "types"):
                continue
            seen.add(id(value))
            yield value, name, scope


def unregistered(evidence: Evidence, module: Any) -> Unregistered | None:
    """Whether some module of the frames keeps `module` in a list, dict or tuple of its own."""
    for owner, name, scope in owners(evidence):
        if not values.is_module(owner):
            continue
        for path, sub, attribute, held in values.plain_state(owner):
            if values.is_container(held) and _contains(held, module, 0):
                kind = "dict" if issubclass(type(held), dict) else "list"
                shown = f"{name}.{path}" if path else name
                return Unregistered(sub, attribute, kind, values.type_name(held), shown, scope)
    return None


def _contains(held: Any, module: Any, depth: int) -> bool:
    for _, item in values.items(held):
        if item is module:
            return True
        if values.is_module(item) and any(sub is module for _, sub in values.submodules(item)):
            return True
        if depth < 2 and values.is_container(item) and _contains(item, module, depth + 1):
            return True
    return False


def discarded_moves(evidence: Evidence, scope: Scope, names: set[str]) -> Iterator[ast.Expr]:
    for node in own_nodes(scope.node):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        call = node.value
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("to", "cuda", "cpu"):
            continue
        if not names & {ast.unparse(call.func.value), _container(call.func.value)}:
            continue
        if values.is_module(try_evaluate(call.func.value, scope)):
            continue
        if evidence.inference.moved_to(call, scope) == evidence.wanted:
            yield node


def _container(node: ast.expr) -> str:
    """`batch` of `batch[key]`; nothing for what is no item."""
    return ast.unparse(node.value) if isinstance(node, ast.Subscript) else ""


def is_replica(module: Any) -> bool:
    """Whether a module is one of the copies that DataParallel makes for a call."""
    return values.is_module(module) and values.lookup(values.instance_dict(module), "_is_replica") is True


def requires_grad(value: Any) -> bool:
    """Whether autograd tracks a tensor: `.numpy()` then needs `.detach()`."""
    torch = values.torch()
    if not values.is_tensor(value):
        return False
    with torch._C.DisableTorchFunction():
        return bool(torch._C.TensorBase.requires_grad.__get__(value))
