"""From a cause's mends to fixes: with a diff, or refused, with the reason, where the file must not be edited."""

from __future__ import annotations

import ast
import os
import sys
import types
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from . import edits
from .causes._finding import Finding, Mend
from .evidence import values
from .evidence.after import UNCHANGED, After
from .evidence.collect import Evidence
from .evidence.libraries import is_library
from .evidence.moveless import refuse_edits
from .evidence.operands import Leaf, moved_at_once
from .evidence.parted import parted
from .evidence.passive import (
    class_entries,
    code_file,
    code_name,
    exactly,
    instance_dict,
    is_a,
    is_class,
    lookup,
    same_scalar,
)
from .evidence.scopes import MISSING
from .evidence.sources import is_regular_file
from .source import EditError, Source
from .types import Applicability, Edit, Fix
from .verify import Operand, Verdict, judge

MOST_COMPARED = 8
"""Frames of a long file whose code is compared with its text, besides the functions that are edited."""


def fixes(evidence: Evidence, finding: Finding) -> tuple[Fix, ...]:
    """The fixes of a finding, in its order; a mend that cannot be made is left out."""
    found = [_fix(evidence, mend) for mend in finding.mends]
    return tuple(fix for fix in found if fix is not None)


def _fix(evidence: Evidence, mend: Mend) -> Fix | None:
    if not mend.edits:
        return Fix(mend.title, "manual", reason=mend.reason) if mend.reason else None
    try:
        sources = _sources(evidence, mend.edits)
        refused = refusal(evidence, mend.edits, sources)
        if refused:
            return Fix(mend.title, "manual", reason=refused)
        verdict = judged(evidence, mend.edits, sources)
        if verdict.parted:
            return None  # it would fail before it came to the call that it is for
        if verdict.left:
            mend, verdict = _joined(evidence, mend, verdict)
            sources = _sources(evidence, mend.edits)
        diff = edits.unified_diff(mend.edits, os.getcwd(), sources)
    except (EditError, OSError):
        return None
    fix = Fix(mend.title, mend.applicability, tuple(mend.edits), diff, verdict.passes, mend.reason)
    return _lowered(fix, verdict) if verdict.passes is False else fix


def _joined(evidence: Evidence, mend: Mend, verdict: Verdict) -> tuple[Mend, Verdict]:
    """The mend with those of what would fail next, where the call then passes; else as it was."""
    from .causes._mend import mend_value

    made = list(mend.edits)
    for wrong in evidence.wrongs:
        if wrong.expression not in verdict.left:
            continue
        more = mend_value(evidence, evidence.trace(wrong.leaf.node, wrong.leaf.scope))
        if more is None or more.applicability != mend.applicability:
            return mend, verdict
        if not any(a.touches(b) for a in more.edits for b in made):
            made += more.edits
    both = replace(mend, edits=tuple(dict.fromkeys(made)))
    sources = _sources(evidence, both.edits)
    again = judged(evidence, both.edits, sources)
    if again.passes is not True or refusal(evidence, both.edits, sources):
        return mend, verdict
    return both, again


def _lowered(fix: Fix, verdict: Verdict) -> Fix:
    """A fix that is not enough is none to take without a look."""
    left = " and ".join(f"`{name}`" for name in verdict.left[:2])
    applicability: Applicability = "unsafe" if fix.applicability == "safe" else fix.applicability
    reason = fix.reason or f"the call would still fail: {left} stays where it is"
    return fix._replace(applicability=applicability, reason=reason)


def judged(evidence: Evidence, made: tuple[Edit, ...], sources: dict[str, Source]) -> Verdict:
    """Whether the call that failed would pass with the edits. Raises EditError for edits that break something."""
    new = edits.edited(made, sources)
    for source in new.values():
        if name := None if source.long else edits.lost_update(made, source):
            raise EditError(f"what is done to `{name}` in place would be done to a copy")
    wanted = evidence.wanted
    if wanted is None or not evidence.wrongs:
        return Verdict(None)
    modules = [s.receiver for s in evidence.scopes if values.is_module(s.receiver)]
    after = After(made, sources, new, evidence.inference, modules, evidence.scopes)
    refuse_edits(after, evidence.scopes)
    apart = parted(after, evidence.scopes)
    if apart:
        return Verdict(False, parted=apart)
    if _brought(after, evidence):
        return Verdict(True if _known(evidence) else None)
    direct = evidence.inner is evidence.leaves
    operands = []
    for index, wrong in enumerate(evidence.wrongs):
        if index and moved_at_once(wrong.leaf.node, wrong.leaf.scope):
            continue
        steps = evidence.trace(wrong.leaf.node, wrong.leaf.scope) if index else evidence.steps
        branches = evidence.tracer.branches if index else evidence.branches
        device = after.device(steps, wanted)
        # Whether a library would mind the others is not known; nor is what a value was made of, if it was made
        # of several.
        blamed = wrong.proven and (direct or not index) and not wrong.leaf.is_scalar
        if device == UNCHANGED:
            device = wrong.device if after.untouched(steps) else None
        elif branches and not after.whole:
            device = None
        operands.append(Operand(wrong.expression, wrong.device, device, blamed))
    return judge(wanted, operands, complete=_known(evidence))


