"""Objects that are no modules and keep tensors: they are moved where they are made, since nothing else moves them."""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.scopes import MISSING, bindings_of
from ..evidence.steps import Step
from ._finding import Mend
from ._moves import move_text

MOST_MOVED = 6


def after_construction(evidence: Evidence, step: Step) -> Mend | None:
    """Below the line that made the object, move all of its tensors that are on the wrong device."""
    if step.owner is MISSING or values.is_module(step.owner):
        return None
    names = [
        name
        for name, held in values.named(values.instance_dict(step.owner))
        if values.is_tensor(held) and values.device_of(held) == evidence.wrong_device and name.isidentifier()
    ]
    for scope in evidence.tracer.live:
        for name, held in list(scope.locals.items())[:200]:
            found = bindings_of(scope.node).get(name, []) if held is step.owner else []
            if len(found) != 1 or not isinstance(found[0].stmt, ast.Assign) or found[0].path:
                continue
            below = Step("assign", found[0].stmt.value, scope, name, found[0].stmt)
            text = move_text(evidence, scope, found[0].stmt)
            if text is None or not below.editable or not 0 < len(names) <= MOST_MOVED:
                continue
            lines = "\n".join(f"{name}.{each} = {name}.{each}{text}" for each in names)
            made = edits.insert_after(scope.source, found[0].stmt, lines)
            return Mend("move its tensors where it is made", made, found[0].stmt, scope)
    return None
