"""What happened: a list, dict, partial or tensor took values of a module's parameters before the module was moved.

How to recognise it: what holds the CPU tensor was built from `model.parameters()` (or a weight) above the line that
moves the model.

Before:

    velocity = [torch.zeros_like(p) for p in model.parameters()]
    model.to(device)

After:

    model.to(device)
    velocity = [torch.zeros_like(p) for p in model.parameters()]

Safe: the same values, made where the model is.
"""

from __future__ import annotations

from ..evidence import values
from ..evidence.collect import Evidence
from ._captured import capture, captured_finding
from ._finding import Finding

NAME = "captured-before-move"
TITLE = "values of the module were taken before it was moved"
ORDER = 23


def find(evidence: Evidence) -> Finding | None:
    found = capture(evidence)
    if found is None or values.is_module(found.held):
        return None
    return captured_finding(evidence, found)
