"""What happened: the tensor was made with a device given, and the device given was the CPU.

A parameter `device="cpu"` that no caller fills in, or a literal `device="cpu"` left from a first version.

How to recognise it: the way back from the failing operand ends at a factory call whose `device=` is the CPU.

Before:

    # def __init__(self, steps, device="cpu"):
    schedule = Schedule(steps=100)

After:

    schedule = Schedule(steps=100, device=device)

Safe: the parameter is there for this.
"""

from __future__ import annotations

import ast

from ..evidence.collect import Evidence
from ..evidence.infer import keyword
from ..evidence.scopes import bindings_of
from ._finding import Finding
from ._values_shared import value_finding

NAME = "device-argument-is-cpu"
TITLE = "the device that a tensor was made with is the CPU"


def find(evidence: Evidence) -> Finding | None:
    root = evidence.root
    if (
        root is None
        or root.kind != "factory"
        or evidence.wanted == "cpu"
        or not isinstance(root.node, ast.Call)
    ):
        return None
    given = keyword(root.node, "device")
    if given is None:
        return None
    written = root.scope.source.one_line(given)
    name = given.id if isinstance(given, ast.Name) else ""
    default = name in root.scope.bound and root.scope.bound[name].default
    why = (
        f"`{written}` was not passed, and is {evidence.wrong_device} by default"
        if default and name not in bindings_of(root.scope.node)  # else its body computes another
        else f"made with device={written} here"
        if isinstance(given, ast.Constant)
        else f"`{written}` is {evidence.wrong_device}"
    )
    finding = value_finding(evidence, why, root)
    if finding is not None and finding.root_node is not None and finding.root_node is not root.node:
        finding.trail.append((root.node, root.scope, why))
        finding.root_note = (
            f"made without `{written}`" if default else f"{evidence.wrong_device} is passed here"
        )
    return finding
