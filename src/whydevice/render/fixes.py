"""A fix as lines: its title, why it is not safe, and the lines that it takes away and adds, with their
numbers.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from ..types import Edit, Fix
from .paths import relative
from .source import Shown
from .tree import Line, Span, Style, clean, cut, cut_left, take, width_of, wrap

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_STYLES: dict[str, Style] = {"-": "removed", "+": "added", " ": "dim"}
_LABELS: dict[str, Style] = {"safe": "good", "unsafe": "warn", "manual": "warn"}
_MOST_ROWS_OF_A_LINE = 4
_JOINING = ("or ", "and ", "if ", "else ", "for ")


class Change(NamedTuple):
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
    """The code in rows of at most `room` columns, each a valid continuation of the one before.

    Broken behind a comma or an opening bracket inside brackets, else at a space: outside of brackets with a
    backslash. A comment behind the code, which no edit changes, is cut where it does not fit.
    """
    text, comment = _parted(text)
    rows: list[str] = []
    hang = " " * min(_indent(text) + 4, room // 2)
    depth = 0
    while width_of(text.rstrip()) > room and len(rows) < _MOST_ROWS_OF_A_LINE - 1:
        at, there = _break(take(text, room), depth)
        if not at:
            at, there = _space(take(text, room - 2), depth)
        if not at:
            break
        rows.append(text[:at].rstrip() + ("" if there else " \\"))
        text, depth = hang + text[at:].lstrip(), there
    if width_of(text.rstrip()) > room:
        return [*rows, take(text, room - 3) + "..."]
    last = cut(text + comment, room)
    # Of a comment of which no word is left, nothing is shown.
    return [*rows, last if last == text + comment or len(last) > len(text) + 5 else text.rstrip()]


def _parted(text: str) -> tuple[str, str]:
    """A line of code, and the comment behind it."""
    for behind, char, _ in _open(text, 0):
        if char == "#":
            return text[: behind - 1], text[behind - 1 :]
    return text, ""


def _break(head: str, depth: int) -> tuple[int, int]:
    """Where to break code that goes on, and how many brackets are open there: inside the outermost brackets, before
    a word like `for`, else behind a comma or an opening bracket, the last of them. (0, 0) where there is none.
    """
    least = max(_indent(head) + 8, len(head) // 3)
    found = [
        (-there, char == " ", at)
        for at, char, there in _open(head, depth)
        if there
        and at >= least
        and ((char in ",([{" and head[at : at + 1] not in (")", "]", "}")) or _joins(head, at, char))
    ]
    there, _, at = max(found, default=(0, False, 0))
    return at, -there


def _joins(head: str, at: int, char: str) -> bool:
    return char == " " and head[at:].startswith(_JOINING)


def _space(head: str, depth: int) -> tuple[int, int]:
    """The last space outside of strings, rather one before a word like `or`, and how many brackets are open there."""
    least = _indent(head) + 8
    found = [(at, there) for at, char, there in _open(head, depth) if char == " " and at > least]
    words = [one for one in found if _joins(head, one[0], " ")]
    return (words or found or [(0, 0)])[-1]


def _open(text: str, depth: int) -> Iterator[tuple[int, str, int]]:
    """(column behind it, character, brackets open there) of the characters outside of strings."""
    quote = ""
    at = 0
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
            depth = max(depth + (char in "([{") - (char in ")]}"), 0)
            yield at + 1, char, depth
        at += 1


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


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
