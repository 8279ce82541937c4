"""A fix as lines: its title, why it is not safe, and the lines that it takes away and adds, with their
numbers.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ..types import Edit, Fix
from .paths import relative
from .source import Shown
from .tree import Line, Span, Style, clean, cut, cut_left, take, width_of, wrap

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_STYLES: dict[str, Style] = {"-": "removed", "+": "added", " ": "dim"}
_LABELS: dict[str, Style] = {"safe": "good", "unsafe": "warn", "manual": "warn"}
_MOST_ROWS_OF_A_LINE = 4


@dataclass(frozen=True)
class Change:
    """A line of a diff. `number` counts in the old file for what is taken away, else in the new one."""

    file: str
    number: int
    sign: Literal["-", "+", " "]
    text: str


def changes(fix: Fix, sources: Mapping[str, str]) -> list[Change]:
    """The changed lines, and before lines that are only added the line that they follow."""
    found: list[Change] = []
    context: Change | None = None
    for change in _parsed(fix.diff or _diff(fix.edits, sources)):
        if change.sign == " ":
            context = change
            continue
        if change.sign == "+" and context is not None and context.text.strip():
            found.append(context)
        context = None
        found.append(change)
    return found


def lines(
    fix: Fix, rows: list[Change], digits: int, width: int, most: int, named: bool, word: str
) -> Iterator[Line]:
    """The fix; `named` says that the file is to be named, `word` is `fix` or `or`."""
    head = f"{word} ({fix.applicability})"
    titles = wrap(fix.title, width - 6, width - len(head) - 4)
    yield (Span("  "), Span(head, _LABELS.get(fix.applicability, "")), Span(f": {titles[0]}"))
    for piece in titles[1:]:
        yield (Span("      "), Span(piece))
    if fix.applicability != "safe" and fix.reason:
        for piece in wrap(fix.reason, width - 6):
            yield (Span("      "), Span(piece, "dim"))
    if fix.verified is False and not fix.reason:
        for piece in wrap("not enough: the script still fails with it", width - 6):
            yield (Span("      "), Span(piece, "warn"))
    yield from _rows(rows, digits, width, most, named)


def _rows(rows: list[Change], digits: int, width: int, most: int, named: bool) -> Iterator[Line]:
    room = width - digits - 5
    shown = [Shown.of(row.text) for row in rows]
    wide = any(width_of(one.text) > room for one in shown)
    # Code as deep as this would leave no room; what is less deep keeps its place.
    dedent = max(min((one.indent for one in shown if one.text), default=0) - 12, 0) if wide else 0
    file, used = None, 0
    for at, (row, one) in enumerate(zip(rows, shown, strict=True)):
        pieces = _code(one.text[dedent:], room)
        if used + len(pieces) > most and (used + len(pieces) + len(rows) - at - 1 > most + 1):
            left = len(rows) - at
            yield (Span(f"   {'':>{digits}} "), Span(f"... and {left} more line{'s' * (left != 1)}", "dim"))
            return
        if named and row.file != file:
            file = row.file
            yield (Span("    "), Span(cut_left(clean(relative(file)), width - 5) + ":", "place"))
        used += len(pieces)
        number = f"{row.number:>{digits}}"
        for piece in pieces:
            yield (Span(f"   {number} ", "gutter"), Span(f"{row.sign}{piece}", _STYLES[row.sign]))
            number = " " * digits


def _code(text: str, room: int) -> list[str]:
    """The code in rows of at most `room` columns, broken behind a comma, a bracket or a space; a comment behind it,
    which no edit changes, is cut where it does not fit.
    """
    text, comment = _parted(text)
    rows: list[str] = []
    hang = " " * min(len(text) - len(text.lstrip()) + 4, room // 2)
    while width_of(text.rstrip()) > room and len(rows) < _MOST_ROWS_OF_A_LINE - 1:
        head = take(text, room)
        at = _break(text, len(head))
        rows.append(head[:at].rstrip())
        text = hang + text[at:].lstrip()
    if width_of(text.rstrip()) > room:
        return [*rows, take(text, room - 3) + "..."]
    last = cut(text + comment, room)
    # Of a comment of which no word is left, nothing is shown.
    return [*rows, last if last == text + comment or len(last) > len(text) + 5 else text.rstrip()]


def _parted(text: str) -> tuple[str, str]:
    """A line of code, and the comment behind it."""
    for at, char, _ in _outside_strings(text):
        if char == "#":
            return text[:at], text[at:]
    return text, ""


def _break(text: str, end: int) -> int:
    """Where before `end` to break code that goes on: behind the outermost comma or opening bracket, the last of
    them, and not inside a string.
    """
    least = max(len(text) - len(text.lstrip()) + 8, end // 3)
    best, shallowest, space = 0, end, 0
    for at, char, depth in _outside_strings(text[:end]):
        if char in ",([{" and at >= least and depth <= shallowest:
            best, shallowest = at + 1, depth
        elif char == " " and at > least:
            space = at
    within = text.rfind(" ", 0, end)
    return best or space or (within if within > least else end)


def _outside_strings(text: str) -> Iterator[tuple[int, str, int]]:
    """The characters of a line that stand in no string, each with its place and how many brackets are open behind it."""
    quote, depth, at = "", 0, 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif text.startswith(quote, at):
                at += len(quote) - 1
                quote = ""
        elif char in "\"'":
            quote = char * 3 if text.startswith(char * 3, at) else char
            at += len(quote) - 1
        else:
            depth += (char in "([{") - (char in ")]}")
            yield at, char, depth
        at += 1


def _parsed(diff: str) -> Iterator[Change]:
    file, old, new = "", 0, 0
    lines = diff.split("\n")
    for at, line in enumerate(lines):
        if line.startswith("--- ") and lines[at + 1 : at + 2] and lines[at + 1].startswith("+++ "):
            continue
        if line.startswith("+++ ") and at and lines[at - 1].startswith("--- "):
            file = line[4:].rstrip("\t\r").strip('"').removeprefix("b/")
        elif found := _HUNK.match(line):
            old, new = int(found[1]), int(found[2])
        elif line.startswith("-"):
            yield Change(file, old, "-", line[1:])
            old += 1
        elif line.startswith("+"):
            yield Change(file, new, "+", line[1:])
            new += 1
        elif line.startswith(" "):
            yield Change(file, new, " ", line[1:])
            old, new = old + 1, new + 1


def _diff(edits: tuple[Edit, ...], sources: Mapping[str, str]) -> str:
    """The diff of edits that came without one, where their files' text is at hand."""
    parts: list[str] = []
    for file in dict.fromkeys(edit.file for edit in edits):
        text = sources.get(file)
        if text is None:
            continue
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        changed = text
        for edit in sorted(
            (e for e in edits if e.file == file), key=lambda e: (e.line, e.column), reverse=True
        ):
            if edit.line > len(starts) or edit.end_line > len(starts):
                return ""
            begin, end = starts[edit.line - 1] + edit.column, starts[edit.end_line - 1] + edit.end_column
            changed = changed[:begin] + edit.text + changed[end:]
        name = relative(file)
        parts += difflib.unified_diff(text.splitlines(), changed.splitlines(), name, name, lineterm="")
    return "\n".join(parts)
