"""An explanation on a terminal, with colour where the stream and the environment want it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..types import Explanation
from . import layout
from .tree import Line, Style, line_text

if TYPE_CHECKING:
    from rich.text import Text

# Colours that a light and a dark terminal both show well: the sixteen of its own palette.
_ANSI: dict[Style, str] = {
    "title": "1",
    "tag": "35",
    "place": "36",
    "gutter": "34",
    "culprit": "1;31",
    "other": "34",
    "added": "32",
    "removed": "31",
    "good": "1;32",
    "warn": "1;33",
    "dim": "2",
}
_RICH: dict[Style, str] = {
    "title": "bold",
    "tag": "magenta",
    "place": "cyan",
    "gutter": "blue",
    "culprit": "bold red",
    "other": "blue",
    "added": "green",
    "removed": "red",
    "good": "bold green",
    "warn": "bold yellow",
    "dim": "dim",
}
_WIDEST = 100
_WIDTH = 80


def renderables(explanation: Explanation, width: int = _WIDTH) -> Iterator[Text]:
    """rich's Text, one a line. Built span by span, so that no markup in a source or a name is interpreted."""
    from rich.text import Text

    for line in layout.lines(layout.blocks(explanation, min(width, _WIDEST))):
        text = Text(no_wrap=True, overflow="ignore", end="\n")
        for span in line:
            text.append(span.text, _RICH.get(span.style))
        yield text


def write(explanation: Explanation, stream: Any, color: str = "auto") -> None:
    """Write the report on a stream, after an empty line. `color` is `auto`, `always` or `never`."""
    colored = wants_color(stream, color)
    made = layout.lines(layout.blocks(explanation, width_for(stream)))
    rows = [_painted(line) if colored else line_text(line) for line in made]
    stream.write(_encodable("\n" + "\n".join(rows) + "\n", stream))
    flush = getattr(stream, "flush", None)
    if flush is not None:
        flush()


def wants_color(stream: Any, color: str = "auto") -> bool:
    """Whether to colour: as asked; else NO_COLOR, FORCE_COLOR and TERM=dumb in this order; else on a
    terminal.
    """
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return os.environ.get("TERM") != "dumb" and _is_terminal(stream) and _understands_escapes()


def width_for(stream: Any) -> int:
    """The terminal's columns, at most 100; 80 for anything else, so that a log looks the same everywhere."""
    if not _is_terminal(stream):
        return _WIDTH
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):
        columns = 0
    return min(columns, _WIDEST) if columns else _WIDTH


def _painted(line: Line) -> str:
    parts = []
    for span in line:
        code = _ANSI.get(span.style) if span.text.strip() else None
        parts.append(f"\x1b[{code}m{span.text}\x1b[0m" if code else span.text)
    return "".join(parts)


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, OSError, ValueError):
        return False


def _understands_escapes() -> bool:
    """False on a Windows console that would print the escapes."""
    if sys.platform != "win32":
        return True
    return any(
        os.environ.get(name) for name in ("WT_SESSION", "ANSICON", "ConEmuANSI", "TERM_PROGRAM", "TERM")
    )


def _encodable(text: str, stream: Any) -> str:
    """The text with what the stream's encoding lacks spelt out: a report must not fail over a name."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except (LookupError, TypeError, UnicodeError):
        return text.encode("ascii", "backslashreplace").decode("ascii")
