"""Of a long file, the module's own statements that belong to what was read of it.

A statement belongs when it binds a name that is read in a part that was read, moves something (`.to(`, `.cuda(`),
or is a block (`if`, `for`, `with`): what a script does at its top level. Tables of constants do not.
"""

from __future__ import annotations

import ast
import re
import weakref
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from ..patterns import pattern
from .text import EditError

if TYPE_CHECKING:
    from .parsed import Parsed

MOST_LINES = 1500
"""Lines of top-level code that are parsed at most."""

# The newline comes first, so that the regular expression engine can look for it alone: `^` takes four times as long.
_NEXT = pattern(r"\n(?!(?:else|elif|except|finally)\b)(?:[^\W\d]|@|\"\"\"|''')")
# A statement that is no definition: of those there can be thousands, and none of them is the module's own code.
_START = pattern(
    r"\n(?!(?:else|elif|except|finally|def|class|async[ \t]+def)\b)"
    r"(?:(?P<other>\"\"\"|'''|(?:import|from|pass|del|global|assert|raise)\b)|(?P<block>async|if|for|while|with|try|match)[ \t:(]"
    r"|(?P<binds>[^\W\d]\w*)(?=[ \t]*=[^=])|[^\W\d])"
)
_MOST_MOVES = 200
_TRIPLE = pattern(r"\"\"\"|'''")
# Comments and strings, the triple-quoted ones marked.
_STRINGS = pattern(
    r"#[^\n]*|(?P<triple>\"\"\"|''')(?:[^\\]|\\.)*?(?P=triple)|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'",
    re.DOTALL,
)
_WORD = pattern(r"[^\W\d]\w*")
_MOVES = (".to(", ".cuda(", ".cpu(", "set_default_device", "set_default_tensor_type")


class Outline:
    """The top-level statements of a long file, read as they are wanted.

    Statements are numbered in order. There can be tens of thousands, so that what is known of each is plain ints
    and strings: an object for each would set off the garbage collector, which looks at all of the script's.
    """

    def __init__(self, source: Parsed) -> None:
        self.source: Parsed = weakref.proxy(source)  # which holds us
        self.body: list[ast.stmt] = []
        self._firsts: list[
            int
        ] = []  # the offset at which each statement starts, those of definitions left out
        self._kinds: dict[int, str] = {}  # of those that are no `name = value`
        self._binds: dict[str, int] = {}  # the first that binds a name, or uses it for an effect
        self._more: dict[str, list[int]] = {}  # and the others
        self._strings = _string_spans(source.text)
        self._find()
        self._kept: set[int] = set()
        self._lines = 0
        self._seen = 0
        self._words: set[str] = set()

    def grow(self, ranges: list[tuple[int, int]]) -> list[ast.stmt]:
        """The statements that belong to the parts that were read (first line, line after the last)."""
        if len(ranges) == self._seen:
            return self.body
        fresh = ranges[self._seen :]
        pending = self._always(fresh) if not self._seen else []
        pending += [word for first, last in fresh for word in self._read(first, last)]
        while pending:
            word = pending.pop()
            if word in self._binds:
                for number in (self._binds[word], *self._more.get(word, ())):
                    pending += self._keep(number)
        known = self.source.units()
        self._seen = len(known)
        found: dict[tuple[int, int], ast.stmt] = {}
        for statement in (s for unit in known for s in unit.body):
            found.setdefault((statement.lineno, statement.col_offset), statement)
        self.body = [found[place] for place in sorted(found)]
        return self.body

    def _read(self, first: int, last: int) -> list[str]:
        """The words in lines that were not met before."""
        source = self.source
        end = source.line_start(last) if last <= source.line_count else len(source.text)
        fresh = set(_WORD.findall(source.text, source.line_start(first), end)) - self._words
        self._words |= fresh
        return sorted(fresh)

    def _always(self, near: list[tuple[int, int]]) -> list[str]:
        """Read the moves, and the blocks from the nearest on; the words in them."""
        text = self.source.text
        moves: set[int] = set()
        for word in _MOVES:
            at = text.find(word)
            while at >= 0 and len(moves) < _MOST_MOVES:
                moves.add(self._holding(at))
                at = text.find(word, at + 1)
        line = near[0][0] if near else 1
        blocks = sorted(
            (n for n, kind in self._kinds.items() if kind == "block"),
            key=lambda n: abs(self._first_line(n) - line),
        )
        wanted = [n for n in (*sorted(moves), *blocks) if n >= 0]
        return [word for number in wanted for word in self._keep(number)]

    def _keep(self, number: int) -> list[str]:
        """Read a statement; the words in it that were not met before."""
        first = self._first_line(number)
        end = self._end(number)
        last = self.source.line_at(end) if end < len(self.source.text) else self.source.line_count + 1
        while last > first + 1 and self.source.line(last - 1)[:1] in ("", "#"):
            last -= 1  # comments behind it cost nothing, however many
        if number in self._kept or self._lines + last - first > MOST_LINES:
            return []
        self._kept.add(number)
        self._lines += last - first
        try:
            self.source.read_lines(first, last)
        except EditError:
            return []
        return self._read(first, last)

    def _first_line(self, number: int) -> int:
        """The line on which a statement starts."""
        return self.source.line_at(self._firsts[number])

    def _end(self, number: int) -> int:
        """The offset at which the next statement starts, or the file ends."""
        text = self.source.text
        for match in _NEXT.finditer(text, self._firsts[number]):
            if not self._in_string(match.start() + 1):
                return match.start() + 1
        return len(text)

    def _holding(self, offset: int) -> int:
        """The statement in which an offset lies; -1 in a definition."""
        number = bisect_right(self._firsts, offset) - 1
        return number if number >= 0 and offset < self._end(number) else -1

    def _in_string(self, offset: int) -> bool:
        """Whether a place is in a triple-quoted string, past its first character."""
        at = bisect_left(self._strings, (offset,)) - 1
        return at >= 0 and offset < self._strings[at][1]

    def _find(self) -> None:
        """Find the statements; a line in a triple-quoted string starts none."""
        for match in _START.finditer("\n" + self.source.text):
            kind, offset = match.lastgroup or "", match.start()  # that of the newline which was put in front
            if self._in_string(offset):
                continue
            if kind == "binds":
                self._note(match.group(kind), len(self._firsts))
            else:
                self._kinds[len(self._firsts)] = kind
                if not kind:
                    self._note_words(offset, len(self._firsts))
            self._firsts.append(offset)

    def _note_words(self, offset: int, number: int) -> None:
        """Note what a statement other than `name = value` binds, or every name of one that calls something."""
        text = self.source.text
        end = text.find("\n", offset)
        line = text[offset : end if end >= 0 else len(text)]
        head, equals, _ = line.partition("=")
        for word in set(_WORD.findall(head if equals and "(" not in head else line)):
            self._note(word, number)

    def _note(self, name: str, number: int) -> None:
        if self._binds.setdefault(name, number) != number:
            self._more.setdefault(name, []).append(number)


def _string_spans(text: str) -> list[tuple[int, int]]:
    """The offsets of triple-quoted strings."""
    spans: list[tuple[int, int]] = []
    opened: tuple[str, int] | None = None
    for match in _TRIPLE.finditer(text):
        if opened is None:
            opened = (match.group(), match.start())
        elif match.group() == opened[0]:
            spans.append((opened[1], match.end()))
            opened = None
    if opened is None:
        return spans
    # Such quotes in a comment or in another string: look at those too.
    return [match.span() for match in _STRINGS.finditer(text) if match.group("triple")]
