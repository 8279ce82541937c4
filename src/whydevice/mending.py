"""Which fix to take, where a place lies once a file was edited, and whether an edit made things worse."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from .outcome import Failure, Outcome
from .types import Edit, Explanation, Fix

_BREAKS = {
    "AttributeError", "ImportError", "IndentationError", "KeyError", "ModuleNotFoundError", "NameError",
    "SyntaxError", "TypeError", "UnboundLocalError",
}  # fmt: skip
"""What a wrong edit raises, wherever its names are used."""


class Applied(NamedTuple):
    """A fix in the files, and the explanation that proposed it."""

    fix: Fix
    explanation: Explanation


def admissible(explanation: Explanation, *, unsafe: bool) -> list[Fix]:
    """The fixes that may be written, in the order of the explanation."""
    allowed = ("safe", "unsafe") if unsafe else ("safe",)
    return [fix for fix in explanation.fixes if fix.edits and fix.applicability in allowed]


def moved_line(edits: Iterable[Edit], file: str, line: int) -> int:
    """The line where the text of `line` of `file` stands after the edits."""
    moved = line
    for edit in edits:
        if not _same_file(edit.file, file):
            continue
        whole_lines_before = edit.line == edit.end_line == line and edit.end_column == 0
        if edit.end_line < line or whole_lines_before:
            moved += edit.text.count("\n") - (edit.end_line - edit.line)
    return moved


def edited_lines(edits: Iterable[Edit]) -> set[tuple[str, int]]:
    """The lines that the edits wrote, numbered as they stand afterwards."""
    edits = tuple(edits)
    lines: set[tuple[str, int]] = set()
    for edit in edits:
        others = [other for other in edits if other is not edit]
        first = moved_line(others, edit.file, edit.line)
        # An insertion of whole lines ends at the start of a line that it did not write.
        count = edit.text.count("\n") + (not edit.text.endswith("\n"))
        lines.update((os.path.realpath(edit.file), first + n) for n in range(max(count, 1)))
    return lines


def same_place(applied: Applied, before: Outcome, after: Outcome) -> bool:
    """True when the same thing fails again at the same place, so that the fix did not help."""
    if not after.explanations or _called_later(applied, before.failure, after.failure):
        return False
    old, new = applied.explanation, after.explanations[0]
    if old.culprit is None or new.culprit is None:
        return _failing(old) == _failing(new)
    if (old.culprit.expression, old.culprit.device) != (new.culprit.expression, new.culprit.device):
        return False
    was, now = _failing(old), _failing(new)
    if was is None or now is None or not _same_file(was[0], now[0]):
        return was == now
    return moved_line(applied.fix.edits, *was) == now[1] and not _of_another_origin(applied, new)


def _of_another_origin(applied: Applied, new: Explanation) -> bool:
    """Whether what fails now was made elsewhere, off the mended place: an earlier turn of a loop got past."""
    old = applied.explanation
    if old.root is None or new.root is None or {old.certainty, new.certainty} != {"certain"}:
        return False
    edits = applied.fix.edits
    mended = edited_lines(edits) | {
        (os.path.realpath(old.root.file), moved_line(edits, old.root.file, old.root.line))
    }
    return not mended & {(os.path.realpath(p.file), p.line) for p in (new.root, *new.trail)}


def _called_later(applied: Applied, before: Failure | None, after: Failure | None) -> bool:
    """Whether a later line of the same caller led to the failing place this time: the call before it passed."""
    if before is None or after is None:
        return False
    for (file, line), (file_now, line_now) in zip(before.places, after.places, strict=False):
        moved = moved_line(applied.fix.edits, file, line)
        if not _same_file(file, file_now) or moved != line_now:
            return _same_file(file, file_now) and line_now > moved
    return False


def _failing(explanation: Explanation) -> tuple[str, int] | None:
    """Where it failed: the end of the trail."""
    if explanation.trail:
        return explanation.trail[-1].file, explanation.trail[-1].line
    if explanation.culprit and explanation.culprit.file and explanation.culprit.line:
        return explanation.culprit.file, explanation.culprit.line
    return None


def broke(applied: Applied, before: Outcome, after: Outcome) -> str | None:
    """In one sentence, how the edit broke the script; None when it did not.

    An error that is not about devices counts when it was raised on an edited line, or when it is of a kind
    that a wrong edit raises and names something that the edit wrote. Any other is the script's own.
    """
    failure = after.failure
    if failure is None or after.explanations or _alike(before.failure, failure):
        return None
    said = f"{failure.type} on {{}} that was not there before"
    place = _innermost(failure)
    if place is not None and place in edited_lines(applied.fix.edits):
        return said.format(f"line {place[1]}")
    names = set(re.findall(r"'([A-Za-z_]\w*)'", failure.message))
    written = {word for edit in applied.fix.edits for word in re.findall(r"[A-Za-z_]\w*", edit.text)}
    if failure.type in _BREAKS and names & written:
        return said.format("a name in the edit")
    return None


def _alike(before: Failure | None, after: Failure) -> bool:
    return before is not None and (before.type, before.message) == (after.type, after.message)


def _innermost(failure: Failure) -> tuple[str, int] | None:
    """The innermost place in the user's own code."""
    from .evidence.libraries import is_library

    for file, line in reversed(failure.places):
        if not is_library(file):
            return os.path.realpath(file), line
    return None


def _same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
