"""An explanation as text: what a log file, a chat window and `str()` get."""

from __future__ import annotations

from ..types import Explanation
from . import layout
from .tree import line_text


def text(explanation: Explanation, width: int = 80, *, script: str | None = None) -> str:
    """The report without a newline at its end: at most 40 lines, none wider than `width` columns (40 at
    least).

    `script` is what the last line's command names; by default, the script that runs.
    """
    return "\n".join(line_text(line) for line in layout.lines(layout.blocks(explanation, width, script)))
