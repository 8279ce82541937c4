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
from ..evidence.collect import Evidence
from ..evidence.operands import Leaf, flat, held_tensors
from ..evidence.scopes import MISSING
from ..evidence.steps import Step
from ._finding import Finding, Mend

NAME = "results-on-several-gpus"
TITLE = "results from several GPUs were collected"
ORDER = 14


def find(evidence: Evidence) -> Finding | None:
    for one in flat(evidence.leaves):
        held = _collected(one)
        if held is MISSING:
            continue
        tensors = held_tensors(held)
        devices = sorted({h.device for h in tensors})
        if len(devices) < 2 or not all(d.startswith("cuda") for d in devices):
            continue
        step = _put_in(evidence, one, devices)
        if step is None:
            return None
        target = tensors[0].device
        item, scope = step.node, step.scope
        assert isinstance(item, ast.expr)
        made = edits.append_method(scope.source, item, f'.to("{target}")')
        return Finding(
            culprit=one.expression,
            headline=f"`{one.expression}` holds tensors on {' and '.join(devices)}",
            root_node=item,
            root_scope=scope,
            root_note="collected here, now from one GPU, now from another",
            mends=[Mend("bring the results together", made, item, scope)],
        )
    return None


def _collected(one: Leaf) -> Any:
    """The list, tuple or dict that an operand is."""
    if one.value is MISSING or values.is_module(one.value) or not values.is_container(one.value):
        return MISSING
    return one.value if issubclass(type(one.value), list | tuple | dict) else MISSING


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
