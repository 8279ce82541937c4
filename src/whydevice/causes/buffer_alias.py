"""What happened: an attribute was set to a buffer of the same module, and kept the old tensor when the buffer moved.

`.to()` puts a new tensor in the buffer's place. A second name for the old one stays on the CPU.

How to recognise it: the plain attribute was assigned from a buffer (`self.base = self.inv_freq`).

Before:

    self.base_freq = self.inv_freq

After:

    self.register_buffer("base_freq", self.inv_freq.clone(), persistent=False)

Safe: `persistent=False` keeps it out of `state_dict()`.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import attributes, values
from ..evidence.collect import Evidence
from ..evidence.scopes import dotted
from ._finding import Finding, Mend

NAME = "buffer-alias"
TITLE = "a second name for a buffer kept the tensor from before the move"
ORDER = 25


def find(evidence: Evidence) -> Finding | None:
    step = next((s for s in evidence.steps if s.kind == "attribute" and values.is_module(s.owner)), None)
    if step is None or step.extra.get("held") != "attribute" or not isinstance(step.node, ast.Attribute):
        return None
    name = dotted(step.node) or ""
    if attributes.kind_in(step.owner, name.rpartition(".")[2]) not in ("buffer", "parameter"):
        return None
    finding = Finding(
        headline=f"`self.{step.name}` is on {evidence.wrong_device}: it is the tensor that `{name}` was before the move",
        root_node=step.stmt,
        root_scope=step.scope,
        root_note="a second name for the buffer: .to() gives the buffer a new tensor",
    )
    if step.editable and isinstance(step.stmt, ast.stmt):
        source = step.scope.source
        made = edits.attribute_to_buffer(source, step.stmt, persistent=False, attributes=(step.name,))
        made = tuple(made) + tuple(edits.append_method(source, step.node, ".clone()"))
        try:
            edits.plan(made)
        except edits.EditError:
            made = edits.attribute_to_buffer(source, step.stmt, persistent=False, attributes=(step.name,))
        finding.mends.append(Mend("register it as a buffer of its own", made, step.stmt, step.scope))
    return finding
