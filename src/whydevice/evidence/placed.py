"""The modules that an edit moves as a whole: what they were built with goes along."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from ..source import EditError, Source
from ..types import Edit
from . import values
from .attributes import kind_in
from .scopes import MISSING, Scope, bindings_of, dotted
from .steps import Step

_BUILDERS = ("__init__", "__post_init__")
_MOVES = ("to", "cuda")


def constructing(scope: Scope) -> bool:
    """Whether a function builds an object, so that what it keeps is there before anybody can move it."""
    return scope.function in _BUILDERS


def registered_part(step: Step) -> bool:
    """Whether a step is a parameter, buffer or module that its module was built with."""
    return (
        step.kind == "attribute"
        and values.is_module(step.owner)
        and constructing(step.scope)
        and kind_in(step.owner, step.name) in ("parameter", "buffer", "module")
    )


def moved(
    edit: Edit, begin: int, new: Source, scopes: Sequence[Scope]
) -> Iterator[tuple[Any, ast.Call, Scope]]:
    """The live modules whose one name is bound to what the edit moves (`net = Net()` as `net = Net().to(device)`).

    `begin` is where the edit's text starts in the edited source. Each with the call and the scope that it runs in.
    """
    if not any(f".{word}(" in edit.text for word in _MOVES):
        return
    try:
        tree = new.tree_at(new.line_at(begin))
    except EditError:
        return
    for call in ast.walk(tree):
        if not (
            isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES
        ):
            continue
        if not begin < new.end(call) <= begin + len(edit.text):
            continue
        statement = new.statement(call)
        if (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and _spine(statement.value, call)
        ):
            for scope in scopes:
                held = _held(statement, new, scope)
                if values.is_module(held):
                    yield held, call, scope


def _spine(value: ast.expr, call: ast.Call) -> bool:
    """Whether an expression is the call, or methods of what it gives back (`net.to(device).eval()`)."""
    while value is not call:
        if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)):
            return False
        value = value.func.value
    return True


def _held(statement: ast.Assign, new: Source, scope: Scope) -> Any:
    """What the target of an assignment holds in a scope that binds it nowhere else."""
    function = new.scope(statement)
    if scope.source.path != new.path or getattr(function, "name", "") != getattr(scope.node, "name", ""):
        return MISSING
    name = dotted(statement.targets[0])
    if name is None or len(bindings_of(scope.node).get(name, [])) != 1:
        return MISSING
    first, _, attribute = name.partition(".")
    held = scope.locals.get(first, MISSING) if scope.frame is not None else MISSING
    if not attribute:
        return held
    try:
        return MISSING if held is MISSING or "." in attribute else values.attribute(held, attribute)
    except LookupError:
        return MISSING
