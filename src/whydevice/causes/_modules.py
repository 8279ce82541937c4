"""What the causes about modules share: where one was constructed, and how it would be moved there."""

from __future__ import annotations

import ast
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.operands import Held, Leaf
from ..evidence.scopes import Scope
from ..evidence.steps import Step
from ._finding import Mend
from ._moves import move_text


def wrong_module(evidence: Evidence) -> tuple[Leaf, Any, Held | None] | None:
    """(operand, the module that is on the wrong device as a whole, the tensor that failed in it)."""
    wrong = evidence.wrong
    if wrong is None:
        return None
    leaf = wrong.leaf
    if leaf.is_module and leaf.device == wrong.device:
        return leaf, leaf.value, wrong.held
    held = wrong.held
    if held is not None and held.kind in ("parameter", "buffer") and values.is_module(held.owner):
        return leaf, held.owner, held
    return None


def state_kinds(module: Any) -> set[str]:
    return {kind for _, _, kind in values.module_tensors(module)}


def moved_construction(evidence: Evidence, steps: list[Step]) -> Mend | None:
    """`Net()` as `Net().to(device)` at the construction that the way leads to."""
    built = next((s for s in reversed(steps) if s.kind in ("construct", "library") and s.editable), None)
    if built is None or not isinstance(built.node, ast.expr):
        built = next((s for s in reversed(steps) if s.kind == "assign" and s.editable and not s.path), None)
    if built is None or not isinstance(built.node, ast.expr):
        return None
    return appended_move(evidence, built.node, built.scope)


def appended_move(
    evidence: Evidence, node: ast.expr, scope: Scope, title: str = "move it where it is made"
) -> Mend | None:
    if evidence.wrong_device == "meta":
        return None  # a meta tensor has no data to move
    text = move_text(evidence, scope, node)
    if text is None:
        return None
    made = edits.append_method(scope.source, node, text)
    return Mend(title, made, node, scope)
