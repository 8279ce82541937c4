"""Edits into new texts: sorted, merged, refused where they overlap, and only when the result parses."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ..source import EditError, Source
from ..types import Edit

_IGNORE = re.compile(r"#\s*whydevice:\s*ignore\b")

# Tokens between two logical lines.
_BETWEEN = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


class Change(NamedTuple):
    """An edit in offsets."""

    start: int
    end: int
    text: str


def plan(edits: Iterable[Edit], sources: Mapping[str, Source] | None = None) -> dict[str, str]:
    """The new text of each file that the edits touch (without its byte order mark).

    `sources` holds the texts that the positions belong to; a file that is not in it is read. Raises EditError
    when two edits overlap, when one lies on a line marked `# whydevice: ignore`, or when a result does not
    parse.
    """
    return {path: source.text for path, source in edited(edits, sources).items()}


def edited(edits: Iterable[Edit], sources: Mapping[str, Source] | None = None) -> dict[str, Source]:
    """The new texts as sources, parsed once however often the same edits are asked for. Raises as `plan` does."""
    planned: dict[str, Source] = {}
    for source, changes in by_file(edits, sources):
        if lines := _marked(source, changes):
            raise EditError(f"line {min(lines)} of {source.path} is marked `# whydevice: ignore`")
        known = _results.setdefault(source, {})
        if tuple(changes) not in known:
            known[tuple(changes)] = _checked(source, changes)
        planned[source.path] = known[tuple(changes)]
    return planned


# A fix is judged, then shown as a diff, and may be tried by a cause before: all with the same edits.
_results: WeakKeyDictionary[Source, dict[tuple[Change, ...], Source]] = WeakKeyDictionary()


def ignored(edits: Iterable[Edit], sources: Mapping[str, Source] | None = None) -> list[Edit]:
    """The edits that lie on lines marked `# whydevice: ignore`."""
    found = []
    for edit in dict.fromkeys(edits):
        for source, changes in by_file([edit], sources):
            if _marked(source, changes):
                found.append(edit)
    return found


def by_file(
    edits: Iterable[Edit], sources: Mapping[str, Source] | None = None
) -> list[tuple[Source, list[Change]]]:
    """The edits of each file as changes that do not overlap, in the order of the text. Raises EditError for
    overlaps.
    """
    grouped: dict[str, list[Edit]] = {}
    for edit in dict.fromkeys(edits):
        grouped.setdefault(edit.file, []).append(edit)
    result = []
    for path, group in grouped.items():
        source = (sources or {}).get(path) or Source.read(path)
        changes = [
            Change(source.offset(e.line, e.column), source.offset(e.end_line, e.end_column), e.text)
            for e in group
        ]
        result.append(
            (source, _ordered(source, [c for c in changes if source.text[c.start : c.end] != c.text]))
        )
    return result


def _ordered(source: Source, changes: list[Change]) -> list[Change]:
    if any(change.end < change.start for change in changes):
        raise EditError("an edit ends before it starts")
    changes = sorted(dict.fromkeys(changes), key=lambda change: (change.start, change.end, _rank(change)))
    for one, other in pairwise(changes):
        if one.end > other.start or (one[:2] == other[:2] and not _compatible(one, other)):
            raise EditError(f"two edits of line {source.line_at(other.start)} of {source.path} overlap")
    return changes


def _rank(change: Change) -> int:
    """The order of insertions at one place.

    Lines put in before, a method of the value that ends there, what closes around it, its next sibling, what
    opens around the value that starts there, lines put in behind.
    """
    if change.text.endswith(("\n", "\r")):
        return -1
    return {".": 0, ")": 1, ",": 2, "\n": 4, "\r": 4}.get(change.text[:1], 3)


def _compatible(one: Change, other: Change) -> bool:
    """Whether two insertions may share a place: both whole lines, or of kinds with an order of their own."""
    if one.start != one.end:
        return False
    return _rank(one) < _rank(other) or _rank(one) in (-1, 4)


def apply(source: Source, changes: list[Change]) -> str:
    """The text with the changes made; they are in order and do not overlap."""
    parts: list[str] = []
    done = 0
    for change in changes:
        parts += (source.text[done : change.start], change.text)
        done = change.end
    return "".join([*parts, source.text[done:]])


def _checked(source: Source, changes: list[Change]) -> Source:
    """The source with the changes made, once it parses; of a long file, the top-level statements that hold a
    change.
    """
    result = Source.from_text(source.path, apply(source, changes))
    grown = 0
    try:
        for change in changes:
            result.tree_at(min(result.line_count, result.line_at(change.start + grown)))
            grown += len(change.text) - (change.end - change.start)
            result.tree_at(result.line_at(change.end + grown))
    except EditError:
        raise EditError(f"{source.path} would not parse with the edit") from None
    return result


def _marked(source: Source, changes: list[Change]) -> set[int]:
    """The lines that the changes touch and that are marked; a mark holds for the whole logical line that it
    is in.
    """
    if not _IGNORE.search(source.text):
        return set()
    touched: set[int] = set()
    for change in changes:
        if change.start == change.end and _whole_lines(source, change):
            continue
        last = source.line_at(change.end)
        # A change that ends at a line's start takes the line before it whole, and nothing of this one.
        if change.end > change.start and change.end == source.line_start(last):
            last -= 1
        touched.update(range(source.line_at(change.start), last + 1))
    return touched & _ignored_lines(source)


def _whole_lines(source: Source, change: Change) -> bool:
    """Whether an insertion only adds lines between two others."""
    if change.text.endswith(("\n", "\r")):
        return source.position(change.start)[1] == 0
    return change.text.startswith(("\n", "\r")) and change.start == len(source.text)


def _ignored_lines(source: Source) -> set[int]:
    text = source.text.replace("\r\n", "\n").replace("\r", "\n")
    found: set[int] = set()
    first, marked = 0, False
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and _IGNORE.match(token.string):
                found.add(token.start[0])
                marked = marked or first > 0
            elif token.type == tokenize.NEWLINE:
                if marked:
                    found.update(range(first, token.start[0] + 1))
                first, marked = 0, False
            elif not first and token.type not in _BETWEEN:
                first = token.start[0]
    except (tokenize.TokenError, SyntaxError):
        raise EditError(f"{source.path} cannot be split into tokens") from None
    return found
