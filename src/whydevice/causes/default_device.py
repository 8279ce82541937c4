"""What happened: `torch.set_default_device` was called, and this tensor was made in a way that it does not reach.

The default device holds for factory calls (`torch.zeros`, `torch.tensor`) and for the parameters of new modules. It does
not reach `torch.from_numpy`, `torch.Tensor(...)`, tensors that a DataLoader's workers make, or what is loaded from a file.

How to recognise it: the default device is the wanted one, and the tensor comes from such a call.

Before:

    torch.set_default_device("cuda")
    x = torch.from_numpy(array)

After:

    x = torch.from_numpy(array).to("cuda")

Safe: `.to()` of a tensor that is there already returns it as it is.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence.anchors import LITERAL, anchors
from ..evidence.collect import Evidence
from ._finding import Finding, Mend

NAME = "default-device"
TITLE = "the default device does not reach this call"
ORDER = 33


def find(evidence: Evidence) -> Finding | None:
    root = evidence.root
    if root is None or root.kind != "constructor" or evidence.inference.default_device() != evidence.wanted:
        return None
    if not isinstance(root.node, ast.expr):
        return None
    finding = Finding(
        headline=f"`{evidence.wrong.expression if evidence.wrong else root.text()}` is on {evidence.wrong_device}: the default device {evidence.wanted} does not reach {root.name}()",
        root_node=root.node,
        root_scope=root.scope,
        root_note="makes a cpu tensor whatever the default device is",
    )
    found = anchors(root.scope, root.node, evidence.wanted or "", evidence.inference)
    anchor = next((a for a in found if a.rank == LITERAL), found[0] if found else None)
    if root.editable and anchor is not None:
        made = edits.append_method(root.scope.source, root.node, f".to({anchor.text})")
        finding.mends.append(Mend("move it where it is made", made, root.node, root.scope))
    return finding
