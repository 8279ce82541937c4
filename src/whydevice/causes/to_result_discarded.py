"""What happened: `x.to(device)` was called, and its result thrown away.

A tensor's `.to()`, `.cuda()` and `.cpu()` return a new tensor and leave the old one where it was. A module's `.to()`
works in place: `model.to(device)` alone is right, `x.to(device)` alone does nothing.

How to recognise it: a line that is only `name.to(...)` on a tensor, and the tensor still on its old device below; or a
loop such as `for t in (x, y): t = t.to(device)`, which binds its own variable to the copy and leaves `x` and `y` alone.
So it is in a `.to()` method of your own that moves the values of its fields and sets none of them.

Before:

    x.to(device)
    logits = model(x)

After:

    x = x.to(device)
    logits = model(x)

Safe: the line was meant to do this. Where the name is a variable of an enclosing function, binding it would make it
local, so a closure's is left to you.
"""

from __future__ import annotations

import ast

from .. import edits
from ..evidence.collect import Evidence
from ..evidence.scopes import Scope, bindings_of
from ..evidence.steps import Step
from ..types import Edit
from ._facts import discarded_moves
from ._fields import lost_fields
from ._finding import Finding, Mend
from ._loops import LostMove, keep_moved, lost_moves
from ._mend import mend_value
from ._values_shared import together

NAME = "to-result-discarded"
TITLE = "the result of a tensor's .to() was thrown away"

_NOTE = "A tensor's .to() returns a new tensor; a module's .to() works in place."


def find(evidence: Evidence) -> Finding | None:
    if evidence.wrong is not None and evidence.wrong.leaf.is_module:
        return None  # a module's .to() works in place: nothing is thrown away
    for step in evidence.steps:
        if not step.editable:
            continue
        for scope, names in _names(step):
            statement = next(discarded_moves(evidence, scope, names), None)
            if statement is not None:
                return _finding(evidence, Step(step.kind, step.node, scope), statement)
            lost = next(lost_moves(evidence, scope, names), None)
            if lost is not None:
                return _in_loop(evidence, scope, lost, step)
    return _in_method(evidence)


def _names(step: Step) -> list[tuple[Scope, set[str]]]:
    """The names of the value at a step; a parameter's name is the callee's, its argument the caller's."""
    text = step.text() if isinstance(step.node, ast.Name | ast.Attribute) else ""
    if step.kind == "parameter":
        return [(step.extra["callee"], {step.name}), (step.scope, {text})]
    return [(step.scope, {step.name or text, text} - {""})]


def _in_loop(evidence: Evidence, scope: Scope, lost: LostMove, step: Step) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None:
        return None
    note = "the moved copy is thrown away here"
    if isinstance(lost.statement, ast.Assign):
        note = f"binds `{lost.item}` to the copy; `{ast.unparse(lost.over)}` stays as it was"
    finding = Finding(
        headline=f"`{wrong.expression}` is still on {evidence.wrong_device}: {_copied(evidence, step)}",
        culprit=wrong.expression,
        root_node=lost.statement,
        root_scope=scope,
        root_note=note,
        notes=[_NOTE],
    )
    kept = keep_moved(scope, lost)
    if kept is not None:
        finding.mends.append(Mend("keep the moved copies", kept[1], kept[0], scope))
        return finding
    return _moved_elsewhere(evidence, finding)


def _moved_elsewhere(evidence: Evidence, finding: Finding) -> Finding:
    """The finding, with the value moved on its way, where the call that is to be kept cannot be."""
    mend = mend_value(evidence, evidence.steps)
    if mend is not None:
        together(evidence, mend)
        finding.mends.append(mend)
    return finding


def _copied(evidence: Evidence, step: Step) -> str:
    """What the loop moves, and does not keep: a copy of the value itself, or of what it was made of."""
    way = evidence.steps[: evidence.steps.index(step)]
    made = any(
        isinstance(s.node, ast.BinOp | ast.Call)
        and not (isinstance(s.node, ast.Call) and evidence.inference.call_kind(s.node, s.scope)[0] == "other")
        for s in way
        if s.kind in ("use", "assign", "return", "parameter")
    )
    if made:
        return "a loop moves copies of what it was made of, and does not keep them"
    return "a loop moves a copy of it, and does not keep the copy"


def _in_method(evidence: Evidence) -> Finding | None:
    """The object that holds the tensor was moved by a function of the user's, which moves copies and keeps none."""
    wrong = evidence.wrong
    if wrong is None or wrong.leaf.is_module or evidence.wanted in (None, "cpu", "meta"):
        return None
    found = lost_fields(evidence)
    if not found:
        return None
    lost = found[0]
    copies = "a copy of it, and does not keep the copy"
    if lost.value is not wrong.tensor:
        copies = "copies of what it was made of, and does not keep them"
    finding = Finding(
        headline=f"`{wrong.expression}` is still on {evidence.wrong_device}: `{lost.mover}` moves {copies}",
        culprit=wrong.expression,
        root_node=lost.statement,
        root_scope=lost.scope,
        root_note="the moved copy is thrown away here",
        notes=[_NOTE],
    )
    made = lost.edits(found) if Step("use", lost.call, lost.scope).editable else ()
    if made:
        finding.mends.append(Mend("keep the moved copies", made, lost.statement, lost.scope))
        return finding
    return _moved_elsewhere(evidence, finding)


def _finding(evidence: Evidence, step: Step, statement: ast.Expr) -> Finding:
    assert isinstance(statement.value, ast.Call) and isinstance(statement.value.func, ast.Attribute)
    moved = ast.unparse(statement.value.func.value)
    finding = Finding(
        headline=f"`{moved}` is still on {evidence.wrong_device}: a tensor's .{statement.value.func.attr}() returns a new tensor, and this one was thrown away",
        root_node=statement,
        root_scope=step.scope,
        root_note="the moved copy is thrown away here",
        notes=[_NOTE],
    )
    source = step.scope.source
    made: list[Edit] = []
    for other in _beside(evidence, step, statement):
        name = ast.unparse(other.value.func.value)  # type: ignore[attr-defined]
        if name.isidentifier() and not _is_own(name, step):
            continue
        made += edits.assign_result(source, other)
    if made:
        finding.mends.append(Mend("keep the result", tuple(made), statement, step.scope))
    return finding


def _beside(evidence: Evidence, step: Step, statement: ast.Expr) -> list[ast.Expr]:
    """The statement, and those in the same block that throw away a move just like it."""
    parent = step.scope.source.parent(statement)
    found = [statement]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            targets = {
                ast.unparse(s.value.func.value)
                for s in block
                if isinstance(s, ast.Expr)
                and isinstance(s.value, ast.Call)
                and isinstance(s.value.func, ast.Attribute)
            }
            found = [s for s in discarded_moves(evidence, step.scope, targets) if s in block]
    return found or [statement]


def _is_own(name: str, step: Step) -> bool:
    """Whether binding the name here rebinds it, rather than making a new local of a free variable."""
    return (
        step.scope.is_parameter(name)
        or name in bindings_of(step.scope.node)
        or not hasattr(step.scope.node, "args")
    )
