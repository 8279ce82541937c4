"""What happened: results from several GPUs were collected, and then stacked, concatenated or summed.

How to recognise it: the items of one list or dict are on different GPUs, and one place in your code put them there.

Before:

    scores.append(expert(x).mean())

After:

    scores.append(expert(x).mean().to("cuda:0"))

Safe: the values are the same, brought together on one device.
"""

from __future__ import annotations

import ast
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.anchors import ARGUMENT, NAMED, OWN_DEVICE, anchors
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.moveless import has_move
from ..evidence.operands import Leaf, flat, held_tensors
from ..evidence.scopes import MISSING, bindings_of, own_nodes
from ..evidence.steps import Step
from ..types import Edit
from ._finding import Finding, Mend
from ._moves import moved_whole
from ._order import value_now
from ._user_calls import every_scope

NAME = "results-on-several-gpus"
TITLE = "results from several GPUs were collected"


def find(evidence: Evidence) -> Finding | None:
    for one in flat(evidence.leaves):
        held = _collected(one)
        if held is MISSING:
            continue
        tensors = held_tensors(held)
        devices = sorted({h.device for h in tensors})
        if len(devices) < 2 or not all(d.startswith("cuda") for d in devices):
            continue
        places = _added(evidence, held)
        step = places[0] if places else _put_in(evidence, one, devices)
        if step is None or len(places) > 1 or not step.editable:
            return None  # put in at several places: which of them is wrong is not known
        target = tensors[0].device
        item, scope = step.node, step.scope
        assert isinstance(item, ast.expr)
        finding = Finding(
            culprit=one.expression,
            headline=f"`{one.expression}` holds tensors on {' and '.join(devices)}",
            root_node=item,
            root_scope=scope,
            root_note="collected here, now from one GPU, now from another",
        )
        made = _brought(step, held, f".to({_named(evidence, step, target)})")
        if made:
            finding.mends.append(Mend(f"move each result to {target}", made, item, scope))
        return finding
    return None


def _brought(step: Step, held: Any, move: str) -> tuple[Edit, ...]:
    """The item with a move: of a dict or list of tensors, each of them."""
    assert isinstance(step.node, ast.expr)
    source = step.scope.source
    one = try_evaluate(step.node, step.scope)
    if one is MISSING:
        one = next((item for _, item in values.items(held)), MISSING)
    if one is MISSING or has_move(one):
        return edits.append_method(source, step.node, move)
    new = moved_whole(source.segment(step.node), one, move)
    return edits.replace_node(source, step.node, new) if new is not None else ()


def _named(evidence: Evidence, step: Step, target: str) -> str:
    """The device as it is named where the results are collected: by a name of its own, or by a parameter that is there."""
    for anchor in anchors(step.scope, step.node, target, evidence.inference):
        given = step.scope.is_parameter(anchor.base) and anchor.base not in bindings_of(step.scope.node)
        if anchor.rank in (NAMED, OWN_DEVICE) and not _of_item(anchor.text, step):
            return anchor.text
        if anchor.rank == ARGUMENT and given:
            return anchor.text
    return f'"{target}"'


def _of_item(text: str, step: Step) -> bool:
    """Whether the item is made with it: of several GPUs it is then another one for each."""
    return any(ast.unparse(n) == text for n in ast.walk(step.node) if isinstance(n, ast.expr))


def _collected(one: Leaf) -> Any:
    """The list, tuple or dict that an operand is."""
    if one.value is MISSING or values.is_module(one.value) or not values.is_container(one.value):
        return MISSING
    return one.value if issubclass(type(one.value), list | tuple | dict) else MISSING


def _added(evidence: Evidence, held: Any) -> list[Step]:
    """The places in the frames' functions that add to this very list: `append`, or `+=` of a list of one."""
    found = []
    for scope in every_scope(evidence):
        for node in own_nodes(scope.node):
            item: ast.expr | None = None
            place: ast.expr | None = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
                if node.func.attr == "append":
                    place, item = node.func.value, node.args[0]
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _single(node.value):
                place, item = node.target, node.value.elts[0]  # type: ignore[attr-defined]
            if place is not None and item is not None and value_now(place, scope) is held:
                found.append(Step("item", item, scope))
    return found


def _put_in(evidence: Evidence, one: Leaf, devices: list[str]) -> Step | None:
    """The one expression whose values became the items, on whichever device each of them is."""
    for device in (*devices, None):
        steps = evidence.tracer.trace(one.node, one.scope, device)
        for step in steps:
            if step.kind != "item" or not step.editable or not isinstance(step.node, ast.expr):
                continue
            if "literal" in step.extra and not _single(step.extra["literal"]):
                return None  # every item has an expression of its own
            if isinstance(step.node, ast.List | ast.Tuple) and _single(step.node):
                return Step("item", step.node.elts[0], step.scope, step.name, step.stmt)
            return step
    return None


def _single(node: ast.AST) -> bool:
    return isinstance(node, ast.List | ast.Tuple) and len(node.elts) == 1
