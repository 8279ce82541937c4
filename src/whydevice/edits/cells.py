"""The new text of a notebook's cell."""

from __future__ import annotations

from collections.abc import Iterable

from ..source import EditError, Source
from ..types import Edit
from .apply import apply, by_file


def cell_text(edits: Iterable[Edit], path: str, ran: str, written: str | None = None) -> str | None:
    """A cell with the edits of it made.

    `ran` is the text that ran, which the positions belong to; `written` is what the user wrote, where that
    differs (magics). None where the edits do not fit what was written.
    """
    own = tuple(edit for edit in edits if edit.file == path)
    source = Source.from_text(path, ran)
    if written is not None and written.strip("\n") != ran.strip("\n"):
        user = Source.from_text(path, written)
        touched = {line for edit in own for line in range(edit.line, edit.end_line + 1)}
        if any(user.line(line) != source.line(line) for line in touched):
            return None
        source = user
    try:
        [(_, changes)] = by_file(own, {path: source})
    except (EditError, ValueError):
        return None
    return apply(source, changes)
