"""How a statement lies in its lines: alone, joined to others by semicolons, or behind the colon of its
header.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from ..patterns import pattern
from ..source import EditError, Positioned, Source
from .tokens import line_end, skip_blank

# What may stand between a `;` or a header's colon and the statement that follows on the same logical line.
_BLANK = pattern(r"(?:[ \t\f]|\\(?:\r\n|\r|\n))*\Z")

Suite = list[ast.stmt]


class Layout(NamedTuple):
    """The offsets of a statement and of its line.

    `opened_by` says what precedes it on its logical line; `follower` is where the next statement on that line
    starts; `after` is just behind the newline that ends the line.
    """

    start: int
    end: int
    line_start: int
    opened_by: Literal["line", "semicolon", "colon"]
    follower: int | None
    after: int


def layout(source: Source, statement: ast.stmt) -> Layout:
    """Where a statement lies. Raises EditError for an `elif`, which is a statement in the tree only."""
    start, end = source.start(statement), source.end(statement)
    if isinstance(statement, ast.If) and re.compile(r"elif\b").match(source.text, start):
        raise EditError(f"line {statement.lineno} is an `elif`, before and after which nothing can stand")
    low = _lower_bound(source, statement)
    gap = source.text[low:start]
    blank = _BLANK.search(gap)
    head = low + (blank.start() if blank else len(gap))
    before = re.split(r"[\r\n]", source.text[low:head])[-1]
    opened_by: Literal["line", "semicolon", "colon"] = "line"
    if before.endswith((";", ":")) and "#" not in before:
        opened_by = "semicolon" if before.endswith(";") else "colon"
    line_start = source.line_start(source.line_at(start if head == low else head))
    if opened_by == "line" and source.text[line_start:start].strip(" \t\f\\\r\n"):
        # A comment that ends in a backslash continues nothing.
        line_start = source.line_start(source.line_at(start))
    rest = skip_blank(source, end, lines=False)
    follower = None
    if source.text.startswith(";", rest):
        rest = skip_blank(source, rest + 1, lines=False)
        if rest < len(source.text) and source.text[rest] not in "\r\n#":
            follower = rest
    after = source.line_span(source.line_at(rest))[1]
    return Layout(start, end, line_start, opened_by, follower, after)


def suite_of(source: Source, statement: ast.stmt) -> tuple[Suite, int]:
    """The list of statements that a statement belongs to, and its place in it."""
    own = source.own(statement)
    parent = source.parent(own)
    for suite in suites(parent) if parent is not None else ():
        for index, other in enumerate(suite):
            if other is own:
                return suite, index
    raise EditError(f"line {statement.lineno} belongs to no block")


def suites(node: ast.AST) -> Iterator[Suite]:
    """The blocks of statements of a node: its body, its `else`, its `finally`."""
    for _, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value


def on_header_line(source: Source, suite: Suite) -> bool:
    """Whether a block stands behind its header's colon, as in `for x in y: f(x)`."""
    return layout_or_none(source, suite[0]) == "colon"


def layout_or_none(source: Source, statement: ast.stmt) -> str | None:
    """What precedes a statement on its line; None for an `elif`."""
    try:
        return layout(source, statement).opened_by
    except EditError:
        return None


def indentation(source: Source, statement: ast.stmt) -> str:
    """The indentation of a statement's logical line; for a block on its header's line, one level more."""
    suite, index = suite_of(source, statement)
    place = layout(source, suite[index])
    while place.opened_by == "semicolon" and index:
        index -= 1
        place = layout(source, suite[index])
    own = source.indentation(source.line_at(place.line_start))
    return own + source.indent_unit if place.opened_by == "colon" else own


def _lower_bound(source: Source, statement: ast.stmt) -> int:
    """An offset before which no token of the statement's line prefix can lie: the end of what comes before
    it.
    """
    suite, index = suite_of(source, statement)
    if index:
        return source.end(suite[index - 1])
    parent = source.parent(statement)
    start = source.start(statement)
    low = source.start(parent) if isinstance(parent, Positioned) else 0
    return max([low, *(end for end in _ends(source, parent) if end <= start)])


def _ends(source: Source, node: ast.AST | None) -> Iterator[int]:
    for child in ast.iter_child_nodes(node) if node is not None else ():
        if getattr(child, "end_lineno", None) is not None:
            yield source.end(child)  # type: ignore[arg-type]
        else:
            yield from _ends(source, child)


def header_end(source: Source, node: ast.AST, suite: Suite) -> int:
    """The offset just behind the newline of the line on which a block's header ends with its colon."""
    offset = _lower_bound(source, suite[0])
    start = source.start(suite[0])
    while offset < start:
        offset = skip_blank(source, offset, lines=True)
        if source.text[offset] == ":":
            return source.line_span(source.line_at(line_end(source, offset)))[1]
        offset += 1
    raise EditError("the header's colon cannot be found")
