"""What happened: a registered buffer was replaced by a new CPU tensor after the module was moved.

`self.count = torch.zeros(8)` in a method puts a new tensor in the buffer's place. It is still a buffer, but where
`torch.zeros` made it.

How to recognise it: the name is among the module's buffers, the module was moved, and a method assigns the name.

Before:

    def reset(self):
        self.count = torch.zeros(8)

After:

    def reset(self):
        self.count = torch.zeros(8, device=self.weight.device)

Safe: the values are the same, on the device of the module.
"""

from __future__ import annotations

from ..evidence import values
from ..evidence.collect import Evidence
from ._finding import Finding
from ._mend import mend_value

NAME = "buffer-overwritten"
TITLE = "a buffer was replaced by a tensor on another device"
ORDER = 26


def find(evidence: Evidence) -> Finding | None:
    step = next((s for s in evidence.steps if s.kind == "attribute" and values.is_module(s.owner)), None)
    if step is None or step.extra.get("held") != "buffer" or step.extra.get("registered") == "buffer":
        return None
    if step.extra.get("method") in ("__init__", None):
        return None
    finding = Finding(
        headline=f"`{evidence.wrong.expression if evidence.wrong else step.name}` is on {evidence.wrong_device}: {step.extra['method']}() replaced the buffer after the module was moved",
        root_node=step.stmt,
        root_scope=step.scope,
        root_note=f"a new tensor, on {evidence.wrong_device}, takes the buffer's place",
    )
    mend = mend_value(evidence, evidence.steps)
    if mend is not None:
        finding.mends.append(mend)
    return finding
