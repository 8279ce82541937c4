"""The loader or sampler that the user's line draws from, and the call that constructed it."""

from __future__ import annotations

import ast
from typing import Any

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.infer import keyword
from ..evidence.passive import bases, class_module
from ..evidence.scopes import Scope


def drawing(evidence: Evidence) -> list[Any]:
    """The loaders and samplers in torch.utils.data's own frames when the error was raised, innermost first."""
    found: list[Any] = []
    for scope in reversed(evidence.scopes):
        if scope is evidence.user:
            break
        if scope.frame is not None:
            found += [v for v in list(scope.locals.values())[:200] if _is_of_data(type(v))]
    return found


def made_by(evidence: Evidence, cls: type | None = None) -> tuple[ast.expr, ast.Call, Scope] | None:
    """(the user's expression for a loader, the call that constructed it, that call's scope) for the failing line.

    With `cls`, the call that constructed the object of this class which the loader was given (`sampler=`).
    """
    user = evidence.user
    if user is None or evidence.node is None:
        return None
    nodes = [n for n in ast.walk(evidence.node) if isinstance(n, ast.Name | ast.Attribute | ast.Call)]
    for node in nodes:
        assert isinstance(node, ast.expr)
        if isinstance(node, ast.Call) and not _constructs(node, user):
            continue
        if not isinstance(node, ast.Call) and not _is_of_data(type(try_evaluate(node, user))):
            continue
        call = _construction(evidence, node, user)
        if call is None:
            continue
        inner = _given(evidence, *call, cls) if cls is not None else None
        return (node, *(inner or call))
    return None


def _given(evidence: Evidence, call: ast.Call, scope: Scope, cls: type) -> tuple[ast.Call, Scope] | None:
    for name in ("sampler", "batch_sampler"):
        argument = keyword(call, name)
        found = _construction(evidence, argument, scope) if argument is not None else None
        if found is None:
            continue
        if try_evaluate(found[0].func, found[1]) is cls:
            return found
        if found[0].args:
            return _construction(evidence, found[0].args[0], found[1])
    return None


def _construction(evidence: Evidence, node: ast.expr, scope: Scope) -> tuple[ast.Call, Scope] | None:
    if isinstance(node, ast.Call) and _constructs(node, scope):
        return node, scope
    for step in evidence.tracer.trace(node, scope, None):
        if step.editable and isinstance(step.node, ast.Call) and _constructs(step.node, step.scope):
            return step.node, step.scope
    return None


def _constructs(call: ast.Call, scope: Scope) -> bool:
    made = try_evaluate(call.func, scope)
    return values.is_class(made) and _is_of_data(made)


def _is_of_data(cls: type) -> bool:
    torch = values.torch()
    return any(
        class_module(base).startswith("torch.utils.data.") and not issubclass(base, torch.utils.data.Dataset)
        for base in bases(cls)
    )
