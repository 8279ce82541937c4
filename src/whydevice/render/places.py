"""The places of an explanation's trail: `file:line, in function`, and the source lines with what is marked in
them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..types import Explanation, Operand, Place
from .paths import place as place_of
from .paths import relative
from .source import Mark, Shown, code_rows
from .tree import Line, Span, clean, cut, cut_left, width_of, wrap

# Places of one function that are no further apart share a snippet.
_NEAR = 6
_MOST_LABELS = 3


@dataclass(repr=False, eq=False)
class Row:
    """A source line of a snippet."""

    number: int
    source: str
    marks: list[Mark] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(repr=False, eq=False)
class Snippet:
    """Neighbouring places of one function. `fails` is the line where it failed, if it is among them."""

    file: str
    function: str | None
    rows: dict[int, Row] = field(default_factory=dict)
    fails: int | None = None

    def takes(self, place: Place) -> bool:
        return (place.file, place.function) == (self.file, self.function) and any(
            abs(number - place.line) <= _NEAR for number in self.rows
        )


def snippets(explanation: Explanation) -> list[Snippet]:
    """The trail, from where it was made to where it failed, neighbours joined."""
    found: list[Snippet] = []
    trail = explanation.trail
    for place in trail:
        if not found or not found[-1].takes(place):
            found.append(Snippet(place.file, place.function))
        _add(found[-1], place, explanation)
    if trail:
        found[-1].fails = trail[-1].line
        _label(found[-1].rows[trail[-1].line], explanation)
    for snippet in found:
        for row in snippet.rows.values():
            if len(row.marks) == 1 and (snippet is not found[-1] or row.number != snippet.fails):
                # What a line before the failing one underlines alone is what the report is about.
                row.marks = [row.marks[0]._replace(culprit=True)]
    return found


def described(snippets: list[Snippet]) -> set[str]:
    """The expressions that the snippets already describe, device and all."""
    return {
        row.source[mark.start : mark.end]
        for snippet in snippets
        for row in snippet.rows.values()
        for mark in row.marks
        if " on " in f" {mark.label}"
    }


def lines(snippet: Snippet, digits: int, width: int) -> Iterator[Line]:
    """The header and the numbered source lines."""
    rows = [snippet.rows[number] for number in sorted(snippet.rows)]
    yield from _header(snippet, rows, width)
    shown = [Shown.of(row.source) for row in rows]
    room = width - digits - 6
    wide = any(width_of(one.text) > room for one in shown)
    dedent = min((one.indent for one in shown if one.text), default=0) if wide else 0
    for row, one in zip(rows, shown, strict=True):
        if not one.text:
            continue
        gutter = f"   {row.number:>{digits}} | "
        for part in code_rows(one, row.marks, dedent, room):
            yield (Span(gutter, "gutter"), *part)
            gutter = f"   {'':>{digits}} | "
        for note in row.notes:
            for piece in wrap(note, room - one.indent + dedent):
                yield (Span(gutter + " " * (one.indent - dedent), "gutter"), Span(piece, "other"))


def number_width(snippets: list[Snippet], others: list[int]) -> int:
    """The digits of the largest line number shown."""
    numbers = [number for snippet in snippets for number in snippet.rows] + others
    return max((len(str(number)) for number in numbers), default=1)


def source_line(place: Place, sources: Mapping[str, str]) -> str:
    """The place's line with its indentation, which the columns count."""
    given = place.source.split("\n")[0]
    text = sources.get(place.file)
    if text is None or (given and given[:1].isspace()):
        return given
    found = text.splitlines()[place.line - 1 : place.line]
    # A file that has changed since must not lend its text to an old line.
    return found[0] if found and (not given or found[0].strip() == given.strip()) else given


def _add(snippet: Snippet, place: Place, explanation: Explanation) -> None:
    row = snippet.rows.get(place.line)
    if row is None:
        row = snippet.rows[place.line] = Row(place.line, source_line(place, explanation.sources))
    marks = _marks(place, row.source, explanation)
    if marks:
        row.marks += [mark for mark in marks if mark not in row.marks]
    elif place.note and place.note not in row.notes:
        row.notes.append(place.note)


def _marks(place: Place, source: str, explanation: Explanation) -> list[Mark]:
    """What the place underlines: nothing when its columns do not lie in the source that we have."""
    if place.column is None or not 0 <= place.column < len(source):
        return []
    end = place.end_column
    if end is None or (place.end_line or place.line) > place.line or end > len(source):
        end = len(source.rstrip())
    if end <= place.column:
        return []
    culprit = explanation.culprit
    wrong = culprit is not None and source[place.column : end] == culprit.expression
    return [Mark(place.column, end, place.note, wrong)]


