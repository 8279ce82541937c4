"""Which of a function's returns can have given a value: not one in an arm that a setting shuts, nor one of another kind."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from . import values
from .calls import returned
from .conditions import holds
from .infer import NOT_A_TENSOR, Inference
from .passive import exactly
from .scopes import MISSING, Scope, bindings_of, dotted
from .steps import Step

_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_CARRIES = ("use", "assign", "parameter", "call")
"""Steps over which a value comes as one piece."""


def reached(scope: Scope) -> list[ast.expr]:
    """The returned expressions of an activation, but for those that its settings rule out; all where none is left."""
    found = returned(scope.node)
    if len(found) < 2:
        return found
    return [value for value in found if not _shut_off(value, scope)] or found


def fitting(
    found: list[ast.expr], scope: Scope, steps: Sequence[Step], inference: Inference
) -> list[ast.expr]:
    """Those of several returned expressions that can be the live value which they became; all where none is left."""
    held = _whole(steps)
    if len(found) < 2 or held is MISSING or held is None:
        return found
    return [value for value in found if not _of_another_kind(value, held, scope, inference)] or found


def _whole(steps: Sequence[Step]) -> Any:
    """The live value at the use, where it came from the call as it is."""
    if not steps or any(s.kind not in _CARRIES or s.path for s in steps):
        return MISSING
    return steps[0].value


def _of_another_kind(node: ast.expr, held: Any, scope: Scope, inference: Inference) -> bool:
    for literal, kind in ((ast.Tuple, tuple), (ast.List, list), (ast.Dict, dict)):
        if type(node) is literal:
            return not issubclass(type(held), kind)
    if values.is_tensor(held) or not values.is_container(held):
        return False
    return _is_one_tensor(node, scope, inference)


def _is_one_tensor(node: ast.expr, scope: Scope, inference: Inference) -> bool:
    """Whether an expression, or what its name was bound to, is a call of torch's that makes one tensor."""
    if isinstance(node, ast.Name):
        bound = [b for b in bindings_of(scope.node).get(node.id, []) if b.kind == "assign"]
        if len(bound) != 1 or bound[0].path or bound[0].value is None:
            return False
        node = bound[0].value
    if not isinstance(node, ast.Call) or inference.device(node, scope) in (None, NOT_A_TENSOR):
        return False
    return inference.call_kind(node, scope)[0] in ("factory", "constructor", "like", "move")


def _shut_off(node: ast.expr, scope: Scope) -> bool:
    child: ast.AST = node
    for up in scope.source.ancestors(node):
        if isinstance(up, ast.If | ast.IfExp) and child is not up.test:
            arm = up.body if isinstance(up.body, list) else [up.body]
            if _settled(up.test, scope) is (child not in arm):
                return True
        if _left_before(child, up, scope):
            return True
        if up is scope.node:
            return False
        child = up
    return False


def _left_before(child: ast.AST, holder: ast.AST, scope: Scope) -> bool:
    """Whether an `if` above a statement in its own block was taken, and left the block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(holder, name, None)
        if isinstance(block, list) and child in block:
            return any(
                isinstance(s, ast.If) and isinstance(s.body[-1], _LEAVING) and _settled(s.test, scope)
                for s in block[: block.index(child)]
            )
    return False


def _settled(test: ast.expr, scope: Scope) -> bool | None:
    """How a test of a setting came out; None where it cannot be told, or where the function itself changes it."""
    asked = [n for n in ast.walk(test) if isinstance(n, ast.Name | ast.Attribute)]
    names = {name for name in map(dotted, asked) if name is not None}
    compared = [n for n in ast.walk(test) if isinstance(n, ast.Compare)]
    # Only what compares with a constant other than None: `self.cache is None` was true before this very call.
    if not compared or not all(_with_a_constant(n) for n in compared):
        return None
    if any(isinstance(n, ast.Call) for n in ast.walk(test)) or names & set(bindings_of(scope.node)):
        return None
    return holds(test, scope, {})


def _with_a_constant(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    written = [n.value for side in sides for n in ast.walk(side) if isinstance(n, ast.Constant)]
    return bool(written) and all(exactly(v, str, bool) for v in written)
