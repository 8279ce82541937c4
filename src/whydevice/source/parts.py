"""Where the parts of a long file lie: the function around a line, and the module's own statements that matter.

A line in a string can look like the start of a statement, so that several ranges are offered and the first that
parses is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .parsed import Parsed

# A line that can start a top-level statement.
_TOP_LEVEL = re.compile(r"(?!(?:else|elif|except|finally)\b)[A-Za-z_@]")
_NEXT = re.compile(r"\n" + _TOP_LEVEL.pattern)
_STRIDE = 100  # lines that are searched at once
_CLASS = re.compile(r"class[ \t]+(\w+)")
_INDENTED = re.compile(r"^([ \t]+)[^\s#]", re.MULTILINE)
_DEFINITION = re.compile(r"(?:async[ \t]+def|def|class)\b")
_TRIES = 3
_MOST_DECORATOR = 30  # lines of a decorator
_LONG_CLASS = 150
"""Lines above which one method of a class is parsed by itself."""

Unit = tuple[int, int, int | None]
"""First line, the line after the last, and the line of the class header when these are methods."""


def units(source: Parsed, line: int) -> Iterator[Unit]:
    """Ranges of lines around a line that can be a whole function or top-level statement, the smallest first."""
    for first, last in _windows(source, line):
        header = _header(source, first)
        if header is not None and line > header and last - first > _LONG_CLASS:
            for one, other in islice(_methods(source, line, header, last), _TRIES * _TRIES):
                yield one, other, header
        yield first, last, None


def _windows(source: Parsed, line: int) -> Iterator[tuple[int, int]]:
    line = _past_decorators(source, line, "")
    # The first range nearly always parses: lines are looked at as they are needed.
    further = islice(chain(_starts_after(source, line), (source.line_count + 1,)), _TRIES)
    lasts: list[int] = []
    for first in islice(chain(_starts_from(source, line), (1,)), _TRIES):
        start = _with_decorators(source, first, "")
        for last in lasts:
            yield start, last
        for last in further:
            lasts.append(last)
            yield start, last


def _starts_from(source: Parsed, line: int) -> Iterator[int]:
    """The lines that start a statement, from a line backwards."""
    if _starts_statement(source, line):
        yield line
    while line > 1:
        first = max(1, line - _STRIDE)
        found = list(_NEXT.finditer(source.text, source.line_start(first), source.line_start(line)))
        lines = [source.line_at(match.end() - 1) for match in reversed(found)]
        yield from (number for number in lines if _starts_statement(source, number))
        if first == 1 and _starts_statement(source, 1):
            yield 1
        line = first + 1 if first > 1 else 1


def _starts_after(source: Parsed, line: int) -> Iterator[int]:
    """The lines that start a statement after a line, in order."""
    for match in _NEXT.finditer(source.text, source.line_start(line)):
        number = source.line_at(match.end() - 1)
        if _starts_statement(source, number):
            yield number


def _starts_statement(source: Parsed, line: int) -> bool:
    if not _TOP_LEVEL.match(source.text, source.line_start(line)):
        return False
    return line == 1 or not source.text.startswith("@", source.line_start(line - 1))


def _past_decorators(source: Parsed, line: int, indent: str) -> int:
    """The line of the definition under a decorator; any other line as it is."""
    here = line
    while here < source.line_count and source.line(here).startswith(f"{indent}@"):
        here += 1
        while here < source.line_count and not _at(source, here, indent, "@", _DEFINITION):
            here += 1
    return here if _at(source, here, indent, "@", _DEFINITION) else line


def _with_decorators(source: Parsed, line: int, indent: str) -> int:
    while (above := _decorator_above(source, line, indent)) is not None:
        line = above
    return line


def _decorator_above(source: Parsed, line: int, indent: str) -> int | None:
    """The line of the decorator that ends right above a line: what is indented further, or closes, belongs to it."""
    furthest = source.line_start(max(line - _MOST_DECORATOR, 1))
    if source.text.find(f"{indent}@", furthest, source.line_start(line)) < 0:
        return None  # as for most
    for number in range(line - 1, max(line - 1 - _MOST_DECORATOR, 0), -1):
        text = source.line(number)
        if text.startswith(f"{indent}@"):
            return number
        bare = text.lstrip(" \t")
        inside = len(text) - len(bare) > len(indent) or bare.startswith((")", "]", "}"))
        if bare and not inside and not bare.startswith("#"):
            return None
    return None


def _at(source: Parsed, line: int, indent: str, sign: str, word: re.Pattern[str]) -> bool:
    """Whether a line starts, at this indentation, with a sign or a word."""
    text = source.line(line)
    return text.startswith(indent) and (
        text.startswith(sign, len(indent)) or word.match(text, len(indent)) is not None
    )


def _header(source: Parsed, first: int) -> int | None:
    """The line of a class's header when a statement that starts at a line is a class."""
    line = first
    while line < source.line_count and source.text.startswith("@", source.line_start(line)):
        line += 1
    return line if _CLASS.match(source.text, source.line_start(line)) else None


def class_name(header: str) -> str:
    """The name in the line of a class's header."""
    found = _CLASS.match(header)
    return found.group(1) if found else "_"


def class_lines(source: Parsed, name: str) -> list[int]:
    """The lines that look like the header of a class of this name."""
    found = re.finditer(rf"^[ \t]*class[ \t]+{re.escape(name)}\b", source.text, re.MULTILINE)
    return [source.line_at(match.end()) for match in found]


def _methods(source: Parsed, line: int, header: int, last: int) -> Iterator[tuple[int, int]]:
    """Ranges of lines around a line of a class that can be whole methods."""
    start = source.line_start(header + 1) if header < source.line_count else len(source.text)
    member = _INDENTED.search(source.text, start)
    if member is None or source.line_at(member.start()) > line:
        return
    indent = member.group(1)
    line = _past_decorators(source, line, indent)
    before = (n for n in range(line, header, -1) if _at(source, n, indent, "@", _DEFINITION))
    after = (n for n in range(line + 1, last) if _dedents(source.line(n), indent))
    lasts = [*islice(after, _TRIES), last][:_TRIES]
    for first in islice(before, _TRIES):
        for end in lasts:
            yield _with_decorators(source, first, indent), end


def _dedents(text: str, indent: str) -> bool:
    """Whether a line starts a statement that is not inside of a method at this indentation."""
    bare = text.lstrip(" \t")
    return (len(text) - len(bare) <= len(indent) and bare[:1].isidentifier()) or text.startswith(f"{indent}@")
