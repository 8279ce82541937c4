"""The value of an expression, from what is live, without running any of it.

An allow list: names, attributes, items, constants and a few conversions. Calls are never made.
"""

from __future__ import annotations

import ast
import builtins
import types
from typing import Any

from ..source.nodes import walk
from . import values
from .passive import exactly, plain_names
from .scopes import MISSING, Scope, bindings_of, comprehension_binding, dotted, position, reaching

MOST_DEPTH = 24


class Unknown(Exception):
    """The value is gone, or reading it would run code."""


def evaluate(node: ast.AST, scope: Scope, depth: int = 0) -> Any:
    """The live value of an expression; raises Unknown."""
    if depth > MOST_DEPTH:
        raise Unknown("too deep")
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return name_value(node, scope, depth)
    if isinstance(node, ast.Attribute):
        try:
            return values.attribute(evaluate(node.value, scope, depth + 1), node.attr)
        except LookupError:
            raise Unknown(node.attr) from None
    if isinstance(node, ast.Subscript):
        try:
            return values.item(evaluate(node.value, scope, depth + 1), _index(node.slice, scope, depth))
        except (LookupError, TypeError):
            raise Unknown("item") from None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = evaluate(node.operand, scope, depth + 1)
        if exactly(operand, int, float):
            return -operand
    if isinstance(node, ast.NamedExpr):
        return evaluate(node.value, scope, depth + 1)
    if isinstance(node, ast.BinOp):
        left, right = evaluate(node.left, scope, depth + 1), evaluate(node.right, scope, depth + 1)
        if type(left) is type(right) is int and isinstance(node.op, ast.Add | ast.Sub):
            return left + right if isinstance(node.op, ast.Add) else left - right
        if type(left) is type(right) is int and isinstance(node.op, ast.Mod) and right:
            return left % right
        if type(left) is type(right) is str and isinstance(node.op, ast.Add):
            return left + right
    if isinstance(node, ast.JoinedStr):
        return _formatted(node, scope, depth)
    raise Unknown(values.type_name(node))


def _formatted(node: ast.JoinedStr, scope: Scope, depth: int) -> str:
    parts: list[str] = []
    for piece in node.values:
        if isinstance(piece, ast.Constant):
            parts.append(str(piece.value))
        elif isinstance(piece, ast.FormattedValue) and piece.format_spec is None:
            value = evaluate(piece.value, scope, depth + 1)
            if not exactly(value, str, int):
                raise Unknown("format")
            parts.append(str(value))
    return "".join(parts)


def _index(node: ast.AST, scope: Scope, depth: int) -> object:
    value = evaluate(node, scope, depth + 1)
    if exactly(value, int, str, bool, float) or value is None or values.is_tensor(value):
        return value
    raise Unknown("index")


def name_value(node: ast.Name, scope: Scope, depth: int = 0) -> Any:
    """What a name holds, where the live value is still the one that was meant at this place."""
    name = node.id
    if name in scope.values:
        return scope.values[name]
    if scope.frame is not None:
        local = scope.locals
        if name in local:
            if not _stable(node, scope):
                raise Unknown(f"{name} was bound again")
            return local[name]
    else:
        if scope.receiver is not MISSING and _is_receiver(name, scope):
            return scope.receiver
        if name in scope.bound:
            argument = scope.bound[name]
            value = evaluate(argument.node, argument.scope, depth + 1)
            if argument.spread:
                try:
                    return values.item(value, argument.key)
                except LookupError:
                    raise Unknown(name) from None
            return value
        found = bindings_of(scope.node).get(name)
        if found:
            binding = reaching(scope.source, found, node)
            if (
                binding is not None
                and binding.value is not None
                and binding.kind == "assign"
                and not binding.path
            ):
                return evaluate(binding.value, scope, depth + 1)
            raise Unknown(name)
        if scope.is_parameter(name):
            raise Unknown(name)
    return global_value(name, scope)


def global_value(name: str, scope: Scope) -> Any:
    if name in scope.globals:
        return scope.globals[name]
    if name in (own := plain_names(vars(builtins))):
        return own[name]
    raise Unknown(name)


def _is_receiver(name: str, scope: Scope) -> bool:
    params = scope.parameters()
    return bool(params) and params[0].arg == name


def _stable(node: ast.Name, scope: Scope) -> bool:
    """Whether no other binding of the name ran between this place and the failure."""
    live = scope.live
    if live is None or live.node is None or not hasattr(live.node, "lineno"):
        return True
    if comprehension_binding(scope.source, node, node.id) is not None and not live.comprehension:
        return False
    if isinstance(
        scope.node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    ):
        found = [b for b in bindings_of(scope.node).get(node.id, []) if b.kind != "augmented"]
        if not found:
            return True
        inside = live.node is node or node in walk(live.node)
        if inside:
            return True
        here = reaching(scope.source, found, node)
        at_failure = reaching(scope.source, found, live.node)
        if position(node) > position(live.node):
            return True
        return here is at_failure or (here is None and at_failure is None)
    return True


def try_evaluate(node: ast.AST, scope: Scope) -> Any:
    """The value, or MISSING."""
    try:
        return evaluate(node, scope)
    except Unknown:
        return MISSING


def call_name(node: ast.AST) -> str | None:
    """The dotted name of what a call calls."""
    return dotted(node.func) if isinstance(node, ast.Call) else None


def function_of(value: Any) -> tuple[types.FunctionType, Any] | None:
    """(the Python function that a callable runs, what it is bound to), unwrapping methods, partials and caches."""
    import functools

    for _ in range(8):
        if type(value) is types.MethodType:
            if type(value.__func__) is types.FunctionType:
                inner = values.lookup(values.instance_dict(value.__func__), "__wrapped__")
                if type(inner) is types.FunctionType:
                    return inner, value.__self__
                return value.__func__, value.__self__
            value = value.__func__
            continue
        if type(value) is types.FunctionType:
            inner = values.lookup(values.instance_dict(value), "__wrapped__")
            if inner is not None and inner is not value:
                value = inner
                continue
            return value, MISSING
        if type(value) is functools.partial:
            value = values.attribute(value, "func")
            continue
        inner = values.lookup(values.instance_dict(value), "__wrapped__")
        if inner is None:
            break
        value = inner
    return None
