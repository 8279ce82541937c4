"""What happened: the operation wants this argument on the CPU, and it was given one on the GPU.

Some arguments steer the work from the CPU and are never read on the GPU: the lengths of `pack_padded_sequence`, the
sections of `tensor_split`, the tensors that a DataLoader pins. Here the GPU tensor is the wrong one, although in most
device errors it is the other way round.

How to recognise it: the message itself says that a CPU tensor was expected.

Before:

    packed = pack_padded_sequence(embedded, lengths)

After:

    packed = pack_padded_sequence(embedded, lengths.cpu())

Safe: the values are the same; the copy waits for the GPU once.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence.collect import Evidence
from ..evidence.scopes import Scope
from ._finding import Finding, Mend

NAME = "cpu-only-argument"
TITLE = "an argument that has to be on the CPU is on the GPU"


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    if (
        evidence.direction not in ("wording", "assertion")
        or wrong is None
        or evidence.error.family.startswith(("K1", "K2"))
    ):
        return None
    if evidence.error.family[:1] == "J" or wrong.device.startswith("meta"):
        return None
    leaf = wrong.leaf
    finding = Finding(
        certainty="certain" if evidence.direction == "wording" else "likely",
        headline=f"`{leaf.expression}` is on {wrong.device}, but this call wants it on cpu",
        root_node=leaf.node,
        root_scope=leaf.scope,
        root_note="has to be on cpu here",
    )
    if isinstance(leaf.node, ast.expr):
        made = edits.append_method(leaf.scope.source, leaf.node, ".cpu()")
        mend = Mend("pass a copy on the CPU", made, leaf.node, leaf.scope)
        between = _between(leaf.node, leaf.scope, evidence)
        if between is not None:
            mend.applicability = "unsafe"
            mend.reason = (
                f"`{ast.unparse(between.func)}` is given the copy too, and may want it on {wrong.device}"
            )
        finding.mends.append(mend)
    return finding


def _between(node: ast.expr, scope: Scope, evidence: Evidence) -> ast.Call | None:
    """The call that is given the tensor and gives it back, on its way to the call that failed."""
    around = list(scope.source.ancestors(node))
    if evidence.node not in around:
        return None
    return next((up for up in around[: around.index(evidence.node)] if isinstance(up, ast.Call)), None)
