"""What the causes about single tensors share: a headline, a root, and the general mend."""

from __future__ import annotations

import ast

from .. import edits
from ..edits import EditError
from ..evidence import values
from ..evidence.after import After
from ..evidence.collect import Evidence
from ..evidence.operands import moved_at_once
from ..evidence.scopes import Scope
from ..evidence.steps import Step
from ..types import Edit
from ._finding import Finding, Mend
from ._mend import mend_value

MOST_TOGETHER = 8


def value_finding(evidence: Evidence, note: str, root: Step | None = None) -> Finding | None:
    wrong = evidence.wrong
    if wrong is None or went_elsewhere(evidence):
        return None
    finding = Finding(culprit=wrong.expression, root_note=note)
    mend = mend_value(evidence, evidence.steps)
    if mend is not None:
        together(evidence, mend)
        finding.mends.append(mend)
        finding.root_node, finding.root_scope = mend.node, mend.scope
        finding.root_note = mend.note or note
        if not _at_end(evidence, mend):
            finding.certainty = "likely"  # where along its way it is best moved is a matter of judgement
    else:
        finding.root = root or evidence.root
    return finding


def made_note(root: Step) -> str:
    """What a factory's call did, in a few words."""
    if root.kind == "factory":
        return "made here without device=, so on cpu"
    return f"{root.name} makes a tensor on cpu"


def _at_end(evidence: Evidence, mend: Mend) -> bool:
    """Whether the mend is where the way ends: at the factory call, or in the function that loops over the loader."""
    last = evidence.steps[-1]
    if last.kind == "loader" and mend.scope.node is last.scope.node:
        return True
    if mend.node in (last.node, last.stmt):
        return True
    return mend.scope.source is last.scope.source and getattr(mend.node, "lineno", 0) == last.line


def together(evidence: Evidence, mend: Mend) -> None:
    """Mend what would fail next with it: the other wrong operands of the call, and the other makers of this one."""
    made: list[Edit] = list(mend.edits)
    for node, scope in _others(evidence, mend):
        steps = evidence.trace(node, scope)
        try:
            more = mend_value(evidence, steps)
        except EditError:
            continue
        if more is None or any(a.touches(b) for a in more.edits for b in made):
            continue
        made += more.edits
    mend.edits = tuple(dict.fromkeys(made))


def _others(evidence: Evidence, mend: Mend) -> list[tuple[ast.AST, Scope]]:
    found: list[tuple[ast.AST, Scope]] = []
    for wrong in evidence.wrongs[1:]:
        if wrong.device == evidence.wrong_device and not wrong.leaf.is_module and not wrong.leaf.is_scalar:
            if moved_at_once(wrong.leaf.node, wrong.leaf.scope):
                continue
            found.append((wrong.leaf.node, wrong.leaf.scope))
    if evidence.root is not None and mend.node is evidence.root.node:
        found += evidence.branches  # mended at its makers, so all of them
    found += _in_statement(evidence)
    return found[:MOST_TOGETHER]


def _in_statement(evidence: Evidence) -> list[tuple[ast.AST, Scope]]:
    """The other names of the failing statement that hold sized tensors on the wrong device: they would fail next."""
    user = evidence.user
    statement = user.live.statement if user is not None and user.live is not None else None
    if (
        user is None
        or statement is None
        or isinstance(statement, ast.For | ast.With | ast.If | ast.While | ast.Try)
    ):
        return []
    inside = {id(n) for wrong in evidence.wrongs for n in ast.walk(wrong.leaf.node)}
    found: list[tuple[ast.AST, Scope]] = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in inside:
            held = user.locals.get(node.id)
            if (
                values.is_tensor(held)
                and values.device_of(held) == evidence.wrong_device
                and values.shape_of(held)
            ):
                if isinstance(user.source.parent(node), ast.BinOp):
                    found.append((node, user))
    return found


def reaches(evidence: Evidence, made: tuple[Edit, ...], steps: list[Step]) -> bool:
    """Whether edits are known to put a value where it is wanted."""
    try:
        sources = {path: evidence.sources.get(path) for path in {edit.file for edit in made}}
        old = {path: source for path, source in sources.items() if source is not None}
        after = After(made, old, edits.edited(made, old), evidence.inference, scopes=evidence.scopes)
        return after.device(steps, evidence.wanted or "") == evidence.wanted
    except (edits.EditError, KeyError):
        return False


def joined(first: Mend, more: Mend) -> tuple[Edit, ...]:
    """The edits of two mends; what they put in at the same place as one. Nothing where they cannot be joined."""
    both = list(first.edits)
    for edit in more.edits:
        if edit in both:
            continue
        near = next((at for at, known in enumerate(both) if known.touches(edit)), None)
        if near is None:
            both.append(edit)
            continue
        if not (_puts_in(edit) and both[near]._replace(text=edit.text) == edit):
            return ()
        both[near] = edit._replace(text=both[near].text + edit.text)
    return tuple(both)


def _puts_in(edit: Edit) -> bool:
    return (edit.line, edit.column) == (edit.end_line, edit.end_column)


def went_elsewhere(evidence: Evidence) -> bool:
    """Whether the way leads through a move to the wanted device: then it is not the way that this tensor came."""
    return any(
        s.kind == "move"
        and isinstance(s.node, ast.Call)
        and isinstance(s.node.func, ast.Attribute)
        and evidence.inference.moved_to(s.node, s.scope) == evidence.wanted
        for s in evidence.steps
    )


def has(evidence: Evidence, *kinds: str) -> Step | None:
    """The last step of one of these kinds."""
    return next((s for s in reversed(evidence.steps) if s.kind in kinds), None)
