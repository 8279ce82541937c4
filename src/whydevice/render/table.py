"""The table of operands: what took part, on which device, what it is, and where else it shows."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from ..types import Explanation, Operand
from .paths import place as place_of
from .paths import relative
from .tree import Block, Line, Span, Style, clean, cut, take, width_of

_MOST_ROWS = 8
_WIDEST = {"operand": 44, "device": 26, "what": 40}
_NO_LIMIT = 1000
_ENOUGH = 30
"""Columns in which an operand can be recognised."""
_NARROWEST = 16
"""Of an operand's column: what gives way before it is the last column, and no device does."""
_PATH = re.compile(r"[\w.]+(?:\[[^][()]*\]|\.\w+|\[\.\.\.\])*")


class _Row(NamedTuple):
    cells: tuple[str, str, str, str]
    culprit: bool
    device: str


def operands(
    explanation: Explanation, width: int, most: int = _MOST_ROWS, skip: frozenset[str] = frozenset()
) -> Block:
    """The table; empty when `skip`, what the snippets say already, leaves it nothing to add."""
    rows = _rows(explanation)
    told = not explanation.also and all(row.cells[0] in skip for row in rows)
    if not rows or (told and explanation.cause is not None):
        return Block("operands", ())
    names = ["operand", "device", "what", "seen in"]
    used = [at for at in range(4) if at < 2 or any(row.cells[at] for row in rows)]
    shown = _chosen(rows, most)
    head, cells = _columns(
        [names[at] for at in used], [[row.cells[at] for at in used] for row in shown], width - 2
    )
    widths = _widths([head, *cells], width - 2)
    lines: list[Line] = [_line(head, widths, "dim")]
    lines += [
        _line(row, widths, "culprit" if of.culprit else "") for row, of in zip(cells, shown, strict=True)
    ]
    if len(shown) < len(rows):
        lines.append((Span("  "), Span(cut(_folded(rows, shown), width - 2), "dim")))
    every = tuple(tuple(row.cells[at] for at in used) for row in rows)
    return Block(
        "operands",
        tuple(lines),
        (tuple(names[at] for at in used), *every),
        frozenset(at for at, row in enumerate(rows) if row.culprit),
    )


def _rows(explanation: Explanation) -> list[_Row]:
    also = {(one.expression, one.device): one for one in explanation.also}
    fails = explanation.trail[-1] if explanation.trail else None
    rows = []
    for operand in explanation.operands:
        next_one = also.pop((operand.expression, operand.device or ""), None)
        seen = []
        if (
            operand.file
            and operand.line
            and (fails is None or (operand.file, operand.line) != (fails.file, fails.line))
        ):
            seen.append(place_of(relative(operand.file), operand.line))
        if next_one is not None:
            place = place_of(relative(next_one.file), next_one.line)
            seen += [place] * (place not in seen) + ["would fail next"]
        if explanation.cause is None and operand.role:
            op = explanation.error.op
            seen.append(f"as `{operand.role}`" + (f" of {op}" if op else ""))
        rows.append(_row(operand, ", ".join(seen)))
    for one in also.values():
        place = place_of(relative(one.file), one.line) + ", would fail next"
        rows.append(_Row((clean(one.expression), clean(one.device), "", clean(place)), True, one.device))
    return rows


def _row(operand: Operand, seen: str) -> _Row:
    device = (operand.device or "unknown") + (" (inferred)" if operand.inferred else "")
    cells = (clean(operand.expression), clean(device), clean(operand.what), clean(seen))
    return _Row(cells, operand.culprit, operand.device or "unknown")


def _chosen(rows: list[_Row], most: int) -> list[_Row]:
    """All rows, or the first ones, the culprits before any other, in their order."""
    if len(rows) <= most:
        return rows
    first = sorted(range(len(rows)), key=lambda at: (not rows[at].culprit, at))[:most]
    return [rows[at] for at in sorted(first)]


def _folded(rows: list[_Row], shown: list[_Row]) -> str:
    hidden = [row for row in rows if row not in shown]
    devices = Counter(clean(row.device) for row in hidden)
    return f"... and {len(hidden)} more: " + ", ".join(
        f"{n} on {device}" for device, n in devices.most_common()
    )


def _columns(names: list[str], rows: list[list[str]], room: int) -> tuple[list[str], list[list[str]]]:
    """The columns; what an operand is and where it is seen share one where there is no room for both."""
    needs = _needs([names, *rows])
    if len(names) < 4 or min(needs[0], _ENOUGH) + sum(needs[1:]) + 3 * (len(names) - 1) <= room:
        return names, rows
    return [*names[:2], ", ".join(names[2:])], [
        [*row[:2], ", ".join(cell for cell in row[2:] if cell)] for row in rows
    ]


def _needs(table: list[list[str]]) -> list[int]:
    """What each column needs, up to the most that it is given."""
    return [
        min(max(width_of(row[at]) for row in table), _WIDEST.get(name, _NO_LIMIT))
        for at, name in enumerate(table[0])
    ]


def _widths(table: list[list[str]], room: int) -> list[int]:
    """What each column gets; the operand gives way first, then what it is, and the device last."""
    widths = _needs(table)
    over = sum(widths) + 3 * (len(widths) - 1) - room
    for at, least in [
        (0, _NARROWEST),
        *((at, 6) for at in range(len(widths) - 1, -1, -1) if at != 1),
        (1, 6),
    ]:
        given = max(min(over, widths[at] - least), 0)
        widths[at] -= given
        over -= given
    return widths


def _cut(cell: str, width: int) -> str:
    """As much of a cell as fits: of a path (`model.body.weight`) its end says as much as its beginning."""
    if width_of(cell) <= width or width < 12 or not _PATH.fullmatch(cell):
        return cut(cell, width)
    ends = [cell[at:] for at in range(1, len(cell)) if cell[at] in ".["]
    tail = next((end for end in ends if width_of(end) <= width * 2 // 3), "")
    return take(cell, width - 3 - width_of(tail)) + "..." + tail


def _line(cells: list[str], widths: list[int], style: Style) -> Line:
    parts = [_cut(cell, width) for cell, width in zip(cells, widths, strict=True)]
    padded = [part + " " * (width - width_of(part)) for part, width in zip(parts, widths, strict=True)]
    spans = [Span("  ")]
    for at, part in enumerate(padded):
        # Of a culprit's row the operand and its device are coloured.
        spans.append(
            Span(
                part if at + 1 == len(padded) else part + "   ", style if style != "culprit" or at < 2 else ""
            )
        )
    return tuple(spans)
