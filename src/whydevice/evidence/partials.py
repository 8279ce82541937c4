"""What a `functools.partial` was given when it was made: its arguments stand in the source of that call."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Iterator
from typing import Any

from . import attributes, values
from .evaluate import try_evaluate
from .passive import exactly
from .scopes import MISSING, Argument, Scope, all_reaching, bindings_of, dotted
from .sources import Sources

MOST_NAMES = 8
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)


def is_partial(held: Any) -> bool:
    return type(held) is functools.partial


def construction(
    func: ast.expr, scope: Scope, sources: Sources, depth: int = 0
) -> tuple[ast.Call, Scope] | None:
    """The `partial(...)` call that an expression's value came from, and the scope of that call."""
    if depth > MOST_NAMES:
        return None
    if isinstance(func, ast.Call):
        return (func, scope) if try_evaluate(func.func, scope) is functools.partial else None
    for value, holder in _given(func, scope, sources):
        found = construction(value, holder, sources, depth + 1)
        if found is not None:
            return found
    return None


def _given(func: ast.expr, scope: Scope, sources: Sources) -> Iterator[tuple[ast.expr, Scope]]:
    """The expressions that a name or attribute may have got its value from, with their scopes."""
    if isinstance(func, ast.Name):
        for binding in all_reaching(scope.source, bindings_of(scope.node).get(func.id, []), func):
            if binding.value is not None and not binding.path and binding.kind in ("assign", "walrus"):
                yield binding.value, scope
        if func.id in scope.bound and not scope.bound[func.id].spread:
            yield scope.bound[func.id].node, scope.bound[func.id].scope
        elif func.id not in bindings_of(scope.node):
            yield from _outside(func.id, scope)
    elif isinstance(func, ast.Attribute):
        owner = try_evaluate(func.value, scope)
        if owner is MISSING:
            return
        for place in attributes.assignments(owner, func.attr, sources):
            if place.method is not None and not place.path:
                live = next((s for s in _callers(scope) if s.node is place.method), None)
                bare = Scope(place.source, place.method, scope.globals, receiver=owner, depth=scope.depth + 1)
                yield place.node, live or bare


def _outside(name: str, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """The values of a name of an enclosing function or of the module, last first."""
    here = scope.source.scope(scope.node)
    while here is not None:
        holder = next((s for s in _callers(scope) if s.node is here and s.source is scope.source), None)
        holder = holder or Scope(scope.source, here, scope.globals, depth=scope.depth + 1)
        for binding in reversed(bindings_of(here).get(name, [])):
            if binding.value is not None and not binding.path and binding.kind in ("assign", "walrus"):
                yield binding.value, holder
        if name in holder.bound and not holder.bound[name].spread:
            yield holder.bound[name].node, holder.bound[name].scope
        if isinstance(here, ast.Module):
            return
        here = scope.source.scope(here)


def _callers(scope: Scope) -> Iterator[Scope]:
    here: Scope | None = scope
    while here is not None:
        yield here
        here = here.caller


def only_call(held: Any, scope: Scope, sources: Sources) -> tuple[ast.Call, Scope] | None:
    """The one `partial(...)` in the user's files that can have made a partial; None if none or several can."""
    if not is_partial(held):
        return None
    found = []
    for source in sources.users():
        for node in source.nodes_with("partial"):
            if isinstance(node, ast.Call) and _may_make(held, node):
                found.append((node, source))
    if len(found) != 1:
        return None
    call, source = found[0]
    names: dict[str, Any] = next((s.globals for s in source.scopes), {})
    return call, Scope(source, source.scope(call), names, depth=scope.depth + 1)


def _may_make(held: Any, call: ast.Call) -> bool:
    """Whether a call is `partial` of a function of this name, with as many arguments and the same keywords."""
    given, keywords = values.attribute(held, "args"), values.attribute(held, "keywords")
    function = values.attribute(held, "func")
    name = getattr(function, "__name__", "") if exactly(function, *_FUNCTIONS) else ""
    if (dotted(call.func) or "").rpartition(".")[2] != "partial" or not call.args or not name:
        return False
    written = {k.arg for k in call.keywords}
    if any(isinstance(a, ast.Starred) for a in call.args) or None in written:
        return False
    return (
        (dotted(call.args[0]) or "").rpartition(".")[2] == name
        and len(call.args) - 1 == len(given)
        and written == {key for key, _ in values.named(keywords)}
    )


def unknown_arguments(held: Any, func: ast.expr, scope: Scope) -> tuple[list[Argument], dict[str, Argument]]:
    """The arguments of a partial whose making is not seen: they keep their places, and lead no further."""
    given = values.attribute(held, "args"), values.attribute(held, "keywords")
    positional = [Argument(func, scope, spread="partial", key=index) for index in range(len(given[0]))]
    return positional, {name: Argument(func, scope, spread="partial", key=name) for name in given[1]}
