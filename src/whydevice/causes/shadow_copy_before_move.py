"""What happened: a copy of a module (an average of its weights, a target network) was made before the module was
moved, so the copy stayed on the CPU.

How to recognise it: an object that was constructed from the model holds tensors on the CPU, the model is on the GPU,
and the model's `.to(device)` stands below the construction.

Before:

    ema = EMA(model)
    model.to(device)

After:

    model.to(device)
    ema = EMA(model)

Safe: the copy is the same, made where the model is.
"""

from __future__ import annotations

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.passive import class_module
from ._captured import capture, captured_finding
from ._finding import Finding
from ._modules import appended_move

NAME = "shadow-copy-before-move"
TITLE = "a copy of the module was made before the module was moved"


def find(evidence: Evidence) -> Finding | None:
    found = capture(evidence)
    if found is None or values.is_container(found.held) or class_module(type(found.held)) == "functools":
        return None
    finding = captured_finding(evidence, found)
    if values.is_module(found.held):  # a module can be moved by itself
        mend = appended_move(evidence, found.statement.value, found.scope)
        if mend is not None:
            finding.mends = [mend]
    return finding
