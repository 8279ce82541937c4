"""Whether a test of the user's would hold for a live value: types, keys and dtypes, without running any of it."""

from __future__ import annotations

import ast
from typing import Any

from . import values
from .evaluate import call_name, try_evaluate
from .passive import bases, class_module, exactly
from .scopes import MISSING, Scope

_MAPPINGS = ("Mapping", "MutableMapping")
_SEQUENCES = ("Sequence", "MutableSequence", "Iterable", "Collection")


def lookup(node: ast.AST, scope: Scope, known: dict[str, Any]) -> Any:
    """The value of an expression in which some names stand for known values; MISSING when it cannot be read."""
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.Subscript):
        base, key = lookup(node.value, scope, known), lookup(node.slice, scope, known)
        if base is not MISSING and exactly(key, str, int):
            try:
                return values.item(base, key)
            except (LookupError, TypeError):
                return MISSING
        return MISSING
    if isinstance(node, ast.Attribute):
        base = lookup(node.value, scope, known)
        try:
            return values.attribute(base, node.attr) if base is not MISSING else MISSING
        except LookupError:
            return MISSING
    if isinstance(node, ast.Call) and call_name(node) == "getattr" and len(node.args) >= 2:
        base, name = lookup(node.args[0], scope, known), lookup(node.args[1], scope, known)
        try:
            return values.attribute(base, name) if base is not MISSING and type(name) is str else MISSING
        except LookupError:
            return MISSING
    return try_evaluate(node, scope)


def holds(test: ast.expr, scope: Scope, known: dict[str, Any]) -> bool | None:
    """Whether the test is true for the known values; None when it cannot be told."""
    if isinstance(test, ast.BoolOp):
        found = [holds(v, scope, known) for v in test.values]
        deciding = isinstance(test.op, ast.Or)
        if deciding in found:
            return deciding
        return None if None in found else not deciding
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = holds(test.operand, scope, known)
        return None if inner is None else not inner
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(test.left, test.ops[0], test.comparators[0], scope, known)
    if isinstance(test, ast.Call):
        return _called(test, scope, known)
    if isinstance(test, ast.Constant):
        return bool(test.value)
    return None


def _called(test: ast.Call, scope: Scope, known: dict[str, Any]) -> bool | None:
    name = (call_name(test) or "").rpartition(".")[2]
    if isinstance(test.func, ast.Attribute) and test.func.attr in ("is_floating_point", "is_complex"):
        held = lookup(test.func.value, scope, known)
        if not values.is_tensor(held) and test.args:
            held = lookup(test.args[0], scope, known)
        kind = values.dtype_of(held) if values.is_tensor(held) else None
        return None if kind is None else ("float" in kind if test.func.attr[3] == "f" else "complex" in kind)
    if not test.args:
        return None
    held = lookup(test.args[0], scope, known)
    if held is MISSING:
        return None
    if name == "is_tensor":
        return values.is_tensor(held)
    if name == "isinstance" and len(test.args) == 2:
        return _is_a(held, test.args[1], scope)
    if name == "hasattr" and len(test.args) == 2 and isinstance(test.args[1], ast.Constant):
        asked = test.args[1].value
        if type(asked) is not str:
            return None
        return (
            values.class_attribute(type(held), asked) is not None
            or values.lookup(values.instance_dict(held), asked, MISSING) is not MISSING
        )
    return None


def _is_a(held: Any, kind: ast.expr, scope: Scope) -> bool | None:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    answers: list[bool | None] = []
    for each in kinds:
        cls = try_evaluate(each, scope)
        if type(cls) is tuple:
            answers += [_of_class(held, c) for c in cls]
        else:
            answers.append(_of_class(held, cls))
    if True in answers:
        return True
    return None if None in answers else False


def _of_class(held: Any, cls: Any) -> bool | None:
    if not values.is_class(cls):
        return None
    if class_module(cls) in ("collections.abc", "typing", "_collections_abc"):
        if values.class_name(cls) in _MAPPINGS:
            return issubclass(type(held), dict)
        if values.class_name(cls) in _SEQUENCES:
            return issubclass(type(held), list | tuple | str)
        return None
    return any(base is cls for base in bases(type(held)))


def _compared(
    left: ast.expr, op: ast.cmpop, right: ast.expr, scope: Scope, known: dict[str, Any]
) -> bool | None:
    negated = isinstance(op, ast.NotEq | ast.NotIn | ast.IsNot)
    if isinstance(left, ast.Call) and call_name(left) == "type" and left.args:
        held, cls = lookup(left.args[0], scope, known), lookup(right, scope, known)
        if held is MISSING or not values.is_class(cls):
            return None
        return (type(held) is cls) != negated
    a = lookup(left, scope, known)
    if isinstance(right, ast.Tuple | ast.List | ast.Set) and isinstance(op, ast.In | ast.NotIn):
        b: Any = [lookup(e, scope, known) for e in right.elts]
    else:
        b = lookup(right, scope, known)
    if a is MISSING or b is MISSING:
        return None
    if isinstance(op, ast.Is | ast.IsNot):
        return (a is b) != negated if a is None or b is None else None
    if isinstance(op, ast.Eq | ast.NotEq):
        return (a == b) != negated if type(a) is type(b) and exactly(a, str, int, bool) else None
    if isinstance(op, ast.In | ast.NotIn) and exactly(a, str, int):
        if exactly(b, list, tuple, set, frozenset, dict) and all(exactly(e, str, int) for e in b):
            return (a in b) != negated
    return None
