"""The neutral tree between an explanation and its renderers: blocks of lines of styled spans.

Every span's text is clean: no control, bidi or other invisible character is left in it, and no tab.
"""

from __future__ import annotations

import unicodedata
from typing import Literal, NamedTuple

Style = Literal[
    "", "title", "tag", "place", "gutter", "culprit", "other", "added", "removed", "good", "warn", "dim"
]
Kind = Literal["header", "places", "operands", "fix", "notes", "footer"]


class Span(NamedTuple):
    """A piece of text in one style."""

    text: str
    style: Style = ""


Line = tuple[Span, ...]


class Block(NamedTuple):
    """Lines that belong together; an empty line stands between blocks. `rows` is a table's content, uncut."""

    kind: Kind
    lines: tuple[Line, ...]
    rows: tuple[tuple[str, ...], ...] = ()
    culprits: frozenset[int] = frozenset()


def line_text(line: Line) -> str:
    """The line without its styles."""
    return "".join(span.text for span in line)


def trimmed(line: Line) -> Line:
    """The line without spaces at its end."""
    while line and not line[-1].text.rstrip(" "):
        line = line[:-1]
    return (*line[:-1], line[-1]._replace(text=line[-1].text.rstrip(" "))) if line else line


def visible(char: str) -> str:
    """The character, or an escape when it would not show, or would change how its neighbours show."""
    if char.isprintable() or char == " ":
        return char
    # Spaces of other widths are fine as spaces; everything else that is not printable is spelt out.
    if unicodedata.category(char) == "Zs":
        return " "
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean(text: str) -> str:
    """The text with whatever does not print spelt out; tabs and newlines become spaces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if char in "\t\n\r" else visible(char) for char in text)


def width_of(text: str) -> int:
    """How many terminal columns the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits with `...` behind it."""
    if width_of(text) <= width:
        return text
    return take(text, max(width - 3, 0)) + "..."[: max(width, 0)]


def cut_left(text: str, width: int) -> str:
    """The text, or its end with `...` before it: of a path, the end says more."""
    if width_of(text) <= width:
        return text
    return "..."[: max(width, 0)] + take(text[::-1], max(width - 3, 0))[::-1]


def take(text: str, width: int) -> str:
    """The longest beginning of the text that fits."""
    used = 0
    for at, char in enumerate(text):
        used += _cells(char)
        if used > width:
            return text[:at]
    return text


def wrap(text: str, width: int, first: int | None = None) -> list[str]:
    """The words of the text in lines of at most `width` columns, the first of at most `first`.

    Backquoted expressions stay whole where a line can hold them, else they are broken at spaces; a word longer than
    a line is broken anywhere.
    """
    lines: list[str] = []
    current, room = "", width if first is None else first
    for word in _words(text):
        joined = f"{current} {word}" if current else word
        if width_of(joined) <= room:
            current = joined
            continue
        if current or room < width:
            lines.append(current)
            room = width
        while width_of(word) > room:
            piece = take(word, room) or word[:1]
            if word[len(piece) :][:1] != " " and " " in piece.strip():
                piece = piece[: piece.rindex(" ") + 1]
            lines.append(piece.rstrip())
            word = word[len(piece) :].lstrip()
        current = word
    if current or not lines:
        lines.append(current)
    return lines


def _words(text: str) -> list[str]:
    """The words; those inside one pair of backquotes count as one."""
    words: list[str] = []
    inside = False
    for word in clean(text).split():
        if inside:
            words[-1] += f" {word}"
        else:
            words.append(word)
        inside = inside != (word.count("`") % 2 == 1)
    # A lone backquote would make one word of the rest.
    return words if not inside else clean(text).split()


def _cells(char: str) -> int:
    if char < "\u0300":
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
