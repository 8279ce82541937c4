"""An explanation as blocks of lines, the one layout that plain text, terminal and HTML share.

At most 40 lines: what is long gives way in steps, the table and the inner places first, the headline, the
failing place and the fix last.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from ..types import Explanation
from . import fixes, places, table
from .paths import relative
from .tree import Block, Line, Span, clean, trimmed, width_of, wrap

MOST_LINES = 40
NARROWEST = 40


class _Room(NamedTuple):
    """How much of each part is shown; each step shows less."""

    places: int = 6
    rows: int = 8
    changes: int = 12
    second: int = 6
    notes: int = 8


_STEPS = (
    _Room(),
    _Room(changes=8),
    _Room(rows=4, changes=8),
    _Room(places=4, rows=3, changes=8, notes=6),
    _Room(places=3, rows=2, changes=6, second=2, notes=4),
    _Room(places=2, rows=0, changes=6, second=0, notes=3),
    _Room(places=1, rows=0, changes=4, second=0, notes=2),
)


def blocks(explanation: Explanation, width: int = 80, script: str | None = None) -> list[Block]:
    """The blocks, none of them empty. `script` is what the command at the end names; by default, what runs
    now.
    """
    width = max(width, NARROWEST)
    made: list[Block] = []
    for room in _STEPS:
        made = [
            block._replace(lines=tuple(map(trimmed, block.lines)))
            for block in _blocks(explanation, width, script, room)
            if block.lines
        ]
        if _height(made) <= MOST_LINES:
            return made
    return _cut(made, width)


def lines(blocks: list[Block]) -> list[Line]:
    """All lines, with an empty one between blocks."""
    found: list[Line] = []
    for block in blocks:
        if found:
            found.append(())
        found += block.lines
    return found


def _height(made: list[Block]) -> int:
    return sum(len(block.lines) + 1 for block in made) - 1


def _cut(made: list[Block], width: int) -> list[Block]:
    """The last resort: the longest blocks lose lines from their end."""
    while (over := _height(made) - MOST_LINES) > 0:
        at = max(range(len(made)), key=lambda index: len(made[index].lines))
        block = made[at]
        keep = max(len(block.lines) - over - 1, 2)
        if keep + 1 >= len(block.lines):
            return made
        note: Line = (Span("    "), Span(f"... {len(block.lines) - keep} lines left out", "dim"))
        made[at] = Block(block.kind, (*block.lines[:keep], note), block.rows, block.culprits)
    return made


def _blocks(explanation: Explanation, width: int, script: str | None, room: _Room) -> list[Block]:
    found = places.snippets(explanation)
    changed = [fixes.changes(fix, explanation.sources) for fix in explanation.fixes[:2]]
    digits = places.number_width(found, [change.number for rows in changed for change in rows])
    said = frozenset(places.described(found))
    return [
        Block("header", tuple(_header(explanation, width))),
        Block("places", tuple(_places(found, digits, width, room.places))),
        table.operands(explanation, width, room.rows, said) if room.rows else Block("operands", ()),
        *_fixes(explanation, changed, digits, width, room),
        Block("notes", tuple(_notes(explanation, width, room.notes))),
        Block("footer", tuple(_footer(explanation, width, script))),
    ]


def _header(explanation: Explanation, width: int) -> list[Line]:
    """`whydevice: HEADLINE   [cause, likely]`."""
    inside = [clean(explanation.cause.name)] if explanation.cause else []
    if explanation.certainty != "certain":
        inside.append(explanation.certainty)
    tag = f"[{', '.join(inside)}]" if inside else ""
    words = wrap(explanation.headline, width - 4, width - len("whydevice: "))
    found: list[Line] = [(Span("whydevice: ", "title"), Span(words[0], "title"))]
    found += [(Span("    "), Span(piece, "title")) for piece in words[1:]]
    if tag and width_of("".join(span.text for span in found[-1])) + 3 + width_of(tag) <= width:
        found[-1] = (*found[-1], Span("   "), Span(tag, "tag"))
    elif tag:
        found += [(Span("    "), Span(piece, "tag")) for piece in wrap(tag, width - 4)]
    return found


def _places(found: list[places.Snippet], digits: int, width: int, most: int) -> list[Line]:
    """The snippets; of too many, the first and the last ones."""
    skipped = max(len(found) - most, 0)
    head = min((most + 1) // 2, len(found)) if most > 1 else 0
    made: list[Line] = []
    for at, snippet in enumerate(found):
        if head <= at < head + skipped:
            if at == head:
                made.append((Span(f"  ... {skipped} place{'s' * (skipped != 1)} between", "dim"),))
            continue
        made += places.lines(snippet, digits, width)
    return made


def _fixes(
    explanation: Explanation, changed: list[list[fixes.Change]], digits: int, width: int, room: _Room
) -> list[Block]:
    made = []
    shown = {relative(place.file) for place in explanation.trail if place.source}
    for at, (fix, rows) in enumerate(zip(explanation.fixes, changed, strict=False)):
        most = room.second if at else room.changes
        if not most:
            continue
        named = len({*shown, *(relative(row.file) for row in rows)}) > 1
        made.append(
            Block("fix", tuple(fixes.lines(fix, rows, digits, width, most, named, "or" if at else "fix")))
        )
    return made


def _notes(explanation: Explanation, width: int, most: int) -> list[Line]:
    pieces = [piece for note in explanation.notes for piece in wrap(note, width - 2)]
    if len(pieces) > most:
        pieces = [*pieces[: most - 1], "..."]
    return [(Span("  "), Span(piece)) for piece in pieces]


def _footer(explanation: Explanation, width: int, script: str | None) -> list[Line]:
    """The commands that go on from here: those that apply."""
    commands = []
    target = running_script() if script is None else script
    kinds = {fix.applicability for fix in explanation.fixes if fix.edits}
    # A rank is started by a launcher, whose options are not known here: the script does not run without it.
    if target and explanation.environment.rank is None and kinds & {"safe", "unsafe"}:
        options = [] if not explanation.environment.simulated else [_simulated(explanation)]
        options.append("--fix" if "safe" in kinds else "--fix --unsafe-fixes")
        commands.append(("apply it: ", f"python -m whydevice {' '.join(options)} {clean(target)}"))
    if explanation.cause is not None:
        commands.append(("more: ", f"python -m whydevice --explain {clean(explanation.cause.name)}"))
    made: list[Line] = []
    if sum(width_of(label + command) for label, command in commands) + 6 * len(commands) - 4 <= width:
        spans = [Span("  ")]
        for label, command in commands:
            spans += [Span(label, "dim"), Span(command), Span("      ")]
        return [tuple(spans)] if commands else []
    long = max(len(label) for label, _ in commands)
    for label, command in commands:
        first, *more = wrap(command, width - 2 - long)
        made.append((Span("  "), Span(f"{label:<{long}}", "dim"), Span(first)))
        made += [(Span(" " * (long + 2)), Span(piece)) for piece in more]
    return made


def _simulated(explanation: Explanation) -> str:
    """The option that runs the script as it ran."""
    gpus = explanation.environment.gpus
    return "--simulate-cuda" if gpus < 2 else f"--simulate-cuda={gpus}"


def running_script() -> str | None:
    """What `python` was started with, as `--fix` takes it: `train.py`, `-m pkg.train`; None in a notebook."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    name = getattr(spec, "name", None)
    if isinstance(name, str) and name:
        return f"-m {name.removesuffix('.__main__')}"
    file = getattr(main, "__file__", None)
    if not isinstance(file, str) or not os.path.isfile(file):
        return None
    shown = relative(os.path.abspath(file))
    return f"'{shown}'" if " " in shown else shown
