"""What happened: a running total was started on the CPU, and results from the GPU are added to it.

`total = torch.zeros(n)` before a loop and `total += result` in it: an operation in place keeps the device of its target,
so it needs the target where the results are. `torch.cat([kept, new])` is alike, even when what is kept is still empty.

How to recognise it: the operand on the CPU is the one that the failing statement binds again or changes in place.

Before:

    hits = torch.zeros(classes)
    for x, y in loader:
        hits += count(model(x), y)

After:

    hits = torch.zeros(classes, device=device)
    for x, y in loader:
        hits += count(model(x), y)

Safe: the values are the same. A total that is only printed may as well stay on the CPU, and take `.item()` of each result.
Where NumPy reads the total, it stays on the CPU, and what is added is brought to it: `hits += count(model(x), y).cpu()`.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence import values
from ..evidence.collect import Evidence
from ..evidence.scopes import Scope, own_nodes
from ..evidence.steps import Step
from ._finding import Finding, Mend
from ._host_reads import brought_mend
from ._kept import add_kept_mend, made_at, names_of

NAME = "accumulator-on-cpu"
TITLE = "a running total was started on the CPU"
ADDING = frozenset(
    "add_ sub_ mul_ div_ addcmul_ addcdiv_ addmm_ addmv_ addr_ addbmm_ baddbmm_ lerp_ index_add_ index_reduce_ "
    "scatter_add_ scatter_reduce_ logical_or_ logical_and_ bitwise_or_ bitwise_and_".split()
)
"""The methods in place that keep what was there; `scatter_`, `copy_` and the like only write over it."""

JOINING = frozenset(
    "add sub mul maximum minimum fmax fmin lerp logical_or logical_and cat concat concatenate hstack vstack".split()
)
"""What combines a total with the next result, as a function or a method."""


def find(evidence: Evidence) -> Finding | None:
    wrong = evidence.wrong
    made = made_at(evidence)
    if wrong is None or made is None or evidence.wanted == "cpu" or not _accumulates(evidence):
        return None
    root, kept = made
    if values.is_module(kept.owner) or not _started(evidence, kept):
        return None
    text = wrong.expression
    finding = Finding(
        certainty="certain" if wrong.proven else "likely",
        culprit=text,
        root_node=root.node,
        root_scope=root.scope,
        root_note=f"started here, on {wrong.device}; what goes into it is on {evidence.wanted}",
    )
    if _brought(evidence, finding):
        return finding
    brought = brought_mend(evidence, kept)
    if brought is not None:
        finding.mends.append(brought)
    else:
        add_kept_mend(evidence, finding, root, kept)
    return finding


def _brought(evidence: Evidence, finding: Finding) -> bool:
    """Where other lines bring what they add to the total's device (`hits += part.cpu()`): so does this one."""
    wrong, user = evidence.wrong, evidence.user
    assert wrong is not None and user is not None
    statement = user.live.statement if user.live is not None else None
    if not isinstance(statement, ast.AugAssign):
        return False
    text = ast.unparse(statement.target)
    for node in own_nodes(user.node):
        if not isinstance(node, ast.AugAssign) or node is statement or ast.unparse(node.target) != text:
            continue
        if isinstance(node.value, ast.Call) and evidence.inference.moved_to(node.value, user) == wrong.device:
            made = edits.append_method(user.source, statement.value, ".cpu()")
            title = f"bring it to the total, as line {node.lineno} does"
            finding.mends.append(Mend(title, made, statement, user))
            finding.headline = (
                f"`{text}` is on {wrong.device}, but what is added to it is on {evidence.wanted}"
            )
            evidence.wrongs = []  # the total is where it should be
            return True
    return False


def _started(evidence: Evidence, kept: Step) -> bool:
    """Whether what was made is the total itself, not something that it was taken from."""
    wrong = evidence.wrong
    if wrong is None:
        return True
    names, node = names_of(kept), wrong.leaf.node
    if ast.unparse(node) in names or (isinstance(node, ast.Subscript) and ast.unparse(node.value) in names):
        return True
    return not any(s.kind == "assign" for s in evidence.steps[: evidence.steps.index(kept)])


def _accumulates(evidence: Evidence) -> bool:
    """Whether the failing statement adds to the wrong operand: in place, or by binding its name to the sum."""
    user, wrong = evidence.user, evidence.wrong
    statement = user.live.statement if user is not None and user.live is not None else None
    if wrong is None or statement is None or wrong.leaf.scope is not user:
        return False
    text = ast.unparse(wrong.leaf.node)
    if isinstance(statement, ast.AugAssign):
        return ast.unparse(statement.target) == text
    if isinstance(statement, ast.Assign):
        bound = any(ast.unparse(t) == text for t in statement.targets)
        return bound and _is_term(wrong.leaf.node, wrong.leaf.scope) and not _is_given(evidence)
    node = evidence.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ADDING and ast.unparse(node.func.value) == text
    return False


def _is_term(node: ast.AST, scope: Scope) -> bool:
    """Whether an operand is part of a sum or of what is joined, not what a layer or a function is called with."""
    parent = scope.source.parent(node)
    if isinstance(parent, ast.List | ast.Tuple):
        parent = scope.source.parent(parent)
    if isinstance(parent, ast.Call):
        called = parent.func.attr if isinstance(parent.func, ast.Attribute) else ast.unparse(parent.func)
        return called in JOINING
    return isinstance(parent, ast.BinOp)


def _is_given(evidence: Evidence) -> bool:
    """Whether the operand came in as a parameter: binding that name again adds nothing to what the caller holds."""
    return any(step.kind == "parameter" for step in evidence.steps)