def _brought(after: After, evidence: Evidence) -> bool:
    """Whether the edits bring all the others of the call to where the wrong ones are (`total += part.cpu()`)."""
    others = [one for one in evidence.leaves if one.device == evidence.wanted and not one.is_scalar]
    return bool(others) and all(
        isinstance(one.node, ast.expr)
        and one.scope.source.path in after.new
        and after.changed(one.node, one.scope) == evidence.wrong_device
        for one in others
    )


def _known(evidence: Evidence) -> bool:
    """Whether the device of every operand of the call is known: where it should be, or judged with the wrong ones."""
    return all(_is_known(one, evidence) for one in evidence.leaves)


def _is_known(one: Leaf, evidence: Evidence) -> bool:
    if one.device is not None or (one.value is not MISSING and not one.held):
        return True
    if one.value is MISSING:
        literal = isinstance(one.node, ast.List | ast.Tuple)
        return literal and bool(one.parts) and all(_is_known(part, evidence) for part in one.parts)
    judged = [wrong.held.tensor for wrong in evidence.wrongs if wrong.held is not None]
    return not one.is_module and all(
        held.device == evidence.wanted or any(held.tensor is tensor for tensor in judged) for held in one.held
    )


def _sources(evidence: Evidence, made: Iterable[Edit]) -> dict[str, Source]:
    """The texts that the edits were made for."""
    found: dict[str, Source] = {}
    for path in dict.fromkeys(edit.file for edit in made):
        source = evidence.sources.get(path)
        if source is None:
            raise EditError(f"{path} cannot be read")
        found[path] = source
    return found


def refusal(evidence: Evidence, made: tuple[Edit, ...], sources: dict[str, Source]) -> str:
    """Why the edits must not be made; empty where they may."""
    for path, source in sources.items():
        name = os.path.basename(path)
        if is_library(path):
            return f"{name} is a library's file, which is never edited"
        if is_regular_file(path):
            if not os.access(os.path.realpath(path), os.W_OK):
                return f"{name} is not writable, so it is not edited"
            codes = running(evidence, source, [edit.line for edit in made if edit.file == path])
            try:
                changed = not all(edits.runs_as(source, code) for code in codes)
            except EditError:
                return f"{name} cannot be compared with the code that runs, so it is not edited"
            if changed:
                return f"{name} is not the code that runs: it has changed since it was loaded, so it is not edited"
    marked = edits.ignored(made, sources)
    if marked:
        return f"line {marked[0].line} is marked `# whydevice: ignore`, so it is not edited"
    return ""


def running(evidence: Evidence, source: Source, lines: list[int]) -> list[types.CodeType]:
    """The code that runs from a file: that of its frames (of a long file, the nearest to the failure), and that of
    the functions on these lines."""
    found: list[types.CodeType] = []
    frames = [live.frame for live in evidence.frames if live.source is source]
    names: dict[str, Any] = next((frame.f_globals for frame in frames), {})
    for frame in frames[-MOST_COMPARED:] if source.long else frames:
        # Compiling all of a long file takes longer than an explanation may.
        if not (source.long and code_name(frame.f_code) == "<module>"):
            found.append(frame.f_code)
    names = names or _globals(source.path)
    for line in lines:
        code_of = _function(source, line, names)
        if code_of is not None:
            found.append(code_of)
    return list(dict.fromkeys(found))


def _globals(path: str) -> dict[str, Any]:
    """The names of the module that was loaded from a file."""
    for module in list(sys.modules.values()):
        if is_a(module, types.ModuleType):
            names = instance_dict(module)
            if same_scalar(lookup(names, "__file__"), path):
                return names
    return {}


def _function(source: Source, line: int, names: dict[str, Any]) -> types.CodeType | None:
    """The code of the function or method around a line, as it was loaded."""
    statement = source.statement_at(source.tree_at(line), line)
    if statement is None:
        return None
    ups = [statement, *source.ancestors(statement)]
    trail = [
        n.name for n in reversed(ups) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    held: Any = lookup(names, trail[0]) if trail else None
    for name in trail[1:]:
        if not is_class(held):
            break  # a function inside a function is part of its code
        held = lookup(class_entries(held), name)
    if exactly(held, staticmethod, classmethod):
        held = held.__func__
    if type(held) is types.FunctionType and code_file(held.__code__) == source.path:
        return held.__code__
    return None
