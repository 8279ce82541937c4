"""`--explain`: a cause's page, and the list of causes, for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from inspect import cleandoc

from ..types import Cause
from .tree import clean, width_of, wrap

_WIDTH = 80
_ITEM = re.compile(r"([-*]|\d{1,2}[.)]) +")
_VERBATIM = re.compile(r" {2,}|\t|>>> |\|")


def page(cause: Cause) -> str:
    """The page: name and title, then the docstring with its paragraphs reflowed and its code as it stands."""
    title = f"{clean(cause.name)}: {clean(cause.title)}"
    body = cleandoc(cause.page)
    # A docstring often begins with its own title.
    first, _, rest = body.partition("\n\n")
    if " ".join(first.split()).rstrip(".").lower() in (
        cause.title.rstrip(".").lower(),
        title.rstrip(".").lower(),
    ):
        body = rest
    return "\n".join([*wrap(title, _WIDTH), "", *_reflowed(body)]).rstrip()


def listing(causes: Sequence[Cause]) -> str:
    """One line a cause: its name and title."""
    if not causes:
        return "whydevice knows no cause yet"
    column = min(max(width_of(clean(cause.name)) for cause in causes), 34)
    lines = []
    for cause in causes:
        name, title = clean(cause.name), wrap(cause.title, _WIDTH - column - 4)
        if width_of(name) > column:
            lines.append(f"  {name}")
            name = ""
        lines.append(f"  {name:<{column}}  {title[0]}")
        lines += [" " * (column + 4) + piece for piece in title[1:]]
    return "\n".join([*lines, "", "python -m whydevice --explain NAME prints the page of one."])


def _reflowed(text: str) -> Iterator[str]:
    """Paragraphs and list items filled to the width; indented, fenced and tabular lines left alone."""
    paragraph: list[str] = []
    fenced = False
    for line in [*text.split("\n"), ""]:
        fence = line.lstrip().startswith("```")
        alone = (
            fenced or fence or not line.strip() or (_VERBATIM.match(line) and not _continues(paragraph, line))
        )
        if (alone or _ITEM.match(line)) and paragraph:
            yield from _filled(" ".join(paragraph))
            paragraph = []
        if fence:
            fenced = not fenced
        elif alone:
            yield _kept(line, "    " if fenced else "")
        else:
            paragraph.append(line.strip())


def _continues(paragraph: list[str], line: str) -> bool:
    """True for the indented second line of a list item."""
    return bool(paragraph) and bool(_ITEM.match(paragraph[0])) and not line.startswith("    ")


def _filled(text: str) -> list[str]:
    item = _ITEM.match(text)
    if not item:
        return wrap(text, _WIDTH)
    hang = len(item[0])
    first, *more = wrap(text[hang:], _WIDTH - hang)
    return [item[0] + first, *(" " * hang + piece for piece in more)]


def _kept(line: str, indent: str) -> str:
    spaces = line[: len(line) - len(line.lstrip())].expandtabs(4)
    return (indent + spaces + clean(line.strip())).rstrip()
