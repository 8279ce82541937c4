"""What happened: an input, target or other tensor of yours was passed on without being moved.

How to recognise it: the tensor that failed is one that your code passes, it is on the CPU, and what it meets is on the
GPU.

Before:

    prediction = model(sample)

After:

    prediction = model(sample.to(device))

Safe: `.to()` of a tensor that is there already returns it as it is.
"""

from __future__ import annotations

from ..evidence.collect import Evidence
from ._finding import Finding
from ._values_shared import made_note, value_finding

NAME = "input-not-moved"
TITLE = "an input or target was not moved"
ORDER = 90


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None or evidence.wanted == "cpu" or wrong.leaf.is_module:
        return None
    if not (wrong.leaf.is_tensor or wrong.leaf.held or wrong.leaf.inferred):
        return None
    finding = value_finding(evidence, f"on {wrong.device} here")
    root = evidence.root
    if finding is not None and root is not None and root.kind in ("factory", "constructor") and root.editable:
        if finding.root_node is not root.node:
            finding.trail.append((root.node, root.scope, made_note(root)))
            finding.root_note = f"not moved to {evidence.wanted} here"
    return finding
