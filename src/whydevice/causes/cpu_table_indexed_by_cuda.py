"""What happened: a tensor on the CPU was indexed by a tensor on the GPU.

A tensor on the GPU takes an index from either side; a tensor on the CPU takes an index on the CPU only. A table of weights,
a noise schedule or word vectors belongs beside the model. A store that is too large for the GPU stays, and its index comes
to the CPU.

How to recognise it: `indices should be either on cpu or on the same device as the indexed tensor (cpu)`.

Before:

    weights = torch.tensor([0.2, 0.8])
    loss = (weights[labels] * loss).mean()

After:

    weights = torch.tensor([0.2, 0.8], device=device)
    loss = (weights[labels] * loss).mean()

For a store whose items are moved after they are taken:

    x = store[ids.cpu()].to(device)

Safe: the values are the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .. import edits
from ..edits import EditError
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.evaluate import try_evaluate
from ..evidence.infer import keyword
from ..evidence.scopes import Scope, own_nodes
from ..types import Edit
from ._finding import Finding, Mend
from ._mend import mend_value
from ._module_state import way_of_unmoved_receiver
from ._objects import after_construction
from ._values_shared import made_note, value_finding

NAME = "cpu-table-indexed-by-cuda"
TITLE = "a tensor on the CPU was indexed by a tensor on the GPU"
MADE = ("factory", "constructor")


def find(evidence: Evidence) -> Finding | None:
    wrong, user = evidence.wrong, evidence.user
    if wrong is None or user is None or evidence.error.family != "F1" or evidence.wrong_device != "cpu":
        return None
    subscript = user.source.parent(wrong.leaf.node)
    if (
        not isinstance(subscript, ast.Subscript)
        or subscript.value is not wrong.leaf.node
        or not wrong.leaf.is_tensor
    ):
        return None
    if way_of_unmoved_receiver(evidence) is not None:
        return None  # no table of its own: the module that has it was never moved
    if _moved_after(subscript, user, evidence):
        return None if _takes_device(evidence) else _store(evidence, subscript, user)
    finding = value_finding(evidence, f"on cpu, and not moved to {evidence.wanted} here")
    kept = next((s for s in evidence.steps if s.kind == "attribute" and not values.is_module(s.owner)), None)
    after = after_construction(evidence, kept) if kept is not None else None
    root = evidence.root
    if finding is not None and root is not None and root.kind in MADE and finding.root_node is root.node:
        finding.root_note = made_note(root)
    if finding is not None and after is not None and root is not None and finding.root_node is not root.node:
        finding.mends, finding.root_node, finding.root_scope = [after], after.node, after.scope
        finding.root_note = f"nothing moved its tensors from {evidence.wrong_device}"
    elif finding is not None and finding.mends:
        _others(evidence, finding.mends[0])
    return finding


def _takes_device(evidence: Evidence) -> bool:
    """Whether the table was made by something that takes a device, which was left at its default: no store."""
    root = evidence.root
    given = keyword(root.node, "device") if root is not None and isinstance(root.node, ast.Call) else None
    return (
        root is not None
        and isinstance(given, ast.Name)
        and given.id in root.scope.bound
        and root.scope.bound[given.id].default
    )


def _moved_after(subscript: ast.Subscript, scope: Scope, evidence: Evidence) -> bool:
    """Whether what is taken out is moved at once: then the tensor is a store that stays on the CPU."""
    method = scope.source.parent(subscript)
    call = scope.source.parent(method) if isinstance(method, ast.Attribute) else None
    if not isinstance(method, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not method:
        return False
    if method.attr not in ("to", "cuda"):
        return False
    return evidence.inference.moved_to(call, scope) == evidence.wanted


def _store(evidence: Evidence, subscript: ast.Subscript, user: Scope) -> Finding:
    index = ast.unparse(subscript.slice)
    finding = Finding(
        root_node=subscript.slice,
        root_scope=user,
        root_note=f"an index on {evidence.wanted} into a store on cpu, whose items are moved after",
    )
    made: list[Edit] = []
    for node in own_nodes(user.node):
        if not isinstance(node, ast.Subscript) or ast.unparse(node.slice) != index:
            continue
        if isinstance(node.slice, ast.Tuple | ast.Slice) or not _moved_after(node, user, evidence):
            continue
        if evidence.inference.device(node.value, user) == evidence.wrong_device:
            made += edits.append_method(user.source, node.slice, ".cpu()")
    if made:
        finding.mends.append(
            Mend("index the store with a copy of the index on the CPU", tuple(made), subscript.slice, user)
        )
    return finding


def _others(evidence: Evidence, mend: Mend) -> None:
    """Mend the tables that the same function is given, or that the same index goes into, below: they would fail next."""
    made = list(mend.edits)
    for node, scope in _beside(evidence):
        try:
            more = mend_value(evidence, evidence.trace(node, scope))
        except EditError:
            continue
        if more is not None and not any(
            e.file == m.file and e.line == m.line for e in more.edits for m in made
        ):
            made += more.edits
    mend.edits = tuple(dict.fromkeys(made))


def _beside(evidence: Evidence) -> Iterator[tuple[ast.expr, Scope]]:
    for scope in evidence.tracer.live:
        failing = scope.live.node if scope.live is not None else None
        index = ast.unparse(failing.slice) if isinstance(failing, ast.Subscript) else None
        for node in own_nodes(scope.node):
            if isinstance(node, ast.Subscript) and node is not failing and ast.unparse(node.slice) == index:
                if _on_cpu(node.value, scope, evidence):
                    yield node.value, scope
            elif isinstance(node, ast.Call) and isinstance(failing, ast.Call) and node is not failing:
                if isinstance(node.func, ast.Name | ast.Attribute) and ast.unparse(node.func) == ast.unparse(
                    failing.func
                ):
                    for mine, theirs in zip(node.args, failing.args, strict=False):
                        if _on_cpu(theirs, scope, evidence) and _on_cpu(mine, scope, evidence):
                            yield mine, scope


def _on_cpu(node: ast.expr, scope: Scope, evidence: Evidence) -> bool:
    held = try_evaluate(node, scope)
    sized = values.is_tensor(held) and bool(values.shape_of(held))
    return sized and values.device_of(held) == evidence.wrong_device
