"""Which argument a live parameter really is: a decorator or a library may have changed what it passes on.

The source says how a call's arguments line up with the parameters; the objects in the callee's frame prove it.
"""

from __future__ import annotations

from typing import Any

from . import values
from .evaluate import try_evaluate
from .scopes import MISSING, Argument, Scope, all_reaching, bindings_of
from .until import until


def held_to_identity(scope: Scope, candidates: list[Argument]) -> None:
    """Give up, or put right, each bound parameter of a live function whose object is not the argument's."""
    if scope.frame is None:
        return
    known = scope.locals
    for name, argument in list(scope.bound.items()):
        local = known.get(name, MISSING)
        if not _tells(local) or _bound_anew(name, scope):
            continue  # bound anew since, or nothing that identity could prove
        if _is(local, value_of(argument)) is not False:
            continue
        same = [c for c in candidates if _is(local, value_of(c))]
        if len(same) == 1:
            scope.bound[name] = same[0]
        else:
            del scope.bound[name]


def _bound_anew(name: str, scope: Scope) -> bool:
    """Whether a parameter's name may have been bound to something else before the line that a live frame is at."""
    found = bindings_of(scope.node).get(name)
    if not found:
        return False
    at = scope.live.node if scope.live is not None else None
    return at is None or bool(all_reaching(scope.source, found, at, until(scope)))


def value_of(argument: Argument) -> Any:
    """The live value of an argument, or MISSING."""
    held = try_evaluate(argument.node, argument.scope)
    if argument.spread and held is not MISSING:
        try:
            return values.item(held, argument.key)
        except LookupError:
            return MISSING
    return held


def _tells(value: Any) -> bool:
    return values.is_tensor(value) or values.is_module(value)


def _is(local: Any, given: Any) -> bool | None:
    """Whether an argument's value is the parameter's, itself or another view of its memory; None: unknown."""
    if given is MISSING:
        return None
    if given is local:
        return True
    if values.is_tensor(local) and values.is_tensor(given):
        key = values.storage_key(local)
        return key is not None and key == values.storage_key(given)
    return False
