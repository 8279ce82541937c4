"""What happened: a tensor was made without `device=`, so on the CPU, and then used with tensors on the GPU.

`torch.zeros(n)`, `torch.arange(n)`, `torch.from_numpy(a)` and the like make CPU tensors unless they are told otherwise. A
mask, noise, positions or a hidden state made in `forward`, in a loss or in a helper is the commonest device error.

How to recognise it: the way back from the failing operand ends at a factory call without `device=`.

Before:

    noise = torch.randn(x.size(0), 16)
    return decoder(x + noise)

After:

    noise = torch.randn(x.size(0), 16, device=x.device)
    return decoder(x + noise)

Safe: the same shape and dtype, made where it is used. A seeded random tensor gets other numbers from the
GPU's generator than from the CPU's.
"""

from __future__ import annotations

from ..evidence.collect import Evidence
from ._finding import Finding
from ._mend import beside_fields, from_dataset
from ._values_shared import made_note, value_finding, went_elsewhere

NAME = "tensor-without-device"
TITLE = "a tensor was made without device=, so on the CPU"


def find(evidence: Evidence) -> Finding | None:
    root = evidence.root
    if root is None or root.kind not in ("factory", "constructor") or evidence.wanted == "cpu":
        return None
    if from_dataset(evidence.steps) or went_elsewhere(evidence):
        return None
    if beside_fields(evidence, evidence.steps[0]) is not None:
        return None  # one of several that are handed out on the CPU, and moved one by one
    note = made_note(root)
    finding = value_finding(evidence, note, root)
    passed = any(step.kind == "parameter" for step in evidence.steps)
    if passed and finding is not None and finding.mends and finding.root_node is not root.node:
        return None  # made on the CPU as it should be, and handed on without a move: another cause
    if finding is not None and root.editable and finding.root_node is not root.node:
        finding.trail.append((root.node, root.scope, note))
        said = finding.mends[0].note if finding.mends else ""
        finding.root_note = said or f"not moved to {evidence.wanted} here"
    elif finding is not None and not root.editable and finding.mends:
        finding.root_note = f"gives a tensor on {evidence.wrong_device}"  # the factory itself is a library's
    return finding
