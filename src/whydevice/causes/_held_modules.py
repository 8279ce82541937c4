"""A module in a dict, list or tuple that a function returned: that has no `.to()`, its modules have."""

from __future__ import annotations

import ast
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.anchors import LITERAL
from ..evidence.collect import Evidence
from ..evidence.moveless import has_move, moveless
from ..evidence.passive import exactly
from ..evidence.scopes import own_nodes
from ..evidence.steps import Step
from ._finding import Mend
from ._moves import best_anchor, bound_now, move_text


def is_holder(evidence: Evidence, step: Step) -> bool:
    """Whether what a step binds is known to have no `.to()`, so that it holds the module."""
    if step.path or not isinstance(step.node, ast.expr):
        return False
    return not has_move(bound_now(step)) or moveless(step.node, step.scope, evidence.sources)


def held_mend(evidence: Evidence, built: Step | None, step: Step, text: str) -> Mend | None:
    """Move the module where it is made, if a device is at hand there and no other one needs it; else all that are held."""
    inside = _where_made(evidence, built)
    held = bound_now(step)
    if inside is not None and not inside[1] and len(_wrong(evidence, held)) < 2:
        return inside[0]
    return _each(held, step, text) or (inside[0] if inside is not None else None)


def _where_made(evidence: Evidence, built: Step | None) -> tuple[Mend, bool] | None:
    """(the move at the construction, whether its device is written as a string there)."""
    if built is None or not built.editable or not isinstance(built.node, ast.expr) or _called_there(built):
        return None
    text = move_text(evidence, built.scope, built.node)
    if text is None:
        return None
    anchor = best_anchor(evidence, built.scope, built.node)
    made = edits.append_method(built.scope.source, built.node, text)
    return Mend("move it where it is made", made, built.node, built.scope), _literal(anchor)


def _called_there(built: Step) -> bool:
    """Whether the function that makes the module also calls what it binds it to: with an input of that place."""
    statement = built.scope.source.statement(built.node)
    names = {
        target.id
        for t in getattr(statement, "targets", ())
        for target in ast.walk(t)
        if isinstance(target, ast.Name)
    }
    for node in own_nodes(built.scope.node):
        held = node.func if isinstance(node, ast.Call) else None
        while isinstance(held, ast.Subscript):
            held = held.value
        if isinstance(held, ast.Name) and held.id in names:
            return True
    return False


def _literal(anchor: Any) -> bool:
    return anchor is None or anchor.rank == LITERAL


def _wrong(evidence: Evidence, held: Any) -> list[Any]:
    """The modules of a container that are on the wrong device."""
    if not exactly(held, dict, list, tuple):
        return []
    modules = [item for _, item in values.items(held) if values.is_module(item)]
    return [one for one in modules if evidence.wrong_device in values.module_devices(one)]


def _each(held: Any, step: Step, text: str) -> Mend | None:
    """`{name: module.to(device) for name, module in build().items()}`, where nothing but modules is held."""
    if not exactly(held, dict, list, tuple) or not isinstance(step.node, ast.expr):
        return None
    found = [item for _, item in values.items(held)]
    if not found or not all(values.is_module(item) for item in found):
        return None
    made = step.scope.source.segment(step.node)
    one = "module" if "module" not in text else "each"
    inside = f"{one}{text} for {one} in {made}"
    if exactly(held, dict):
        new = f"{{name: {one}{text} for name, {one} in {made}.items()}}"
    else:
        new = f"[{inside}]" if exactly(held, list) else f"tuple({inside})"
    edit = edits.replace_node(step.scope.source, step.node, new)
    return Mend("move what it holds", edit, step.node, step.scope)
