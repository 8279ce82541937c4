"""What happened: a batch came out of a DataLoader and was used as it is.

A DataLoader stacks what its dataset gives it, mostly tensors on the CPU. It does not know of the model.

How to recognise it: the tensor is a target of a loop over a loader, and nothing moved it since.

Before:

    for x, y in loader:
        loss = criterion(model(x), y)

After:

    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = criterion(model(x), y)

Safe: `.to()` of a tensor that is there already returns it as it is.
"""

from __future__ import annotations

import ast
import types

from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.passive import function_module
from ..evidence.steps import Step
from ._finding import Finding
from ._moves import sibling_move
from ._prepared import left_out
from ._values_shared import value_finding

NAME = "batch-not-moved"
TITLE = "a batch was not moved to the model's device"


def find(evidence: Evidence) -> Finding | None:
    root = evidence.root
    if root is None or root.kind != "loader" or evidence.wanted == "cpu":
        return None
    note = f"a loader yields its batches on {evidence.wrong_device}"
    if _puts_together(root):
        note = f"the loader gave this batch on {evidence.wrong_device}"
    prepared = left_out(evidence, root) if _moved_beside(evidence) is None else None
    if prepared is not None:
        mend = prepared.mend
        said = f"prepares `{prepared.sibling}`, but not `{prepared.left_out}`"
        trail = [(root.node, root.scope, note)]
        return Finding(root_node=mend.node, root_scope=mend.scope, root_note=said, mends=[mend], trail=trail)
    finding = value_finding(evidence, note, root)
    if finding is not None and finding.mends and not _at_loader(finding, root):
        finding.trail.append((root.node, root.scope, note))
        finding.root_note = finding.mends[0].note or f"not moved to {evidence.wanted} here"
    return finding


def _puts_together(root: Step) -> bool:
    """Whether the loader has a `collate_fn` of the user's: where that puts its batches is up to it."""
    for node in ast.walk(root.node):
        if isinstance(node, ast.keyword) and node.arg == "collate_fn":
            return True
        held = try_evaluate(node, root.scope) if isinstance(node, ast.Name) else None
        collate = values.lookup(values.instance_dict(held), "collate_fn")
        if collate is not None:
            return type(collate) is not types.FunctionType or not function_module(collate).startswith(
                "torch."
            )
    return False


def _moved_beside(evidence: Evidence) -> ast.Call | None:
    """A move of what the loop takes beside it: the loop moves its batches itself."""
    loops = [s for s in evidence.steps if s.kind == "loop" and s.stmt is not None and s.editable]
    return next((call for call in (sibling_move(evidence, s) for s in loops) if call is not None), None)


def _at_loader(finding: Finding, root: Step) -> bool:
    """Whether the mend stands on the line that takes from the loader."""
    node, scope = finding.root_node, finding.root_scope
    return scope is root.scope and getattr(node, "lineno", 0) == root.line
