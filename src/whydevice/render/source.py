"""One source line as it is shown: tabs expanded, invisible characters spelt out, cut around what is marked.

Columns of the source (characters) are turned into terminal columns, so that an underline stands below its
text also behind wide characters.
"""

from __future__ import annotations

from typing import NamedTuple

from .tree import Line, Span, Style, take, visible, width_of, wrap

_TAB = 4
# No line that a person wrote is longer; a minified one is not even looked through.
_LONGEST = 5000
_DOTS = "..."
_BETWEEN = 6  # columns between a label and the next mark, lest the two be read as one


class Mark(NamedTuple):
    """Columns of a source line to underline, in characters, and what to say about them."""

    start: int
    end: int
    label: str = ""
    culprit: bool = False


class Shown(NamedTuple):
    """A line's text and, for each column of the source, the terminal column where it is shown."""

    text: str
    cells: tuple[int, ...]

    @classmethod
    def of(cls, raw: str) -> Shown:
        parts: list[str] = []
        cells = [0]
        at = 0
        for char in raw.rstrip("\r\n")[:_LONGEST]:
            part = " " * (_TAB - at % _TAB) if char == "\t" else visible(char)
            at += width_of(part)
            parts.append(part)
            cells.append(at)
        return cls("".join(parts).rstrip(), tuple(cells))

    def cell(self, column: int) -> int:
        return self.cells[max(0, min(column, len(self.cells) - 1))]

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def code_rows(shown: Shown, marks: list[Mark], dedent: int, width: int) -> list[Line]:
    """The code, and below it the underlines with their labels, in at most `width` columns."""
    spots = _spots(shown, marks)
    text, spots = _fitted(shown.text[dedent:], [(s - dedent, e - dedent, m) for s, e, m in spots], width)
    rows: list[Line] = [(Span(text),)]
    if spots:
        rows += _underlines(spots, width)
    return rows


Spot = tuple[int, int, Mark]


def _spots(shown: Shown, marks: list[Mark]) -> list[Spot]:
    """The marks in terminal columns, left to right, those that overlap joined."""
    spots: list[Spot] = []
    for mark in sorted(marks, key=lambda m: (m.start, -m.end)):
        start, end = shown.cell(mark.start), min(shown.cell(mark.end), width_of(shown.text))
        if end <= start:
            continue
        if spots and start < spots[-1][1]:
            before = spots[-1]
            if before[2].label and not mark.culprit:
                continue  # what is said of the whole stands for its parts
            both = "; ".join(dict.fromkeys(filter(None, (before[2].label, mark.label))))
            keep = (start, end) if mark.culprit and not before[2].culprit else before[:2]
            joined = Mark(0, 0, both, mark.culprit or before[2].culprit)
            spots[-1] = (*keep, joined)
        else:
            spots.append((start, end, mark))
    return spots


def _fitted(text: str, spots: list[Spot], width: int) -> tuple[str, list[Spot]]:
    """The text cut to the width so that the marks stay in sight, culprits first."""
    if width_of(text) <= width:
        return text, _clipped(spots, width)
    first = min((s for s, _, _ in spots), default=0)
    last = max((e for _, e, _ in spots), default=0)
    if last <= width - len(_DOTS):
        return take(text, width - len(_DOTS)) + _DOTS, _clipped(spots, width - len(_DOTS))
    if last - first > width - 2 * len(_DOTS):
        chosen = [spot for spot in spots if spot[2].culprit] or spots
        first, last = chosen[0][0], chosen[0][1]
    room = width - 2 * len(_DOTS)
    start = max(0, min(first - room // 4, last - room)) if last - first <= room else first
    start = min(start if start >= last - room else last - room, first)
    if start <= len(_DOTS):
        # Dots would stand for no more than they take.
        return take(text, width - len(_DOTS)) + _DOTS, _clipped(spots, width - len(_DOTS))
    head = take(text, start)
    # A wide character may stand across the cut.
    start = width_of(head)
    tail = text[len(head) :]
    shift = start - len(_DOTS)
    body = take(tail, room)
    end = start + width_of(body)
    more = _DOTS if len(body) < len(tail) else ""
    kept = [(max(s, start) - shift, min(e, end) - shift, m) for s, e, m in spots if s < end and e > start]
    return f"{_DOTS}{body}{more}", kept


def _clipped(spots: list[Spot], width: int) -> list[Spot]:
    return [(max(s, 0), min(e, width), m) for s, e, m in spots if s < width and e > 0]


def _style(mark: Mark) -> Style:
    return "culprit" if mark.culprit else "other"


def _underlines(spots: list[Spot], width: int) -> list[Line]:
    """`^^^^` and `----` below their text, with the labels beside them where there is room, else on rows
    below.
    """
    under: list[Span] = []
    waiting: list[Spot] = []
    at = 0
    for spot, after in zip(spots, [*spots[1:], None], strict=True):
        start, end, mark = spot
        under += [
            Span(" " * (start - at)),
            Span(("^" if mark.culprit else "-") * (end - start), _style(mark)),
        ]
        at = end
        if after is not None and mark.label and end + 1 + width_of(mark.label) + _BETWEEN <= after[0]:
            under += [Span(" "), Span(mark.label, _style(mark))]
            at += 1 + width_of(mark.label)
        else:
            waiting.append(spot)
    rows: list[Line] = []
    pending = [spot for spot in waiting if spot[2].label]
    *_, (_, last_end, last) = spots
    if last.label:
        room = width - last_end - 1
        beside = wrap(last.label, max(room, 1))
        if len(beside) == 1 or room >= 28:
            pending.pop()
            rows.append((*under, Span(" " + beside[0], _style(last))))
            for more in beside[1:]:
                rows.append((*_bars(pending, last_end + 1), Span(more, _style(last))))
            under = []
    if under:
        rows.append(tuple(under))
    while pending:
        start, _, mark = pending[-1]
        rows.append(_bars(pending, start + 1))
        pending.pop()
        # A label near the right edge moves left until it has room, but not onto the bars of others.
        begin = max(0, min(start, width - min(width_of(mark.label), 32)))
        if pending:
            begin = max(begin, pending[-1][0] + 2)
        for piece in wrap(mark.label, max(width - begin, 1)):
            rows.append((*_bars(pending, begin), Span(piece, _style(mark))))
    return rows


def _bars(spots: list[Spot], until: int) -> Line:
    """A `|` below each mark that still waits for its label, and spaces up to `until`."""
    spans: list[Span] = []
    at = 0
    for start, _, mark in spots:
        spans += [Span(" " * (start - at)), Span("|", _style(mark))]
        at = start + 1
    return (*spans, Span(" " * (until - at)))
