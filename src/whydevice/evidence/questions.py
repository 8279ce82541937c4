"""What a test of the user's asks about: the data of this pass, which the next one may answer otherwise, or a setting."""

from __future__ import annotations

import ast
from typing import Literal

from . import values
from .evaluate import call_name, try_evaluate
from .passive import class_module, exactly
from .scopes import (
    MISSING,
    Scope,
    bindings_of,
    comprehension_binding,
    reaching,
)

Subject = Literal["data", "setting", "environment", "unknown"]

_MOST_FOLLOWED = 4
_SETTINGS = frozenset(
    "args cfg config conf opt opts options hparams hp flags settings params_ namespace".split()
)
_OF_DATA = frozenset(
    "numel nelement size shape ndim dim any all item sum max min isnan isinf nonzero count_nonzero".split()
)
_COUNTED = frozenset("len any all sum min max".split())
_OF_THE_MACHINE = frozenset(
    "is_available device_count is_cuda device get_device isinstance issubclass hasattr is_tensor callable "
    "__name__ TYPE_CHECKING get_rank world_size is_initialized".split()
)

_AT_ZERO: dict[tuple[int, type[ast.cmpop]], bool] = {
    (0, ast.Eq): True, (0, ast.LtE): True, (1, ast.Lt): True,
    (0, ast.NotEq): False, (0, ast.Gt): False, (1, ast.GtE): False,
}  # fmt: skip
"""Comparisons of a length with a limit that ask whether it is 0, and whether they hold then."""


def subject(test: ast.AST, scope: Scope) -> Subject:
    """What decides a test: `data`, a `setting` of the run, the `environment` (its GPUs, an operand's type), or `unknown`."""
    names = {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    names |= {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    if names & _OF_THE_MACHINE:
        return "environment"
    return _joined([_of(test, scope, 0)])


def _joined(found: list[Subject]) -> Subject:
    if "data" in found:
        return "data"
    return "setting" if found and all(f == "setting" for f in found) else "unknown"


def _of(node: ast.AST, scope: Scope, depth: int) -> Subject:
    """What the value of an expression depends on."""
    if isinstance(node, ast.Constant):
        return "setting"
    if isinstance(node, ast.Name):
        return _of_name(node, scope, depth)
    if isinstance(node, ast.Attribute):
        base = _of(node.value, scope, depth)
        return "data" if node.attr in _OF_DATA and base != "setting" else base
    if isinstance(node, ast.Subscript):
        return _of(node.value, scope, depth)
    if isinstance(node, ast.Call):
        asked = [*node.args, *(k.value for k in node.keywords)]
        found = [_of(a, scope, depth) for a in asked]
        if call_name(node) in _COUNTED and asked and found != ["setting"]:
            return "data"
        if isinstance(node.func, ast.Attribute):
            found.append(_of(node.func, scope, depth))
        return _joined(found) if "data" in found else "unknown"
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.Compare | ast.IfExp | ast.NamedExpr):
        parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        return _joined([_of(part, scope, depth) for part in parts])
    return "unknown"


def _of_name(node: ast.Name, scope: Scope, depth: int) -> Subject:
    if node.id.lower() in _SETTINGS:
        return "setting"
    if depth > _MOST_FOLLOWED:
        return "unknown"
    inner = comprehension_binding(scope.source, node, node.id)
    found = bindings_of(scope.node).get(node.id, [])
    if inner is not None or any(b.kind in ("augmented", "loop") for b in found):
        return "data"
    binding = reaching(scope.source, found, node)
    if binding is not None and binding.value is not None and binding.kind in ("assign", "walrus"):
        return "data" if _holds_data(node, scope) else _of(binding.value, scope, depth + 1)
    if node.id in scope.bound:
        argument = scope.bound[node.id]
        if _holds_data(node, scope):
            return "data"
        return _of(argument.node, argument.scope, depth + 1) if not argument.spread else "unknown"
    if scope.is_parameter(node.id):
        return "data" if _holds_data(node, scope) else "unknown"
    return _of_global(node, scope)


def _of_global(node: ast.Name, scope: Scope) -> Subject:
    held = try_evaluate(node, scope)
    if held is MISSING or values.is_tensor(held) or values.is_container(held):
        return "unknown"
    if exactly(held, bool, int, float, str) or _is_namespace(held):
        return "setting"
    return "unknown"


def _is_namespace(held: object) -> bool:
    """Whether an object is a bag of options: argparse's, a SimpleNamespace, a dataclass that is no module."""
    kind = type(held)
    if class_module(kind) in ("argparse", "types") and values.class_name(kind) in (
        "Namespace",
        "SimpleNamespace",
    ):
        return True
    return values.class_attribute(kind, "__dataclass_fields__") is not None and not values.is_module(held)


def _holds_data(node: ast.Name, scope: Scope) -> bool:
    return values.is_tensor(try_evaluate(node, scope))


def asked_empty(test: ast.expr, scope: Scope) -> tuple[ast.expr, bool] | None:
    """(what is asked about, whether the test holds when it is empty) for a test of emptiness; None for any other."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = asked_empty(test.operand, scope)
        return (inner[0], not inner[1]) if inner is not None else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        counted, limit, op = _counted(test.left), test.comparators[0], test.ops[0]
        if counted is None or not (isinstance(limit, ast.Constant) and type(limit.value) is int):
            return None
        holds = _AT_ZERO.get((limit.value, type(op)))
        return (counted, holds) if holds is not None else None
    counted = _counted(test)
    if counted is not None:
        return counted, False
    held = try_evaluate(test, scope)
    if isinstance(test, ast.Name | ast.Attribute) and exactly(held, list, tuple, dict, set, frozenset):
        return test, False
    return None


def _counted(node: ast.expr) -> ast.expr | None:
    """The x of `len(x)`, `x.numel()`, `x.shape[0]`, `x.size(0)`."""
    if isinstance(node, ast.Call) and call_name(node) == "len" and len(node.args) == 1:
        return node.args[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("numel", "nelement") and not node.args:
            return node.func.value
        if node.func.attr == "size" and len(node.args) == 1 and _is_zero(node.args[0]):
            return node.func.value
    if isinstance(node, ast.Subscript) and _is_zero(node.slice):
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return node.value.value
    return None


def _is_zero(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 0


def asked_none(test: ast.expr) -> tuple[ast.expr, bool] | None:
    """(what is asked about, whether the test holds when it is None) for `x is None`; None for any other test."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = asked_none(test.operand)
        return (inner[0], not inner[1]) if inner is not None else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is | ast.IsNot):
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None:
            return test.left, isinstance(test.ops[0], ast.Is)
    return None