def _label(row: Row, explanation: Explanation) -> None:
    """Name the operands' devices at the failing line, where the trail has not done so.

    The culprits come first, then what they disagree with. An operand is looked up in the line's own syntax
    tree; one that is not there is left to the table.
    """
    if sum(1 for mark in row.marks if mark.label) > 1:
        return
    found: list[tuple[Mark, Operand]] = []
    taken = [mark for mark in row.marks if mark.label]
    for operand in sorted(explanation.operands, key=lambda operand: not operand.culprit):
        at = _position(row.source, operand.expression) if operand.device else None
        if at is None or any(mark.start < at[1] and at[0] < mark.end for mark in taken):
            continue
        taken.append(Mark(*at, "", operand.culprit))
        found.append((taken[-1], operand))
        if len(taken) == _MOST_LABELS:
            break
    row.marks += _culprit_mark(row, explanation, taken)
    short = len(found) > 2
    named = [Mark(mark.start, mark.end, label_of(operand, short), mark.culprit) for mark, operand in found]
    bare = [mark for mark in row.marks if not mark.label]
    row.marks = [mark for mark in row.marks if mark.label] + named
    row.marks += [
        one for one in bare if not any(one.start < mark.end and mark.start < one.end for mark in row.marks)
    ]


def _culprit_mark(row: Row, explanation: Explanation, taken: list[Mark]) -> list[Mark]:
    """The culprit where the failing line reads it and no operand stands there: a generator, a list of results."""
    culprit, fails = explanation.culprit, explanation.trail[-1]
    if culprit is None or culprit.device is None or (culprit.file, culprit.line) != (fails.file, fails.line):
        return []
    at = _position(row.source, culprit.expression)
    marked = [*row.marks, *taken]
    if at is None or any(
        mark.start < at[1] and at[0] < mark.end for mark in marked if mark.label or mark in taken
    ):
        return []
    if any(row.source[mark.start : mark.end] == culprit.expression for mark in marked):
        return []
    said = f"`{culprit.expression}` is on {culprit.device}" in explanation.headline
    return [Mark(*at, f"on {culprit.device}" if said else "", True)]


def label_of(operand: Operand, short: bool = False) -> str:
    """`float32[32, 784] on cpu`, `MLP, 4 parameters on cuda:0`; in short `on cpu`."""
    where = f"on {operand.device}" + (" (inferred)" if operand.inferred else "")
    return where if short or not operand.what else f"{operand.what} {where}"


def _position(source: str, expression: str) -> tuple[int, int] | None:
    """The columns where the line reads the expression; None when it does not or is no whole statement."""
    if expression not in source or len(source) > 2000:
        return None
    indent = len(source) - len(source.lstrip())
    code = source.strip()
    for text in (code, code + " pass", f"if 1: pass\n{code} pass"):
        try:
            tree = ast.parse(text)
            break
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    else:
        return None
    shown = text.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or node.end_lineno != node.lineno or node.end_col_offset is None:
            continue
        if (
            isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))
            or shown[node.lineno - 1][: len(code)] != code
        ):
            continue
        encoded = code.encode("utf-8", "surrogatepass")
        start, end = (
            len(encoded[:offset].decode("utf-8", "surrogatepass"))
            for offset in (node.col_offset, node.end_col_offset)
        )
        if code[start:end] == expression:
            return start + indent, end + indent
    return None


def _header(snippet: Snippet, rows: list[Row], width: int) -> Iterator[Line]:
    """`script.py:14, in init_hidden: fails here`; a single note that underlines nothing is said here too."""
    number = snippet.fails if snippet.fails is not None else rows[0].number
    path = cut_left(clean(relative(snippet.file)), width - 4 - len(str(number)))
    said = []
    if snippet.fails is not None:
        said.append("fails here")
    for row in rows:
        if row.number == number and len(row.notes) == 1 and row.notes != ["fails here"]:
            said.append(row.notes[0])
            row.notes = []
        row.notes = [note for note in row.notes if note != "fails here"]
    rest = f", in {clean(snippet.function)}" if snippet.function else ""
    rest = cut(rest, width - 20) + (": " + "; ".join(said) if said else "")
    place = place_of(path, number)
    first, *more = wrap(rest.removeprefix(", "), width - 8, width - 2 - width_of(place) - 2)
    joint = "" if not rest or not first else ": " if rest.startswith(": ") else ", "
    yield (Span("  "), Span(place, "place"), Span((joint + first.removeprefix(": ")) if joint else ""))
    for piece in more:
        yield (Span("      "), Span(piece))
