"""Where the lines of a text start, found a stretch at a time: of a long file few lines are asked for."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate

from ..patterns import pattern

# What Python's tokenizer ends a line at. `str.splitlines` splits at form feeds and much of Unicode besides.
NEWLINE = pattern(r"\r\n|\r|\n")
_LINE_FEED = re.compile(r"\n")
_STRETCH = 1 << 14
"""Characters in which the line feeds are looked for at once; elsewhere they are only counted."""


class Lines:
    """The lines of a text, counted from 1, and the offsets at which they start."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.lone_returns = text.count("\r") - text.count("\r\n") if "\r" in text else 0
        """Carriage returns that end a line by themselves. A text with any (of the nineties) is one stretch."""
        self._found: dict[int, list[int]] = {}
        self._stretch = _STRETCH if not self.lone_returns else len(text) + 1
        self._newline = _LINE_FEED if not self.lone_returns else NEWLINE
        starts = range(0, len(text) + 1, self._stretch)
        # How many lines end in each stretch and in those before it.
        self._ended = list(accumulate(text.count("\n", at, at + self._stretch) for at in starts))
        self._ended[-1] += self.lone_returns
        self.count = self._ended[-1] + 1

    def _starts(self, number: int) -> list[int]:
        """The offsets just after the newlines of a stretch."""
        if number not in self._found:
            first = number * self._stretch
            matches = self._newline.finditer(self._text, first, first + self._stretch)
            self._found[number] = [match.end() for match in matches]
        return self._found[number]

    def _before(self, number: int) -> int:
        return self._ended[number - 1] if number else 0

    def start(self, line: int) -> int:
        """The offset of a line's first character. Raises IndexError for a line that is not there."""
        if line == 1:
            return 0
        if not 1 <= line <= self.count:
            raise IndexError(line)
        number = bisect_left(self._ended, line - 1)
        return self._starts(number)[line - 2 - self._before(number)]

    def at(self, offset: int) -> int:
        """The line that holds an offset."""
        number = min(max(offset, 0) // self._stretch, len(self._ended) - 1)
        return 1 + self._before(number) + bisect_right(self._starts(number), offset)
