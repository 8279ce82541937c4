"""Reads a printed report as its reader does: what is false or broken in the text alone, beside its script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_CODE = re.compile(r"^ {3}( *\d+) \| ?(.*)$")
_BELOW = re.compile(r"^ {3}( +) \| ?(.*)$")
_CHANGE = re.compile(r"^ {3}( *\d+| +) ([-+])(.*)$")
_MARKS = re.compile(r"\^+|-{1,}")
_ON = re.compile(r"(?:^| )on ((?:cpu|meta|cuda:\d+)(?:, (?:cpu|meta|cuda:\d+))*)(?: \(inferred\))?$")


@dataclass
class Marked:
    """A piece of a code row that is underlined, and what stands beside it, if anything does."""

    number: int
    text: str
    label: str
    whole: bool


class Report:
    """A report at 80 columns, and the text of the script that it is about."""

    def __init__(self, text: str, script: str) -> None:
        self.lines, self.script = text.rstrip("\n").split("\n"), script.split("\n")

    def broken(self) -> list[str]:
        """What is wrong with it, in words."""
        return [*self._layout(), *self._code(), *self._carets(), *self._contradictions(), *self._diff()]

    def _layout(self) -> Iterator[str]:
        for line in self.lines:
            if len(line) > 80 or line != line.rstrip():
                yield f"too wide, or ends in a space: {line!r}"
        headline = self.lines[0]
        if headline.rstrip().endswith(".") or not headline.startswith("whydevice: "):
            yield f"no headline: {headline}"
        for line in self.rows():
            for cell in re.split(r" {3,}", line.strip())[1:]:
                if cell.endswith("...") and re.search(r"cpu|cuda|\.py|fail", cell):
                    yield f"a device or a place is cut: {line}"

    def _snippets(self) -> Iterator[tuple[str, int, str, list[str]]]:
        """(file, line number, code as shown, the rows below it)."""
        file = ""
        for at, line in enumerate(self.lines):
            place = re.match(r"^ {2}(\S+):(\d+)(?:$|[,:])", line)
            if place:
                file = place[1]
            found = _CODE.match(line)
            if found:
                below = []
                for follow in self.lines[at + 1 :]:
                    more = _BELOW.match(follow)
                    if more is None:
                        break
                    below.append(more[2])
                yield file, int(found[1]), found[2], below

    def _code(self) -> Iterator[str]:
        for file, number, shown, _ in self._snippets():
            if file != "script.py":
                continue
            true = self.script[number - 1] if number <= len(self.script) else ""
            text = shown.strip()
            begin = text.removeprefix("...").removesuffix("...")
            if begin not in true:
                yield f"line {number} is shown as {text!r}, and is {true!r}"
            if text.startswith("...") and not true.startswith("...") and true.strip().startswith(begin[:20]):
                yield f"line {number} is shown with dots for nothing: {text!r}"

    def marked(self) -> Iterator[Marked]:
        """What is underlined in the snippets, with the label that follows on the same row."""
        for _, number, shown, below in self._snippets():
            row = below[0] if below else ""
            spans = [m for m in _MARKS.finditer(row) if not row[m.end() : m.end() + 1].isalnum()]
            for at, found in enumerate(spans):
                last = at == len(spans) - 1
                label = row[found.end() :].strip() if last else ""
                text = shown[found.start() : found.end()]
                if shown[found.end() :] == "...":
                    text = text.rstrip()
                whole = not (shown.startswith("...") and found.start() <= 3) and "..." not in text
                yield Marked(number, text, label if len(below) == 1 or not last else "", whole)

    def _carets(self) -> Iterator[str]:
        for each in self.marked():
            if not each.text or each.text[0] == " " or each.text[-1] == " ":
                yield f"line {each.number}: a mark under {each.text!r}"
            if each.text.count("(") < each.text.count(")"):
                yield f"line {each.number}: a mark that begins inside: {each.text!r}"

    def rows(self) -> list[str]:
        """The rows of the table, without its head."""
        for at, line in enumerate(self.lines):
            if re.match(r"^ {2}operand +device", line):
                rest = self.lines[at + 1 :]
                return rest[: rest.index("")] if "" in rest else rest
        return []

    def _contradictions(self) -> Iterator[str]:
        """One name, two devices: between the table, the marks and the headline."""
        said: dict[str, set[str]] = {}
        for line in self.rows():
            cells = re.split(r" {3,}", line.strip())
            if len(cells) > 1 and "..." not in cells[0]:
                said.setdefault(cells[0], set()).add(cells[1].removesuffix(" (inferred)"))
        for each in self.marked():
            device = _ON.search(each.label)
            if device and each.whole:
                said.setdefault(each.text, set()).add(device[1])
        for name, devices in said.items():
            single = {d for d in devices if ", " not in d}
            if len(single) > 1:
                yield f"`{name}` is on {sorted(devices)}"
        headline = " ".join(line.strip() for line in self.lines[: self.lines.index("")])
        for name, device in re.findall(r"`([^`]+)` is on ((?:cpu|meta|cuda:\d+))", headline):
            for other in said.get(name, {device}):
                if device not in other.split(", "):
                    yield f"`{name}` is on {device} in the headline, and on {other} below"

    def _diff(self) -> Iterator[str]:
        """A line that is taken away is the script's, broken rows put together again."""
        joined: list[tuple[str, str, str]] = []
        for line in self.lines:
            found = _CHANGE.match(line)
            if found is None:
                continue
            if found[1].strip():
                joined.append((found[2], found[1], found[3]))
            elif joined:
                joined[-1] = (*joined[-1][:2], joined[-1][2].removesuffix(" \\") + found[3].lstrip())
        for sign, number, text in joined:
            true = self.script[int(number) - 1] if int(number) <= len(self.script) else ""
            if sign == "-" and _bare(text.removesuffix("...")) not in _bare(true):
                yield f"line {number} is taken away as {text!r}, and is {true!r}"


def _bare(code: str) -> str:
    return re.sub(r"\s+", "", code)
