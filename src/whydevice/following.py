"""Lets one fix mend everything that would fail next: each such operand is diagnosed, and its mend joins the first."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from .causes._finding import Finding, Mend
from .evidence import values
from .evidence.ahead import Lookout, Next
from .evidence.collect import Evidence, Wrong
from .evidence.scopes import Scope
from .types import Also, DeviceError, Edit

MOST_JOINED = 6
_ORDER = {"safe": 0, "unsafe": 1, "manual": 2}


def join(
    evidence: Evidence, finding: Finding, diagnose: Callable[[Evidence], tuple[object, Finding | None]]
) -> tuple[Also, ...]:
    """Add to a finding's first mend those of what would fail next. Returns the operands that it would fail of."""
    if not finding.mends or not finding.mends[0].edits or evidence.wanted in (None, "cpu", "meta"):
        return ()
    known = tuple(_same_reason(evidence, finding))
    if evidence.wrong_device != "cpu":
        return known  # between accelerators, where each belongs is not told by the first
    also: list[Also] = []
    for each in Lookout(evidence).found()[:MOST_JOINED]:
        first = finding.mends[0]
        if _mended(each, first, evidence) or _placed_by_hooks(evidence, each):
            continue
        _, more = diagnose(_as_if_it_failed(evidence, each))
        if more is None or more.certainty == "possible":
            continue
        if first.stays and not (more.mends and more.mends[0].stays):
            continue  # looked ahead with the culprit where it is not going to be
        also.append(
            Also(
                each.leaf.expression,
                evidence.wrong_device,
                evidence.wanted,
                each.scope.source.path,
                getattr(each.leaf.node, "lineno", 0),
            )
        )
        if more.mends and more.mends[0].edits:
            _join(evidence, finding, more, each)
    return tuple(dict.fromkeys((*known, *also)))


def _same_reason(evidence: Evidence, finding: Finding) -> Iterator[Also]:
    """What the cause itself has found beside the culprit."""
    for node, scope in finding.also:
        yield Also(
            scope.source.one_line(node),
            evidence.wrong_device or "",
            evidence.wanted or "",
            scope.source.path,
            getattr(node, "lineno", 0),
        )


def _mended(each: Next, first: Mend, evidence: Evidence) -> bool:
    """Whether the mend changes that very operation already (its index comes to the CPU, where its table stays).

    Where only the culprit itself is moved, as a part of a larger expression, the rest of that is as it was.
    """
    culprit = evidence.wrong.leaf if evidence.wrong is not None else None
    inside = {e for e in first.edits if culprit is not None and _within(e, culprit.node, culprit.scope)}
    return any(e not in inside and _within(e, each.operation, each.scope) for e in first.edits)


def _within(edit: Edit, node: ast.AST, scope: Scope) -> bool:
    start = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    end = getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0
    return edit.file == scope.source.path and start <= (edit.line, edit.column) <= end


def _placed_by_hooks(evidence: Evidence, each: Next) -> bool:
    """Whether a hook brings it where it is needed by the time that it is used."""
    from .causes._offload import is_managed

    return any(
        values.is_module(m) and is_managed(evidence, m) for m in (each.leaf.value, each.scope.receiver)
    )


def _as_if_it_failed(evidence: Evidence, each: Next) -> Evidence:
    """The evidence of the error that an operand would raise next."""
    wrong_device = evidence.wrong_device or ""
    error = DeviceError("RuntimeError", "", "A1", (evidence.wanted or "", wrong_device))
    held = each.leaf.held[0] if each.leaf.held else None
    wrong = Wrong(each.leaf, held, wrong_device)
    steps = evidence.trace(each.leaf.node, each.leaf.scope)
    return replace(
        evidence,
        error=error,
        user=each.scope,
        node=each.operation,
        leaves=[each.leaf],
        inner=[each.leaf],
        wrongs=[wrong],
        steps=steps,
        branches=list(evidence.tracer.branches),
        library=None,
    )


def _join(evidence: Evidence, finding: Finding, more: Finding, each: Next) -> None:
    """Add the mend of what would fail next, unless one of the two is enough for both."""
    from .causes._values_shared import reaches

    first, second = finding.mends[0], more.mends[0]
    steps = evidence.trace(each.leaf.node, each.leaf.scope)
    if reaches(evidence, first.edits, steps):
        return
    single = len(evidence.wrongs) == 1 and not evidence.branches
    alone = single and second.applicability == first.applicability
    if alone and reaches(evidence, second.edits, evidence.steps):
        finding.mends[0] = second
        finding.root_node, finding.root_scope, finding.root_note = (
            more.root_node, more.root_scope, more.root_note,
        )  # fmt: skip
        return
    _add(first, second)


def _add(first: Mend, more: Mend) -> None:
    fresh = [edit for edit in more.edits if edit not in first.edits]
    if any(a.touches(b) for a in fresh for b in first.edits):
        return
    first.edits = (*first.edits, *fresh)
    if _ORDER[more.applicability] > _ORDER[first.applicability]:
        first.applicability, first.reason = more.applicability, more.reason
