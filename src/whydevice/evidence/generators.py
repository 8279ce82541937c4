"""Which call made a generator that runs now: what asks it for its next item is another line, and often no call."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from inspect import CO_GENERATOR
from typing import Any

from . import values
from .arguments import held_to_identity, value_of
from .calls import enter
from .evaluate import function_of, try_evaluate
from .libraries import is_library
from .scopes import MISSING, Argument, Scope, own_nodes
from .sources import Sources


def is_generator(scope: Scope) -> bool:
    """Whether a live scope is the body of a generator function."""
    code = scope.frame.f_code if scope.frame is not None else None
    return isinstance(scope.node, ast.FunctionDef) and code is not None and bool(code.co_flags & CO_GENERATOR)


def bind_generator(scope: Scope, scopes: list[Scope], sources: Sources) -> None:
    """Bind the parameters of a live generator function to the call that made it, of those that live frames show."""
    found = [entered for entered in _calls(scope, scopes, sources) if _agrees(scope, entered)]
    if not found:
        scope.bound = {}
        return
    first = found[0]
    if first.receiver is not MISSING:
        scope.receiver = first.receiver
    if len(found) == 1:
        scope.caller, scope.call = first.caller, first.call
    scope.bound = {
        name: argument
        for name, argument in first.bound.items()
        if all(_same(argument, other.bound.get(name)) for other in found[1:])
    }


def _calls(scope: Scope, scopes: list[Scope], sources: Sources) -> Iterator[Scope]:
    """The scope as each call of its function in the user's live frames would enter it, innermost first."""
    assert scope.frame is not None
    for caller in reversed(scopes):
        if is_library(caller.source.path):
            continue
        for call in own_nodes(caller.node):
            if isinstance(call, ast.Call) and _runs(call.func, caller) is scope.frame.f_code:
                entered = enter(call, caller, sources)
                if entered is not None and entered.node is scope.node:
                    yield entered


def _runs(func: ast.expr, scope: Scope) -> types.CodeType | None:
    """The code that a call of an expression runs, as far as it is known."""
    held = try_evaluate(func, scope)
    if held is MISSING:
        return None
    if values.is_module(held):
        found: Any = values.class_attribute(type(held), "forward")
    else:
        resolved = function_of(held)
        found = resolved[0] if resolved is not None else None
    return found.__code__ if type(found) is types.FunctionType else None


def _agrees(scope: Scope, entered: Scope) -> bool:
    """Whether a call's arguments may be what the frame's parameters hold."""
    if entered.receiver is not MISSING:
        first = scope.parameters()[0].arg if scope.parameters() else ""
        if scope.locals.get(first, entered.receiver) is not entered.receiver:
            return False
    scope.bound = dict(entered.bound)
    held_to_identity(scope, [])
    return len(scope.bound) == len(entered.bound)


def _same(one: Argument, other: Argument | None) -> bool:
    held = value_of(one)
    return other is not None and held is not MISSING and held is value_of(other)
