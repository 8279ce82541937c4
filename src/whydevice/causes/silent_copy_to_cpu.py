"""What happened: results from the GPU were written into a tensor on the CPU, which raises nothing.

`outputs[t] = step` and `kept.copy_(step)` copy from one device to the other without a word. The tensor stays where it was
made, full of the model's results, and fails where it meets the next tensor on the GPU.

How to recognise it: the operand on the CPU was made without `device=`, and items of it were assigned from values on the
GPU.

Before:

    outputs = torch.zeros(steps, n)
    for t in range(steps):
        outputs[t] = decoder(x)

After:

    outputs = torch.zeros(steps, n, device=x.device)
    for t in range(steps):
        outputs[t] = decoder(x)

Safe: the values are the same, and they are copied no more. What is kept on the CPU on purpose, to save the GPU's memory, is
moved at its use instead.
"""

from __future__ import annotations

from ..evidence.collect import Evidence
from ._finding import Finding
from ._kept import add_kept_mend, made_at, silent_copies

NAME = "silent-copy-to-cpu"
TITLE = "results were copied into a tensor on the CPU"


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    made = made_at(evidence)
    if wrong is None or made is None or evidence.wanted == "cpu" or wrong.leaf.is_module:
        return None
    root, kept = made
    copied = next(silent_copies(evidence, kept), None)
    if copied is None:
        return None
    note = f"made here without device=, so on {wrong.device}"
    finding = Finding(
        certainty="certain" if wrong.proven else "likely",
        root_node=root.node,
        root_scope=root.scope,
        root_note=note,
        trail=[
            (root.node, root.scope, note),
            (copied.node, copied.scope, f"copied into it from {evidence.wanted}, silently"),
        ],
    )
    add_kept_mend(evidence, finding, root, kept)
    return finding
