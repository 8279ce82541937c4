"""Which argument of a torch function stands where, from PyTorch's own schemas."""

from __future__ import annotations

import ast
import types

from . import values
from .operands import Leaf


def names_of(one: Leaf, call: ast.AST | None) -> frozenset[str]:
    """The names that PyTorch's overloads give to the argument that an operand of a call is."""
    if one.role is None or not isinstance(call, ast.Call):
        return frozenset()
    if not one.role.isdigit():
        return frozenset([one.role])
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return frozenset(arguments[index] for arguments, index in _places(name, one, call))


def _places(name: str, one: Leaf, call: ast.Call) -> list[tuple[list[str], int]]:
    index = int(one.role or 0)
    if isinstance(call.func, ast.Attribute) and one.node in call.args:
        # A method's receiver is the schema's first argument; a namespace (`torch`, `F`) is none.
        index += not _is_namespace(call.func.value, one)
    found = []
    for arguments in _overloads(name):
        if index < len(arguments):
            found.append((arguments, index))
    return found


def _is_namespace(node: ast.expr, one: Leaf) -> bool:
    from .evaluate import try_evaluate

    held = try_evaluate(node, one.scope)
    return values.is_class(held) or type(held) is types.ModuleType


def _overloads(name: str) -> list[list[str]]:
    """The argument names of each overload of `aten::name`; none for what is no op."""
    torch = values.torch()
    try:
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    except (AttributeError, RuntimeError):
        return []
    return [[str(argument.name) for argument in schema.arguments] for schema in schemas]
