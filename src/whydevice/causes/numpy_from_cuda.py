"""What happened: NumPy, or a library built on it, was handed a tensor on the GPU.

NumPy reads CPU memory only. `np.array(t)`, `plt.plot(t)`, `sklearn` metrics, `t.numpy()` and arithmetic between
an array and a tensor all end in the same message.

How to recognise it: `TypeError: can't convert cuda:0 device type tensor to numpy`.

Before:

    losses.append(np.mean(loss))

After:

    losses.append(np.mean(loss.detach().cpu().numpy()))

Safe at a place where the result is only recorded, printed or drawn. `.detach()` cuts the graph: where the result goes
back into a loss, compute it with torch instead of NumPy; the fix is then marked unsafe.
"""

from __future__ import annotations

import ast
from typing import Any

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.operands import Leaf, flat
from ..evidence.passive import exactly
from ._facts import requires_grad
from ._finding import Finding, Mend

NAME = "numpy-from-cuda"
TITLE = "NumPy was given a tensor on the GPU"
ORDER = 10


def find(evidence: Evidence) -> Finding | None:
    if not evidence.error.family.startswith(("K1", "K2")) or evidence.user is None:
        return None
    found = [one for one in flat(evidence.leaves) if one.is_tensor and one.device not in (None, "cpu")]
    if found:
        return _of_leaf(found[0], evidence)
    held = [one for one in evidence.leaves if any(h.device != "cpu" for h in one.held)]
    if held:
        return _of_container(held[0], evidence)
    unknown = [one for one in flat(evidence.leaves) if one.inferred and one.device not in (None, "cpu")]
    if not unknown:
        return None
    items = _items_of(unknown[-1])
    return _of_items(unknown[-1], items) if items is not None else _of_leaf(unknown[-1], evidence)


def _items_of(leaf: Leaf) -> list[Any] | None:
    """What the list holds that a leaf is a slice of (`losses[-10:]`); None where it is no such slice."""
    if not (isinstance(leaf.node, ast.Subscript) and isinstance(leaf.node.slice, ast.Slice)):
        return None
    held = try_evaluate(leaf.node.value, leaf.scope)
    return [item for _, item in values.items(held)] if exactly(held, list, tuple) else None


def _of_items(leaf: Leaf, items: list[Any]) -> Finding:
    """A list has no `.cpu()`: its numbers are read one by one, where they are numbers."""
    finding = Finding(
        headline=f"`{leaf.expression}` holds tensors on {leaf.device}, but NumPy reads memory of the cpu only",
        culprit=leaf.expression,
        root_node=leaf.node,
        root_scope=leaf.scope,
        root_note="NumPy cannot read its items",
    )
    numbers = all(exactly(one, int, float) or values.shape_of(one) == () for one in items)
    if numbers and isinstance(leaf.node, ast.expr):
        text = f"[float(each) for each in {leaf.scope.source.one_line(leaf.node)}]"
        made = edits.replace_node(leaf.scope.source, leaf.node, text)
        finding.mends.append(Mend("hand NumPy the numbers", made, leaf.node, leaf.scope))
    return finding


def _of_leaf(leaf: Leaf, evidence: Evidence) -> Finding:
    finding = Finding(
        headline=f"`{leaf.expression}` is on {leaf.device}, but NumPy reads CPU memory only",
        culprit=leaf.expression,
        root_node=leaf.node,
        root_scope=leaf.scope,
        root_note="NumPy cannot read this",
    )
    if not isinstance(leaf.node, ast.expr):
        return finding
    source = leaf.scope.source
    text = _text(leaf)
    parent = leaf.scope.source.parent(leaf.node)
    if isinstance(parent, ast.Attribute) and parent.attr == "numpy":
        text = ".detach().cpu()" if requires_grad(leaf.value) else ".cpu()"
    made = edits.append_method(source, leaf.node, text)
    finding.mends.append(Mend("hand NumPy a copy on the CPU", made, leaf.node, leaf.scope))
    return finding


def _text(leaf: Leaf) -> str:
    if leaf.is_scalar:
        return ".item()"
    if leaf.value is not None and values.is_tensor(leaf.value):
        return ".detach().cpu()" if requires_grad(leaf.value) else ".cpu()"
    return ".detach().cpu()"


def _of_container(leaf: Leaf, evidence: Evidence) -> Finding:
    """A list of GPU tensors: they are moved where they were put in, when that can be seen."""
    evidence.wrong_device = next(h.device for h in leaf.held if h.device != "cpu")
    steps = evidence.trace(leaf.node, leaf.scope)
    finding = Finding(
        headline=f"`{leaf.expression}` holds tensors on {evidence.wrong_device}, but NumPy reads CPU memory only",
        culprit=leaf.expression,
        root_node=leaf.node,
        root_scope=leaf.scope,
        root_note="NumPy cannot read its items",
    )
    item = next((s for s in steps if s.kind == "item" and "added" in s.extra and s.editable), None)
    if item is not None and isinstance(item.node, ast.expr):
        held = leaf.held[0].tensor
        text = (
            ".item()"
            if values.shape_of(held) == ()
            else ".detach().cpu()"
            if requires_grad(held)
            else ".cpu()"
        )
        made = edits.append_method(item.scope.source, item.node, text)
        finding.root_node, finding.root_scope = item.node, item.scope
        finding.root_note = "put in here as it is, on the GPU"
        title = (
            "keep numbers instead of tensors on the GPU" if text == ".item()" else "keep the items on the CPU"
        )
        finding.mends.append(Mend(title, made, item.node, item.scope))
    return finding
