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
from ._values_shared import made_note, value_finding, went_elsewhere

NAME = "input-not-moved"
TITLE = "an input or target was not moved"
MADE = ("factory", "constructor", "loader")


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None or evidence.wanted == "cpu" or wrong.leaf.is_module:
        return None
    if not (wrong.leaf.is_tensor or wrong.leaf.held or wrong.leaf.inferred) or went_elsewhere(evidence):
        return None
    if not (wrong.proven or wrong.leaf.inferred):
        # An object that holds such a tensor, which may not be the one that failed: a place to look, nothing to edit.
        note = f"holds a tensor on {wrong.device}"
        own = next((s for s in reversed(evidence.steps) if s.editable), None)
        return Finding(certainty="possible", culprit=wrong.expression, root=own, root_note=note)
    finding = value_finding(evidence, f"on {wrong.device} here")
    root = evidence.root
    if finding is not None and root is not None and root.kind in ("factory", "constructor") and root.editable:
        if finding.root_node is not root.node:
            if not (wrong.leaf.is_tensor and any(s.extra.get("one_of") for s in evidence.steps)):
                finding.trail.append((root.node, root.scope, made_note(root)))
            said = finding.mends[0].note if finding.mends else ""
            finding.root_note = said or f"not moved to {evidence.wanted} here"
    if finding is not None and evidence.wanted is not None and evidence.wanted.startswith("cuda"):
        if wrong.device.startswith("cuda") and evidence.direction in ("", "majority"):
            for mend in finding.mends:
                mend.applicability, mend.reason = "unsafe", "which of the two GPUs is meant is not known"
    if finding is not None and (root is None or root.kind not in MADE):
        finding.certainty = "likely"  # that it is an input is what is left, not what was seen
    return finding
