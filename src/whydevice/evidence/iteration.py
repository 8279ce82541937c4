"""Follows what one turn of a loop takes from what it iterates over."""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING, Any

from . import values, vocabulary
from .calls import enter, enter_method, returned
from .containers import follow_items
from .evaluate import call_name, try_evaluate
from .libraries import is_library
from .passive import bases
from .scopes import MISSING, Scope, bindings_of, own_nodes, reaching
from .steps import Step, return_step

if TYPE_CHECKING:
    from .origins import Tracer


def follow_iteration(
    tracer: Tracer, node: ast.AST, scope: Scope, steps: list[Step], path: tuple[int, ...]
) -> None:
    """What one turn of `for target in node` takes, `path` leading into the item."""
    if isinstance(node, ast.Call):
        name = call_name(node) or ""
        last = name.rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        if last == "enumerate" and node.args and path and path[0] == 1:
            follow_iteration(tracer, node.args[0], scope, steps, path[1:])
            return
        if last == "zip" and path and path[0] < len(node.args):
            follow_iteration(tracer, node.args[path[0]], scope, steps, path[1:])
            return
        if last in vocabulary.PASS_THROUGH and node.args:
            follow_iteration(tracer, node.args[0], scope, steps, path)
            return
        if isinstance(node.func, ast.Attribute) and last in ("items", "values"):
            module = _state_of(node.func.value, scope)
            if module is not None:
                tracer.follow(module, scope, steps)
                return
            rest = path[1:] if last == "items" else path
            follow_items(tracer, node.func.value, scope, steps, None, rest)
            return
        if last in ("parameters", "named_parameters", "buffers", "children", "modules") and isinstance(
            node.func, ast.Attribute
        ):
            tracer.follow(node.func.value, scope, steps)
            return
    held = try_evaluate(node, scope)
    made = try_evaluate(node.func, scope) if isinstance(node, ast.Call) else MISSING
    if values.is_class(made) and _is_loader_class(made):
        steps.append(Step("loader", node, scope, path=path))
        return
    if held is not MISSING and _is_loader(held):
        steps.append(Step("loader", node, scope, value=held, path=path))
        return
    entered = enter(node, scope, tracer.sources) if isinstance(node, ast.Call) else None
    if entered is not None and path and any(isinstance(n, ast.Yield) for n in own_nodes(entered.node)):
        steps.append(Step("call", node, scope, entered.function or "", extra={"entered": entered}))
        follow_yield(tracer, entered, steps, path)
        return
    if values.is_tensor(held) or tracer.inference.device(node, scope) == tracer.bad:
        tracer.follow(node, scope, steps, () if values.is_tensor(held) else path)
        return
    if held is not MISSING and not values.is_container(held):
        methods = [values.class_attribute(type(held), name) for name in ("__iter__", "__getitem__")]
        method = next((m for m in methods if type(m) is types.FunctionType), None)
        inner = enter_method(method, held, scope, tracer.sources) if method is not None else None
        if inner is not None and not values.is_module(held):
            if inner.source is not None and not is_library(inner.source.path):
                follow_yield(tracer, inner, steps, path)
                return
        if values.is_module(held):
            tracer.follow(node, scope, steps)
            return
        if values.type_name(held) in (
            "list_iterator",
            "generator",
            "zip",
            "enumerate",
            "map",
        ) or "DataLoader" in values.type_name(held):
            _follow_iterator(tracer, node, scope, steps, path)
            return
        steps.append(Step("loader", node, scope, value=held, path=path))
        return
    follow_items(tracer, node, scope, steps, None, path)


def _follow_iterator(
    tracer: Tracer, node: ast.AST, scope: Scope, steps: list[Step], path: tuple[int, ...]
) -> None:
    """An iterator bound to a name: go on with what it iterates over."""
    found = bindings_of(scope.node).get(node.id, []) if isinstance(node, ast.Name) else []
    binding = reaching(scope.source, found, node) if found else None
    if binding is not None and binding.value is not None and binding.kind == "assign":
        steps.append(Step("assign", binding.value, scope, node.id, binding.stmt))  # type: ignore[attr-defined]
        follow_iteration(tracer, binding.value, scope, steps, path)
        return
    if isinstance(node, ast.Name) and node.id in scope.bound:
        argument = scope.bound[node.id]
        steps.append(Step("parameter", argument.node, argument.scope, node.id, extra={"callee": scope}))
        follow_iteration(tracer, argument.node, argument.scope, steps, path)
        return
    if isinstance(node, ast.Call):
        inner = enter(node, scope, tracer.sources)
        if inner is not None:
            follow_yield(tracer, inner, steps, path)
            return
    steps.append(Step("loader", node, scope, path=path))


def _state_of(node: ast.expr, scope: Scope) -> ast.expr | None:
    """The `net` of `net.state_dict()`, written there or bound to a name: what is in it is the module's own memory."""
    if isinstance(node, ast.Name):
        binding = reaching(scope.source, bindings_of(scope.node).get(node.id, []), node)
        found = (
            binding.value if binding is not None and binding.kind == "assign" and not binding.path else None
        )
        return _state_of(found, scope) if isinstance(found, ast.Call) else None
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr == "state_dict":
        return func.value if values.is_module(try_evaluate(func.value, scope)) else None
    return None


def _is_loader(held: Any) -> bool:
    return _is_loader_class(type(held))


def _is_loader_class(cls: type) -> bool:
    return any(values.class_name(c) in ("DataLoader", "_BaseDataLoaderIter") for c in bases(cls))


def follow_yield(tracer: Tracer, inner: Scope, steps: list[Step], path: tuple[int, ...]) -> None:
    for value in returned(inner.node):
        leaf = value
        rest = path
        while rest and isinstance(leaf, ast.Tuple | ast.List) and rest[0] < len(leaf.elts):
            leaf, rest = leaf.elts[rest[0]], rest[1:]
        if tracer.is_bad(leaf, inner) is False:
            continue
        steps.append(return_step(leaf, inner))
        tracer.follow(leaf, inner, steps, rest)
        return
    steps.append(Step("unknown", inner.node, inner))
