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
from ..evidence.host import given, is_receiver, on_accelerator, reads_host
from ..evidence.operands import Leaf, flat
from ..evidence.passive import exactly
from ..evidence.scopes import MISSING
from ._facts import requires_grad
from ._finding import Finding, Mend

NAME = "numpy-from-cuda"
TITLE = "NumPy was given a tensor on the GPU"

_UNTRACKED = frozenset("argmax argmin argsort nonzero detach bool int long eq ne gt ge lt le".split())


def find(evidence: Evidence) -> Finding | None:
    if not reads_host(evidence.error) or evidence.user is None:
        return None
    found = on_accelerator(evidence.leaves)
    if found and found[0].is_tensor:
        return _of_leaf(found[0])
    held = [one for one in evidence.leaves if any(h.device != "cpu" for h in one.held)]
    if held:
        return _of_container(held[0], evidence)
    if found:
        items = _items_of(found[0])
        return _of_items(found[0], items) if items is not None else _of_leaf(found[0])
    return _of_unknown(evidence)


def _of_unknown(evidence: Evidence) -> Finding | None:
    """What no device is known of: what `.numpy()` is called on is the tensor; another one may hold several."""
    unknown = [one for one in given(evidence.leaves) if one.value is MISSING and one.device is None]
    if len(unknown) != 1 or evidence.wrong_device is None:
        return None
    one = unknown[0]
    finding = _of_leaf(Leaf(one.node, one.scope, one.role, device=evidence.wrong_device, parts=one.parts))
    if not is_receiver(one):
        finding.certainty = "likely"
        finding.mends = []
    return finding


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


def _of_leaf(leaf: Leaf) -> Finding:
    name = _variable(leaf)
    finding = Finding(
        headline=f"`{name}` is on {leaf.device}, but NumPy reads CPU memory only",
        culprit=name,
        root_node=leaf.node,
        root_scope=leaf.scope,
        root_note="NumPy cannot read this",
    )
    if not isinstance(leaf.node, ast.expr):
        return finding
    text = ".item()" if leaf.is_scalar and not is_receiver(leaf) else _text(leaf)
    made = edits.append_method(leaf.scope.source, leaf.node, text)
    finding.mends.append(Mend("hand NumPy a copy on the CPU", made, leaf.node, leaf.scope))
    return finding


def _variable(leaf: Leaf) -> str:
    """The one tensor that was reckoned with (`loss` of `loss * 100`); else the expression."""
    reckoned = isinstance(leaf.node, ast.BinOp | ast.UnaryOp)
    tensors = [one for one in flat(leaf.parts) if one.is_tensor or one.value is MISSING] if reckoned else []
    alone = len(tensors) == 1 and tensors[0].is_tensor and tensors[0].device == leaf.device
    return tensors[0].expression if alone else leaf.expression


def _text(leaf: Leaf) -> str:
    """The move, with `.detach()` where autograd tracks the tensor: NumPy takes none that it does."""
    return ".detach().cpu()" if _tracked(leaf) else ".cpu()"


def _tracked(leaf: Leaf) -> bool:
    """Whether autograd may track a value. Of one that is gone: unless all that it was computed from is known not to be."""
    if _not_differentiable(leaf.node):
        return False
    if leaf.value is not MISSING:
        if leaf.is_module:
            return any(requires_grad(tensor) for _, tensor, _ in values.module_tensors(leaf.value))
        return requires_grad(leaf.value)
    return not leaf.parts or any(_tracked(part) for part in leaf.parts)


def _not_differentiable(node: ast.AST) -> bool:
    """Whether autograd tracks no result of an operation: an index, a truth value, what was detached."""
    if isinstance(node, ast.Compare):
        return True
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _UNTRACKED
    )


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
