"""Where on its way a value is put together with others: what is moved further back has to be moved with all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..evidence.collect import Evidence
from ..evidence.infer import NOT_A_TENSOR
from ..evidence.scopes import Scope
from ..evidence.steps import Step

_JOINING = frozenset(
    "cat concat concatenate stack hstack vstack dstack column_stack row_stack block_diag".split()
)


def up_to_mixing(evidence: Evidence, steps: list[Step]) -> list[Step]:
    """The way up to the last place where the value is joined with tensors that may be elsewhere once it is moved."""
    for index in range(len(steps) - 1):
        if _mixes(evidence, steps[index], steps[index + 1]):
            return steps[: index + 1]
    return steps


def _mixes(evidence: Evidence, outer: Step, inner: Step) -> bool:
    """Whether a step's expression joins what comes from the next step with a tensor whose device is not known."""
    source, scope = outer.scope.source, outer.scope
    here = next(_place(outer, inner), None)
    while here is not None and here is not outer.node:
        up = source.parent(here)
        call = source.parent(up) if isinstance(up, ast.List | ast.Tuple) else None
        if (
            isinstance(call, ast.Call)
            and _joins(evidence, call, scope)
            and isinstance(up, ast.List | ast.Tuple)
        ):
            if any(_unknown(evidence, other, scope) for other in up.elts if other is not here):
                return True
        here = up
    return False


def _place(outer: Step, inner: Step) -> Iterator[ast.AST]:
    """Where the next step's value stands in a step's expression."""
    known = (inner.node, inner.extra.get("use"))
    for node in ast.walk(outer.node):
        if node in known or (
            isinstance(node, ast.Name | ast.Attribute) and inner.name and ast.unparse(node) == inner.name
        ):
            yield node


def _joins(evidence: Evidence, call: ast.Call, scope: Scope) -> bool:
    kind, name = evidence.inference.call_kind(call, scope)
    return kind == "torch" and name.rpartition(".")[2] in _JOINING


def _unknown(evidence: Evidence, node: ast.expr, scope: Scope) -> bool:
    """Whether a tensor may be on another device than the wanted one, and is not made there to be moved as well."""
    device = evidence.inference.device(node, scope)
    if device == NOT_A_TENSOR or device == evidence.wanted:
        return False
    if device is None:
        return True
    inner = node.value if isinstance(node, ast.Starred) else node
    last = evidence.trace(inner, scope)[-1]
    return not (last.kind in ("factory", "constructor") and last.editable)
